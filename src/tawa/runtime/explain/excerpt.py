"""A location in a source file, with its source line."""

from __future__ import annotations

import linecache
from pathlib import Path

from tawa.remarks import SourceLocation


def excerpt(location: SourceLocation) -> str:
    """The location as ``--> file:line`` with the source line and, if the column is known, a caret under it."""
    lines = [f"  --> {_shown(location.file)}:{location.line}"]
    source = linecache.getline(location.file, location.line).rstrip()
    if source:
        number = str(location.line)
        lines.append(f"   {number} | {source}")
        if 0 < location.column < len(source):
            lines.append(f"   {' ' * len(number)} | {' ' * location.column}^")
    return "\n".join(lines)


def _shown(file: str) -> str:
    """A path as the user would type it: relative if it is under the current folder."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
