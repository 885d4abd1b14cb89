"""The folders that Tawa and Triton write to: whether they can be used, how large they are, and how to clear them."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tawa.cli.doctor.finding import Finding, Findings
from tawa.errors import ISSUES_URL, TableError

_LEAST_FREE_BYTES = 1 << 30
_LARGE_BYTES = 20 << 30
"""A cache that is worth clearing."""


def folders() -> Findings:
    """Triton's cache, Tawa's tables and tuning sessions, reproducers, and the folder for temporary files."""
    yield _folder("Triton's cache", _triton_cache(), "TRITON_CACHE_DIR")
    yield from _tables()
    yield from _reproducers()
    try:
        yield _folder("temporary files", Path(tempfile.gettempdir()), "TMPDIR", measured=False)
    except FileNotFoundError as error:
        yield Finding("temporary files", str(error.strerror), "red", "TMPDIR=… of a folder that can be written")


def _triton_cache() -> Path:
    """Where Triton keeps kernels; by its rules, where it cannot be imported."""
    try:
        from tawa.bridge.triton.artifacts.stored_kernels import cache_folder

        return cache_folder()
    except ImportError:
        home = Path(os.environ.get("TRITON_HOME") or Path.home())
        return Path(os.environ.get("TRITON_CACHE_DIR") or home / ".triton" / "cache")


def _tables() -> Findings:
    from tawa.runtime.tuning.store import cache_folder, user_store

    store = user_store()
    try:
        entries = len(store.all())
    except TableError as error:
        what, _, cure = str(error).partition("; cure: ")
        yield Finding("tuned tables", what, "red", cure or f"rm -r {shlex.quote(str(store.folder))}")
    else:
        yield _folder("tuned tables", store.folder, "XDG_CACHE_HOME", f"{entries} entries")
    sessions = cache_folder() / "tuning"
    if sessions.is_dir():
        yield _folder("tuning sessions", sessions, "XDG_CACHE_HOME")


def _reproducers() -> Findings:
    from tawa.errors import PlanError
    from tawa.runtime.settings import Settings, default_reproducer_dir

    try:
        folder = Settings.from_environment().reproducer_dir
    except PlanError:  # has its own line
        folder = default_reproducer_dir()
    found = sorted(folder.glob("*/request.json"), key=lambda it: it.stat().st_mtime)
    if not found:
        yield _folder("reproducers", folder, "TAWA_REPRODUCER_DIR", "no internal error")
        return
    latest = found[-1].parent
    yield Finding(
        "reproducers",
        f"{folder}, {len(found)} internal {'error' if len(found) == 1 else 'errors'}, the last one {latest.name}",
        "yellow",
        f"tawa replay {shlex.quote(str(latest))}, and please report it: {ISSUES_URL}",
        hint=_clear(folder),
        data={"path": str(folder), "bytes": _size(folder)[0], "count": len(found)},
    )


def _folder(name: str, folder: Path, variable: str, about: str = "", measured: bool = True) -> Finding:
    """The finding on a folder that is written to. about: what is in it. measured: whether it is Tawa's or Triton's."""
    data = {"path": str(folder), "variable": variable}
    shown = ", ".join(filter(None, [str(folder), about]))
    try:
        _try_to_write(folder)
    except OSError as error:
        cure = f"make it writable, or set {variable} to a folder that is"
        return Finding(name, f"{shown}: cannot be written: {error.strerror or error}", "red", cure, data=data)
    size, files = _size(folder) if measured else (0, 0)
    data |= {"bytes": size, "files": files} if measured else {}
    text = f"{shown}, {_text(size)}" if files else f"{shown}, empty" if measured else shown
    clear = _clear(folder) if files else ""
    free = shutil.disk_usage(_existing(folder)).free
    if free < _LEAST_FREE_BYTES:
        cure = f"free space on this disk, or set {variable} to a folder on another one"
        return Finding(name, f"{text}; {_text(free)} are free on its disk", "yellow", cure, clear, data)
    if size > _LARGE_BYTES:
        return Finding(name, text, "yellow", clear.removeprefix("to clear it: "), data=data)
    return Finding(name, text, hint=clear, data=data)


def _clear(folder: Path) -> str:
    return f"to clear it: rm -r {shlex.quote(str(folder))}"


def _try_to_write(folder: Path) -> None:
    """Writes a file without a name, which leaves nothing behind; raises OSError. A folder that is not there is fine."""
    place = _existing(folder)
    if not place.is_dir():
        raise NotADirectoryError(0, f"{place} is no folder")
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(b"tawa doctor")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(it for it in (folder, *folder.parents) if it.exists() or it.is_symlink())


def _size(folder: Path) -> tuple[int, int]:
    """The bytes that the files below a folder take, and how many they are."""
    sizes = list(_sizes(str(folder)))
    return sum(sizes), len(sizes)


def _sizes(folder: str) -> Iterator[int]:
    try:
        with os.scandir(folder) as entries:
            for it in entries:
                if it.is_dir(follow_symlinks=False):
                    yield from _sizes(it.path)
                else:
                    yield it.stat(follow_symlinks=False).st_size
    except OSError:  # it has gone, or is not ours
        return


def _text(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
