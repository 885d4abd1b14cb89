"""Failures that are not Tawa's: Triton refuses the kernel, or a folder cannot be read or written.

They are classified here, for the command line and for Python:

| raised | becomes |
|---|---|
| an `OSError` where Triton keeps its cache | `SurroundingsError` with the folder; cure ``TRITON_CACHE_DIR`` |
| an `OSError` in the temporary folder | the same; cure ``TMPDIR`` |
| Triton's own errors, and any error raised in Triton's code | `CompileError` with the user's file and line |
| an error of Tawa's, ``KeyboardInterrupt`` | unchanged |
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tawa.bridge.triton.refusals import refusal
from tawa.errors import CompileError, SurroundingsError, TawaError

_LEAST_ROOM_BYTES = 1 << 20
_CACHE_VARIABLES = {"dir": "TRITON_CACHE_DIR", "dump_dir": "TRITON_DUMP_DIR", "override_dir": "TRITON_OVERRIDE_DIR"}


@contextmanager
def surroundings_named(kernel: Any, launched: bool = False) -> Iterator[None]:
    """Turns failures inside the block that are not Tawa's own into a `TawaError`.

    kernel: the `JITFunction` that is compiled, or a text that names it. launched: Triton's own errors keep their type,
    because its autotuner catches some of them, and get a note with the user's file and line.
    """
    try:
        yield
    except TawaError:
        raise
    except Exception as error:
        known = folder_failure(error) or refusal(error, kernel)
        if known is None:
            raise
        if launched and isinstance(known, CompileError):
            if known.location is not None:
                error.add_note(str(known))
            raise
        raise known from error


@contextmanager
def temporary_text(text: str, suffix: str) -> Iterator[str]:
    """The path of a temporary file that holds `text`, for programs that only read files."""
    path = ""
    try:
        try:
            handle, path = tempfile.mkstemp(suffix=suffix, prefix="tawa-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _temporary_failure(error) from error
        yield path
    finally:
        if path:
            os.unlink(path)


def folder_failure(error: BaseException) -> SurroundingsError | None:
    """The error for a folder that Triton could not read or write; None if `error` is about something else."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, OSError):
        for frame in reversed(frames):
            if _is_in(frame, "triton/runtime/cache.py"):
                return _cache_failure(frame.f_locals.get("self"), error)
        if any(map(_writes_temporary_file, frames)):
            return _temporary_failure(error)
    elif type(error).__name__ == "PTXASError" and _is_full(_temporary_folder()):
        return _temporary_failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    return None


def _cache_failure(manager: Any, error: OSError) -> SurroundingsError:
    from triton import knobs

    entry = getattr(manager, "cache_dir", None)
    root = str(Path(entry).parent) if entry else str(knobs.cache.dir)
    slots = {str(getattr(knobs.cache, slot)): variable for slot, variable in _CACHE_VARIABLES.items()}
    return _unusable("Triton's cache", root, error, slots.get(root, "TRITON_CACHE_DIR"))


def _temporary_failure(error: OSError) -> SurroundingsError:
    return _unusable("the temporary folder", _temporary_folder(), error, "TMPDIR")


def _unusable(what: str, folder: str, error: OSError, variable: str) -> SurroundingsError:
    reason = error.strerror or str(error)
    room = ", with room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    named = SurroundingsError(
        f"{what} {folder} cannot be used: {reason}\n  cure: {variable}=/another/folder that can be written{room}"
    )
    named.errno, named.filename = error.errno, error.filename
    return named


def _writes_temporary_file(frame: FrameType) -> bool:
    return frame.f_code.co_filename == tempfile.__file__ or (
        frame.f_code.co_name == "make_cubin" and _is_in(frame, "backends/nvidia/compiler.py")
    )


def _is_in(frame: FrameType, ending: str) -> bool:
    return frame.f_code.co_filename.replace(os.sep, "/").endswith(ending)


def _temporary_folder() -> str:
    """The folder; if Python finds none, the one that ``TMPDIR`` names."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return os.environ.get("TMPDIR", "/tmp")


def _is_full(folder: str) -> bool:
    try:
        return shutil.disk_usage(folder).free < _LEAST_ROOM_BYTES
    except OSError:
        return False
