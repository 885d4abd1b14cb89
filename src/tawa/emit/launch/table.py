"""Tuples and dicts in source text, on one line or on as many as they need."""

from __future__ import annotations

from collections.abc import Sequence

INDENT = "    "
WIDTH = 112


def table(before: str, entries: Sequence[str], after: str) -> str:
    """``before entry, entry after``. before, after: with the brackets."""
    comma = "," * (len(entries) == 1 and before.endswith("("))
    line = f"{before}{', '.join(entries)}{comma}{after}"
    if len(line) <= WIDTH:
        return line
    lines, current = [before], INDENT
    for entry in entries:
        if len(current) + len(entry) > WIDTH:
            lines.append(current.rstrip())
            current = INDENT
        current += f"{entry}, "
    return "\n".join([*lines, current.rstrip(), after])
