"""An extension of griffe, which reads docstrings for the API reference: fields of a docstring become a list.

    name, other: what they are, perhaps          →     - `name`, `other`: what they are, perhaps
        on more lines                                      on more lines

Only lines that name attributes, arguments or fields of the object count, so that prose with a colon stays prose.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_FIELD = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*): ")
_INLINE = re.compile(r"(?<=[.;] )(?=(?P<names>\w+(?:, \w+)*): )")


class FieldLists(griffe.Extension):
    """Rewrites the docstrings of classes and functions while they are loaded."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """A class: its attributes and properties, and what it is made from."""
        made = cls.members.get("__init__")
        given = {it.name for it in made.parameters} if isinstance(made, griffe.Function) else set[str]()
        _rewrite(cls, {*cls.members, *given})

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """A function: its parameters."""
        _rewrite(func, {parameter.name for parameter in func.parameters})


def _rewrite(thing: griffe.Object, names: set[str]) -> None:
    if thing.docstring is not None:
        thing.docstring.value = listed(thing.docstring.value, names)


def listed(text: str, names: set[str]) -> str:
    """The text of a docstring with the lines that describe `names` as a Markdown list."""
    lines: list[str] = []
    inside = google = False
    for line in text.splitlines():
        google = google or bool(re.match(r"(Args|Attributes|Returns|Yields|Raises|Examples?):$", line))
        parts = [line] if google or (line.startswith(" ") and not inside) else _parted(line, names)
        for part in parts:
            found = _FIELD.match(part if part is parts[0] else part.strip())
            if not google and found and _known(found["names"], names):
                if not inside and lines and lines[-1]:
                    lines.append("")
                shown = ", ".join(f"`{it.strip()}`" for it in found["names"].split(","))
                lines.append(f"- {shown}: {part[found.end() :]}")
                inside = True
            elif inside and part.startswith(" "):
                lines.append(part)
            elif inside and part:
                lines.append(f"    {part}")
            else:
                inside = False
                lines.append(part)
    return "\n".join(lines)


def _parted(line: str, names: set[str]) -> list[str]:
    """A line, cut where another known field begins in it."""
    cuts = [it.start() for it in _INLINE.finditer(line) if _known(it["names"], names)]
    parts = [line[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(line)], strict=True)]
    return [*(it.rstrip(" ;") for it in parts[:-1]), parts[-1]]


def _known(text: str, names: set[str]) -> bool:
    return all(it.strip().lstrip("*") in names for it in text.split(","))
