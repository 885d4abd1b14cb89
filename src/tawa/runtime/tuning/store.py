"""The tables of this user: one file for each kernel, in ``$XDG_CACHE_HOME/tawa/tuned`` (normally under ``~/.cache``).

Writers take a lock, merge, and replace the file atomically, so readers never see half a table and no entry of another
process is lost. Tables that a package ships (`tawa.use_table`) are kept in memory beside them; this user's own entries
come first.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from tawa.errors import TableError
from tawa.outside import Unfit
from tawa.runtime.tuning.table import Entry, check_key, read_table, refuse_foreign, table_text, versions_here

_log = logging.getLogger("tawa")

_LOCKED_S = 5.0
"""How long a writer waits for another one."""


def cache_folder() -> Path:
    """Tawa's folder for caches."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "tawa"


class Store:
    """The tables in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entries(self, key: str) -> tuple[Entry, ...]:
        """The entries of one kernel; none without a file. Raises TableError if the file is damaged."""
        path = self._file(key)
        try:
            found = path.stat()
            return _read_once(path, (found.st_ino, found.st_mtime_ns, found.st_size))
        except FileNotFoundError:
            return ()
        except OSError as error:  # of a folder that cannot be searched
            raise TableError(f"{path} cannot be read: {error.strerror}; cure: another XDG_CACHE_HOME") from error

    def all(self) -> tuple[Entry, ...]:
        """All entries, sorted by kernel; raises TableError if a file is damaged."""
        found = [entry for path in sorted(self.folder.glob("*.json")) for entry in read_table(path)]
        return tuple(sorted(found, key=lambda it: (it.kernel, it.identity)))

    def put(self, entries: Iterable[Entry]) -> int:
        """Merges entries into the tables; of two of one identity, the later stays. Returns how many are new or newer.

        A damaged file is replaced, with a warning. Raises OSError where the folder cannot be written.
        """
        by_kernel: dict[str, list[Entry]] = {}
        for entry in entries:
            by_kernel.setdefault(entry.key, []).append(entry)
        changed = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            for key, fresh in by_kernel.items():
                merged, new = _merged(self._readable(key), fresh)
                changed += new
                if new:
                    self._write(self._file(key), table_text(merged))
        return changed

    def _file(self, key: str) -> Path:
        """The file of a kernel; raises TableError if the key is not valid, because it could name another file."""
        try:
            return self.folder / f"{check_key(key)}.json"
        except Unfit as error:
            raise TableError(f"{self.folder}: {error}; cure: compile the kernel again, or tune it again") from error

    def _readable(self, key: str) -> tuple[Entry, ...]:
        try:
            return self.entries(key)
        except TableError as error:
            _log.warning("%s; it is replaced", error)
            return ()

    def _write(self, path: Path, text: str) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as file:
            until = time.monotonic() + _LOCKED_S
            while True:  # the lock is released when the file is closed, also by a kill
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.01)
            yield


def _merged(known: Iterable[Entry], fresh: Iterable[Entry]) -> tuple[list[Entry], int]:
    """The entries of both, and how many of `fresh` are among them that were not in `known`.

    A measurement that the user asked for outranks what launches learned; else the later one stays.
    """
    entries = {it.identity: it for it in known}
    new = 0
    for entry in fresh:
        old = entries.get(entry.identity)
        if old is not None and entry.learned and not old.learned:
            continue
        if old is None or (old.learned and not entry.learned) or (entry.date > old.date and entry != old):
            entries[entry.identity] = entry
            new += 1
    return list(entries.values()), new


@lru_cache(maxsize=64)
def _read_once(path: Path, written: tuple[int, ...]) -> tuple[Entry, ...]:
    """A table as it was written then: two forms of a kernel ask for the same one."""
    return read_table(path)


def user_store() -> Store:
    """The store of this user."""
    return Store(cache_folder() / "tuned")


class _Shipped:
    """Tables of packages, read in this process. entries: by tuning key."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Entry]] = {}


_SHIPPED = _Shipped()


def use_table(path: str | os.PathLike[str]) -> int:
    """Uses a table that `tawa tune --export` wrote in this process, for kernels compiled from now on.

    A package calls this when it is imported, with a file that it ships; nothing is written. Measurements of this user
    take precedence. Returns the number of entries. Raises TableError, which names the file and the cure, for a damaged
    table and for one of other versions of Tawa or Triton. Entries of other GPUs have no effect.
    """
    file = Path(os.fspath(path))
    entries = read_table(file)
    refuse_foreign(file, entries, "")
    for entry in entries:
        _SHIPPED.entries.setdefault(entry.key, []).append(entry)
    return len(entries)


def known_entries(key: str, gpu: str) -> dict[str, Entry]:
    """The usable entries of one kernel, by shape class: of this GPU and these versions, measured before learned.

    Called when a kernel is loaded, so a damaged file is only logged, with its cure.
    """
    return {it.shape_class: it for it in entries_of(key) if it.gpu == gpu}


def entries_of(key: str) -> tuple[Entry, ...]:
    """The entries of one kernel for these versions, on any GPU; of two for one question, the last one counts."""
    own: tuple[Entry, ...] = ()
    try:
        own = user_store().entries(key)
    except TableError as error:
        _log.warning("%s", error)
    found = sorted((*_SHIPPED.entries.get(key, ()), *own), key=lambda it: not it.learned)
    here = versions_here() if found else {}
    return tuple(it for it in found if dict(it.versions) == here)
