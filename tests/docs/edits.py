"""Applies the edits that a page shows as a diff, by their context alone: line numbers would age with the sources.

@@
 the lines before, as they are in the file
-a line that goes
+a line that comes
 the lines behind
"""

from __future__ import annotations

from pathlib import Path


class EditFailed(Exception):
    """The context of an edit stands nowhere in the file, or in several places."""


def apply(diff: str, file: Path) -> None:
    """Applies each hunk of a diff to a file; raises EditFailed."""
    text = file.read_text()
    for hunk in hunks(diff):
        before, after = side(hunk, "-"), side(hunk, "+")
        if text.count(before) != 1:
            raise EditFailed(f"{file}: {text.count(before)} places, not one, for the edit\n{hunk}")
        text = text.replace(before, after)
    file.write_text(text)


def hunks(diff: str) -> list[str]:
    """The parts of a diff between lines that begin with `@@`."""
    found: list[list[str]] = [[]]
    for line in diff.splitlines():
        if line.startswith("@@"):
            found.append([])
        else:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found if any(lines)]


def side(hunk: str, sign: str) -> str:
    """The lines that a hunk leaves as they are, and those with this sign."""
    return "".join(f"{line[1:]}\n" for line in hunk.splitlines() if line[:1] in (sign, " ", ""))
