"""The ResourceError for a compiled kernel that does not fit, in a form that Triton's autotuner understands.

The autotuner skips a configuration that raises Triton's `OutOfResources`; any other error ends the tuning. A
configuration with too large a depth must be skipped, so this class is both errors.

An error of a launch is kept in Triton's cache in place of the kernel: a tuner meets it again in every process.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from triton.runtime.errors import OutOfResources

from tawa.errors import PlanError, ResourceError
from tawa.outside import json_of, read, text_of


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


_FILE = "refused.json"


def keep_error(cache_hash: str, error: SharedMemoryError) -> None:
    """Keeps the error in an entry of Triton's cache."""
    from triton.runtime.cache import get_cache_manager

    with suppress(OSError):  # it is met again
        get_cache_manager(cache_hash).put(json.dumps(error.args), _FILE, binary=False)


def raise_kept(cache_key: str) -> None:
    """Raises the error that was kept for this key of Triton's cache, if there is one."""
    from triton import knobs
    from triton.runtime.cache import get_cache_manager

    if knobs.compilation.always_compile:
        return
    found: tuple[int, int, str] | None = None
    with suppress(Exception):  # a cache that cannot be read, or a damaged file: the kernel is compiled
        path = get_cache_manager(hashlib.sha256(cache_key.encode()).hexdigest()).get_file(_FILE)
        found = read(tuple[int, int, str], json_of(text_of(Path(path)))) if path is not None else None  # type: ignore[arg-type]
    if found is not None:
        raise SharedMemoryError(*found)
