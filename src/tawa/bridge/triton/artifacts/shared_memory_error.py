"""The ResourceError for a compiled kernel that does not fit, in a form that Triton's autotuner understands.

The autotuner skips a configuration that raises Triton's `OutOfResources`; any other error ends the tuning. A
configuration with too large a depth must be skipped, so this class is both errors.
"""

from __future__ import annotations

from typing import Any

from triton.runtime.errors import OutOfResources

from tawa.errors import PlanError, ResourceError


class SharedMemoryError(ResourceError, OutOfResources):
    """A kernel needs more shared memory than one CTA has. required, limit: bytes. text: the whole message."""

    def __init__(self, required: int, limit: int, text: str) -> None:
        OutOfResources.__init__(self, required, limit, "shared memory")
        self.text = text
        self.args = (required, limit, text)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        return (type(self), (self.required, self.limit, self.text))


class PlanTooLarge(PlanError, SharedMemoryError):
    """The same for a kernel whose Plan is pinned."""
