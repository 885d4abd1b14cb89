"""Where a launch passes each argument of the kernel's function, and the values there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

ArgumentPath = tuple[int | str, ...]
"""The position among the arguments of a launch; a longer path indexes into tuples, and names a field of a descriptor.
"""

BASE, SHAPE, STRIDES = "base", "shape", "strides"
"""Fields of a descriptor."""


def argument_paths(types: Sequence[Any], outer: ArgumentPath = ()) -> list[ArgumentPath]:
    """The path of each argument of the kernel's function. types: of the launch's arguments.

    A descriptor becomes several arguments: itself, whose value is the address of its tensor, its sizes and its strides.
    """
    found: list[ArgumentPath] = []
    for at, type in enumerate(types):
        path = (*outer, at)
        if isinstance(type, tuple):
            found += argument_paths(type, path)
        elif type.startswith("tensordesc"):
            rank = type[type.index("[") + 1 : type.index("]")].count(",") + 1
            fields = ((*path, name, dim) for name in (SHAPE, STRIDES) for dim in range(rank))
            found += [(*path, BASE), *fields]
        elif type != "constexpr":
            found.append(path)
    return found


def values_at(paths: Sequence[ArgumentPath], args: Sequence[Any]) -> list[Any]:
    """The arguments at these paths, pointers as addresses."""
    return [value_at(path)(args) for path in paths]


def value_at(path: ArgumentPath) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that reads the argument at a path, a pointer as an address."""
    match path:
        case (int(at),):
            return lambda args: plain_value(args[at])
        case (int(at), "base"):
            return lambda args: _address(args[at])
        case (int(at), str(name), int(dim)):
            return lambda args: getattr(args[at], name)[dim]
        case _:
            inner, at = value_at(path[1:]), path[0]
            assert isinstance(at, int)
            return lambda args: inner(args[at])


def plain_value(value: Any) -> Any:
    """A tensor's address; a number as it is."""
    return value.data_ptr() if hasattr(value, "data_ptr") else value


def _address(descriptor: Any) -> int:
    """The address of a descriptor's tensor.

    It is 0 if TMA does not read the elements as they are, and zeros outside of the tensor: a descriptor that is made
    from this one would read others.
    """
    if getattr(descriptor, "padding", "zero") != "zero" or getattr(descriptor, "round_f32_to_tf32", False):
        return 0
    return descriptor.base.data_ptr()
