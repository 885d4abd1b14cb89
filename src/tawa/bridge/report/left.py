"""What a kernel that is left to stock Triton is told, in place of its levels."""

from __future__ import annotations

import locale

from tawa.remarks import Remark


def told(remark: Remark) -> str:
    """The text of a level of a declined kernel: a comment that says why."""
    text = "// not specialised: " + str(remark).replace("\n", "\n// ") + "\n"
    encoding = locale.getencoding()  # of the file that Triton writes it to
    return text.encode(encoding, "backslashreplace").decode(encoding)
