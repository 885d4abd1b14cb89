"""Scanning helpers for MLIR text: balanced brackets, strings, top-level commas.

Shared by the parser and by the on-demand readers of types and attributes. MLIR text nests ``( [ { <``; a ``->``
inside is not a closing bracket, and nothing counts inside a string.
"""

from __future__ import annotations

import functools
import re

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|->|[()\[\]{}<>,]')
_OPEN = {"(": ")", "[": "]", "{": "}", "<": ">"}


def match_bracket(text: str, start: int) -> int:
    """Index just behind the bracket that closes the one at `start`. Raises ValueError when it never closes."""
    depth = 0
    for found in _STRUCTURE.finditer(text, start):
        token = found.group()
        if token in _OPEN:
            depth += 1
        elif token in ")]}>":
            depth -= 1
            if depth == 0:
                return found.end()
    raise ValueError(f"bracket {text[start]!r} never closes: {text[start : start + 60]!r}")


def split_top_level(text: str) -> list[str]:
    """Splits at commas outside all brackets and strings; parts are stripped, empty text gives no part."""
    if "," not in text:
        part = text.strip()
        return [part] if part else []
    return list(_parts(text))


@functools.lru_cache(4096)  # a program repeats a few types and attributes
def _parts(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    depth = start = 0
    for found in _STRUCTURE.finditer(text):
        token = found.group()
        if token in _OPEN:
            depth += 1
        elif token in ")]}>":
            depth -= 1
        elif token == "," and depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    parts.append(text[start:].strip())
    return tuple(parts)


def parse_dictionary(text: str) -> dict[str, str]:
    """Reads the inside of ``{a = 1 : i32, b}`` into name → value text; a unit attribute has an empty value."""
    return _entries(text).copy()


@functools.lru_cache(4096)
def _entries(text: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for part in split_top_level(text):
        if part.startswith('"'):
            end = part.index('"', 1) + 1
            name, rest = part[:end], part[end:].lstrip()
            value = rest[1:].lstrip() if rest.startswith("=") else ""
        else:
            name, equals, value = part.partition("=")
            name, value = name.rstrip(), value.lstrip() if equals else ""
        entries[name] = value
    return entries


def print_dictionary(entries: dict[str, str]) -> str:
    """The inverse of `parse_dictionary`, without the braces."""
    return ", ".join(f"{name} = {value}" if value else name for name, value in entries.items())
