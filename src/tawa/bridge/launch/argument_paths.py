"""Where a launch passes each argument of the kernel's function, and the values there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import getitem
from typing import Any

ArgumentPath = tuple[int, ...]
"""The position among the arguments of a launch; a longer path indexes into tuples. (): not passed by itself."""


def argument_paths(types: Sequence[Any], outer: ArgumentPath = ()) -> list[ArgumentPath]:
    """The path of each argument of the kernel's function. types: of the launch's arguments.

    A descriptor becomes several arguments, which have empty paths.
    """
    found: list[ArgumentPath] = []
    for at, type in enumerate(types):
        path = (*outer, at)
        if isinstance(type, tuple):
            found += argument_paths(type, path)
        elif type.startswith("tensordesc"):
            rank = type[type.index("[") + 1 : type.index("]")].count(",") + 1
            found += [()] * (1 + 2 * rank)
        elif type != "constexpr":
            found.append(path)
    return found


def values_at(paths: Sequence[ArgumentPath], args: Sequence[Any]) -> list[Any]:
    """The arguments at these paths, pointers as addresses; 0 for an empty path."""
    return [plain_value(reduce(getitem, path, args)) if path else 0 for path in paths]


def plain_value(value: Any) -> Any:
    """A tensor's address; a number as it is."""
    return value.data_ptr() if hasattr(value, "data_ptr") else value


__all__ = ["ArgumentPath", "argument_paths", "plain_value", "values_at"]
