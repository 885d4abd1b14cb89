"""Texts that take long to make, kept on disk by all that they are made from.

Processes and runs share them. A file is named after the hash of its key, and written under another name first; so it
is whole, and never belongs to another key. What nobody has used for a day is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "kept"
DAY_S = 24 * 3600


def sources(root: Path = ROOT / "src" / "tawa") -> str:
    """A hash of the modules of Tawa, as they are on disk now."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(repr((str(path.relative_to(root)), path.read_bytes())).encode())
    return digest.hexdigest()


AT_START = sources()
"""What the modules of this process are read from: `tests.conftest` imports this module before those that compile."""


def kept(key: tuple[str, ...], make: Callable[[], str], ours: bool = False, folder: Path = FOLDER) -> str:
    """The text of a key, which is made if it is not there.

    key: all that decides the text. ours: whether Tawa's code decides it, too. Such a text is kept only if no module has
    changed since the start: else nobody knows which of them made it.
    """
    file = folder / hashlib.sha256(repr((*key, AT_START if ours else "")).encode()).hexdigest()
    with contextlib.suppress(OSError, zlib.error):  # an interrupted or older run may have left something else
        text = zlib.decompress(file.read_bytes()).decode()
        os.utime(file)
        return text
    text = make()
    if not ours or sources() == AT_START:
        with contextlib.suppress(OSError):  # the text is made again
            _write(file, text)
    return text


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(handle, "wb") as other:
        other.write(zlib.compress(text.encode(), 1))
    os.replace(name, file)


def forget(folder: Path = FOLDER) -> None:
    """Removes what was not used for a day."""
    for file in folder.glob("*"):
        with contextlib.suppress(OSError):  # another process removes it, too
            if time.time() - file.stat().st_mtime > DAY_S:
                file.unlink()
