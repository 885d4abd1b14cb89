"""Damaged entries of Triton's cache: removed, and the kernel compiled again, once.

A process that dies, a full disk, or ``truncate`` may leave a partial entry. Triton reads entries unchecked, and the
user gets a traceback of its JSON reader at every run. The record of each kernel of ours has checksums, so that a
changed level is detected as well.
"""

from __future__ import annotations

import logging
import shutil
import traceback
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tawa.bridge.report import record
from tawa.bridge.triton.artifacts.cubin import is_whole
from tawa.errors import SurroundingsError

_log = logging.getLogger("tawa")

CHECKSUMS = "checksums"


def repaired(compile_once: Callable[[], Any]) -> Any:
    """Calls `compile_once`, which returns a `CompiledKernel` through Triton's cache; again if the entry is damaged."""
    try:
        compiled = compile_once()
    except Exception as error:
        found = _unreadable_entry(error)
        if found is None:
            raise
    else:
        found = _damaged_entry(compiled)
        if found is None:
            return compiled
    entry, reason = found
    _log.warning("the entry %s of Triton's cache is damaged (%s): compiled again", entry, reason)
    shutil.rmtree(entry, ignore_errors=True)
    if entry.exists():
        raise SurroundingsError(
            f"the entry {entry} of Triton's cache is damaged ({reason}) and cannot be removed\n"
            "  cure: remove it, or TRITON_CACHE_DIR=/another/folder that can be written"
        )
    return compile_once()


def overridden(options: Any) -> bool:
    """Whether the user may override a level by a file (``ir_override``, ``TRITON_KERNEL_OVERRIDE``)."""
    from triton import knobs

    return bool(getattr(options, "ir_override", None) or knobs.compilation.override)


def checksum(value: Any) -> int:
    """The checksum of a level, as Triton stores it."""
    return zlib.crc32(value if isinstance(value, bytes) else str(value).encode())


def _unreadable_entry(error: Exception) -> tuple[Path, str] | None:
    """The entry that Triton could not read, and why; None if `error` has another cause."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for at, frame in enumerate(frames[:-1]):
        manager = frame.f_locals.get("fn_cache_manager")
        # After Triton has listed the stages, it compiles and no longer reads the entry.
        reads = frames[at + 1].f_code.co_name in ("get_group", "__init__") and "stages" not in frame.f_locals
        entry = getattr(manager, "cache_dir", None)
        if entry and reads:
            half_made = frames[at + 1].f_locals.get("self")
            if half_made is not manager:
                vars(half_made).setdefault("module", None)  # Triton from 3.8 on reads it in `__del__`
            return Path(entry), f"{type(error).__name__}: {error}"
    return None


def _damaged_entry(compiled: Any) -> tuple[Path, str] | None:
    """The entry of a kernel that was read but is damaged, and why."""
    found: Mapping[str, Any] = getattr(compiled, "__dict__", {})  # getattr would wait for an asynchronous compile
    levels: Mapping[str, Any] = found.get("asm", {})
    paths = list(found.get("metadata_group", {}).values())
    if not paths:
        return None
    known = (getattr(compiled.metadata, record.KEY, None) or {}).get(CHECKSUMS, {})
    for name, value in dict(levels).items():
        if name in known and checksum(value) != known[name]:
            return Path(paths[0]).parent, f"the {name} is not what was written"
        if name == "cubin" and not is_whole(value):
            return Path(paths[0]).parent, "the cubin is cut off"
    return None
