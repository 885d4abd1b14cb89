"""Damaged entries of Triton's cache: removed, and the kernel compiled again, once.

A process that dies, a full disk, or ``truncate`` may leave a partial entry. Triton reads entries unchecked, and the
user gets a traceback of its JSON reader at every run. The record of each kernel of ours has checksums of the levels and
of itself, so that a change of these is detected as well.
"""

from __future__ import annotations

import json
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
from tawa.outside import Unfit, names_and_values, read

_log = logging.getLogger("tawa")

CHECKSUMS = "checksums"
_RECORD = "record"


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


def seal(metadata: Mapping[str, Any]) -> None:
    """Adds the checksum of the record, which is complete, where it has those of the levels."""
    made = metadata[record.KEY]
    if CHECKSUMS in made:
        made[CHECKSUMS][_RECORD] = _record_checksum(made)


def why_damaged(made: object, levels: Mapping[str, Any]) -> str:
    """What differs from what was written: a level, or the record; empty if nothing does.

    made: the record of a kernel; None for a kernel of another compiler. levels: those that were read.
    """
    if made is None:
        return ""
    try:
        known = names_and_values(made, "the record of Tawa")
        sums = read(Mapping[str, int], known.get(CHECKSUMS, {}), CHECKSUMS)
    except Unfit as error:
        return str(error)
    changed = [name for name, value in levels.items() if checksum(value) != sums.get(name, checksum(value))]
    if changed:
        return f"the {changed[0]} is not what was written"
    if _RECORD in sums and _record_checksum(known) != sums[_RECORD]:
        return "the record of Tawa is not what was written"
    return ""


def _record_checksum(made: Mapping[str, Any]) -> int:
    sums = {name: value for name, value in made[CHECKSUMS].items() if name != _RECORD}
    return checksum(json.dumps({**made, CHECKSUMS: sums}, sort_keys=True))


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
    reason = why_damaged(getattr(compiled.metadata, record.KEY, None), dict(levels))
    if not reason and "cubin" in levels and not is_whole(levels["cubin"]):
        reason = "the cubin is cut off"
    return (Path(paths[0]).parent, reason) if reason else None
