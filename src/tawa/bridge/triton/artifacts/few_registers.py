"""The ResourceError for a kernel that ptxas cannot compile with the registers that its warps leave to each thread.

Triton's autotuner skips a configuration that raises `PTXASError`, so the error is that as well.
"""

from __future__ import annotations

import re
from typing import Any

from triton.runtime.errors import PTXASError

from tawa.errors import ResourceError

_FEW = re.compile(r"(?:Insufficient registers \(|Register allocation failed with register count of ')(\d+)")


class FewRegisters(ResourceError, PTXASError):
    """A kernel needs more registers than its threads have. text: the whole message."""

    def __init__(self, text: str) -> None:
        PTXASError.__init__(self, text)
        self.text = text
        self.args = (text,)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        return (type(self), (self.text,))


def registers_that_were_too_few(error: BaseException) -> int | None:
    """How many registers of each thread were too few for ptxas; None if `error` is about something else."""
    found = _FEW.search(str(error)) if isinstance(error, PTXASError) else None
    return int(found[1]) if found else None
