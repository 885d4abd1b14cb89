"""The ResourceError of a compiled kernel that does not fit, in a form that Triton's autotuner understands.

The autotuner skips a configuration that raises Triton's `OutOfResources`; any other error ends the tuning. A depth that
does not fit is such a configuration, so this class is both.
"""

from __future__ import annotations

from typing import Any

from triton.runtime.errors import OutOfResources

from tawa.errors import ResourceError


class SharedMemoryError(ResourceError, OutOfResources):
    """More shared memory than one CTA has. required, limit: bytes. text: the whole message."""

    def __init__(self, required: int, limit: int, text: str) -> None:
        OutOfResources.__init__(self, required, limit, "shared memory")
        self.text = text
        self.args = (required, limit, text)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        return (type(self), (self.required, self.limit, self.text))
