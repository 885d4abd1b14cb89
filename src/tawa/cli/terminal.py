"""Output to terminals, pipes and files without UTF-8: characters that they cannot show are replaced, never an error.

Both streams are set up here, so commands print any character. ``…`` becomes ``...``, a bar of blocks becomes a bar of
``#``, and a file name that cannot be decoded is printed as escaped bytes. (rich draws tables in ASCII without UTF-8.)
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_HANDLER = "tawa-spelled-out"
_SPELLED = {
    "…": "...", "×": "x", "·": ".", "–": "-", "—": "-", "−": "-", "→": "->", "←": "<-", "≤": "<=", "≥": ">=",
    "√": "sqrt", "µ": "u", "²": "^2", "³": "^3", "⟨": "<", "⟩": ">", "“": '"', "”": '"', "‘": "'", "’": "'",
    "█": "#", "▓": "%", "▒": "=", "░": ":", "▏": "|", "▚": "x", "✓": "ok", "•": "*",
}  # fmt: skip
_BOX = {**dict.fromkeys("─━═╌", "-"), **dict.fromkeys("│┃║", "|")}


@contextmanager
def any_terminal() -> Iterator[None]:
    """Inside the block any character can be printed; afterwards the streams are restored."""
    codecs.register_error(_HANDLER, _spell)
    before = [(stream, stream.errors) for stream in (sys.stdout, sys.stderr) if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in before:
        stream.reconfigure(errors=_HANDLER)
    try:
        yield
    finally:
        for stream, errors in before:
            if not stream.closed:
                stream.reconfigure(errors=errors)


@contextmanager
def own_terminal() -> Iterator[None]:
    """Restores Python's own error handling of the streams, for a user's program that runs inside a command."""
    streams = [it for it in (sys.stdout, sys.stderr) if isinstance(it, io.TextIOWrapper) and it.errors == _HANDLER]
    for stream in streams:
        stream.reconfigure(errors="strict" if stream is sys.stdout else "backslashreplace")
    try:
        yield
    finally:
        for stream in streams:
            if not stream.closed:
                stream.reconfigure(errors=_HANDLER)


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """The error handler: returns replacements for characters that cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(map(_letter, letters)), error.end


def _letter(letter: str) -> str:
    known = _SPELLED.get(letter) or _BOX.get(letter)
    if known is None and "\u2500" <= letter <= "\u257f":
        return "+"  # corners and crossings
    if known is None and "\u2800" <= letter <= "\u28ff":
        return "."  # rich's spinner
    return known or letter.encode("ascii", "backslashreplace").decode()
