"""Attributes, read on demand from their text and written back.

``3 : i32`` → 3        ``array<i32: 1, 2>`` → (1, 2)        ``true`` → True        ``"x"`` → x
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_INTEGER = re.compile(r"(-?\d+)(?: : (?:i\d+|index))?")
_ARRAY = re.compile(r"array<i\d+(?:: (.*))?>")


def read_int(text: str) -> int:
    """``3 : i32`` → 3; ``true`` → 1. Raises ValueError on anything else."""
    if text in ("true", "false"):
        return int(text == "true")
    found = _INTEGER.fullmatch(text)
    if found is None:
        raise ValueError(f"not an integer attribute: {text!r}")
    return int(found.group(1))


def read_bool(text: str) -> bool:
    """``true`` → True. Raises ValueError on anything but true and false."""
    if text not in ("true", "false"):
        raise ValueError(f"not a boolean attribute: {text!r}")
    return text == "true"


def read_array(text: str) -> tuple[int, ...]:
    """``array<i32: 1, 2>`` → (1, 2). Raises ValueError on anything else."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        raise ValueError(f"not an integer array attribute: {text!r}")
    return tuple(int(item) for item in found.group(1).split(",")) if found.group(1) else ()


def read_string(text: str) -> str:
    """``"x"`` → x. Raises ValueError where the quotes are missing."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise ValueError(f"not a string attribute: {text!r}")
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def int_attr(value: int, type: str = "i32") -> str:
    """3 → ``3 : i32``."""
    return f"{value} : {type}"


def bool_attr(value: bool) -> str:
    """True → ``true``."""
    return "true" if value else "false"


def array_attr(values: tuple[int, ...] | list[int]) -> str:
    """(1, 2) → ``array<i32: 1, 2>``."""
    return f"array<i32: {', '.join(map(str, values))}>" if values else "array<i32>"


def string_attr(value: str) -> str:
    """x → ``"x"``."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def attribute_of(attributes: Mapping[str, str], name: str) -> str | None:
    """The text of an attribute by its plain name; None where it is absent.

    The parser keeps names as in the text, where names with a dash are quoted: ``"ttg.num-ctas"``.
    """
    return attributes.get(f'"{name}"', attributes.get(name))
