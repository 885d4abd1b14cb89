"""TOML: read by the standard library, written here, with comments above sections and words."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast

from tawa.errors import PlanError
from tawa.outside import is_unicode

_CURE = "start from tawa explain --emit mapping"
Comments = Mapping[str, Sequence[str]]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_WORD = re.compile(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*')+)\s*=""")


def parsed(text: str, source: str = "") -> dict[str, Any]:
    """The data of TOML text; raises PlanError with the line."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        where = f" ({PurePath(source).name})" if source else ""
        raise PlanError(f"a mapping is not TOML{where}: brackets are nested too deeply; cure: {_CURE}") from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = found[1] if found and found[1] else str(len(text.splitlines()))
        where = f"{PurePath(source).name}:{line}" if source else f"line {line}"
        what = str(error)[: found.start()] if found else str(error)
        raise PlanError(f"a mapping is not TOML ({where}): {what}; cure: {_CURE}") from error


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line of each section and word of TOML text, by its keys: ``("operands", "k", "ring")``."""
    found: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if head := _HEAD.match(line):
            section = _keys(head[1])
            found.setdefault(section, number)
        elif word := _WORD.match(line):
            found.setdefault((*section, *_keys(word[1])), number)
    return found


def _keys(text: str) -> tuple[str, ...]:
    """``operands."k.1"`` → ``operands``, ``k.1``; empty if the text is not a key."""
    try:
        data: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(data, dict):
        name, data = next(iter(cast(dict[str, Any], data).items()))
        keys.append(name)
    return tuple(keys)


def written(data: Mapping[str, Any], comments: Comments | None = None, head: Sequence[str] = ()) -> str:
    """TOML text of sections with words, and of sections with entries with words.

    comments: lines for above a section, by its title (``operands.k``). head: lines for the top.
    """
    notes, parts = comments or {}, ["\n".join(f"# {line}" for line in head)] if head else []
    for name, value in data.items():
        nested = bool(value) and all(isinstance(it, Mapping) for it in value.values()) and name not in ("kernel",)
        sections = {f"{name}.{key(own)}": it for own, it in value.items()} if nested else {name: value}
        for title, words in sections.items():
            if not words and not nested:
                continue
            lines = [*(f"# {line}" for line in notes.get(title, ())), f"[{title}]"]
            lines += [f"{word} = {value_text(it)}" for word, it in words.items()]
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n" if parts else ""


def key(name: str) -> str:
    """A key, in quotes where TOML needs them."""
    return name if _BARE.fullmatch(name) else _text(name)


def value_text(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, object], value)
        return (
            "{ " + ", ".join(f"{key(name)} = {value_text(it)}" for name, it in pairs.items()) + " }" if pairs else "{}"
        )
    if isinstance(value, list | tuple):
        items = [value_text(it) for it in cast(Sequence[object], value)]
        line = f"[{', '.join(items)}]"
        return line if len(line) < _WIDTH else "[\n" + "".join(f"    {it},\n" for it in items) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=not is_unicode(text))


_WIDTH = 90
