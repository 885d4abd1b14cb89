"""What of a launch's arguments decides which kernel and which descriptors it gets, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from tawa.bridge.launch.argument_paths import argument_paths, plain_value, value_at

_LEAST_ADDRESS = 1 << 32
"""Smaller integers are sizes; GPU memory has larger addresses."""


@dataclass(slots=True)
class Memory:
    """Stands for a tensor where Triton asks for its address."""

    address: int

    def data_ptr(self) -> int:
        """The address."""
        return self.address


def key_of(types: Sequence[Any], used: frozenset[int]) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that reads, of the arguments of a launch, those that the kernel's function knows as `used`.

    Its result is hashable: addresses and numbers, in nested tuples. It raises AttributeError for a pointer that is
    given as an address.
    """
    known = argument_paths(types)
    paths = [known[index] for index in sorted(used)]
    if any(len(path) > 1 for path in paths):
        readers = [value_at(path) for path in paths]
        return lambda args: tuple([read(args) for read in readers])
    places = [int(at) for (at,) in paths]
    pointers = [at for at in places if types[at].startswith("*")]
    numbers = [at for at in places if not types[at].startswith("*")]
    return _reader(pointers, numbers)


def with_tensors(types: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The arguments of a launch, with a stand-in for a tensor in place of each address."""
    pointers = [isinstance(type, str) and type.startswith("*") for type in types]
    return [
        Memory(it) if pointer and not hasattr(it, "data_ptr") else it
        for pointer, it in zip(pointers, args, strict=True)
    ]


def _reader(pointers: Sequence[int], numbers: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """Reads the addresses at `pointers`, then the values at `numbers`.

    Every launch calls the result. A closure for a fixed number of pointers takes 0.2 µs, a loop over them 0.6 µs
    (`bench/launch_key.py`).
    """
    match pointers:
        case []:
            return itemgetter(*numbers) if numbers else lambda args: ()
        case [a]:
            rest = _reader((), numbers)
            return lambda args: (args[a].data_ptr(), rest(args))
        case [a, b]:
            rest = _reader((), numbers)
            return lambda args: (args[a].data_ptr(), args[b].data_ptr(), rest(args))
        case [a, b, c, *more]:
            rest = _reader(more, numbers)
            return lambda args: (args[a].data_ptr(), args[b].data_ptr(), args[c].data_ptr(), rest(args))
        case _:
            raise AssertionError(pointers)


def all_different(args: Sequence[Any]) -> bool:
    """Whether no two arguments share a tensor. A tensor that is both read and written would change with each run."""
    memory = list(_memory(args))
    return len(set(memory)) == len(memory)


def _memory(args: Sequence[Any]) -> Iterator[int]:
    """The address of each tensor's storage (a view has that of its base), also of tensors in tuples and descriptors."""
    for arg in args:
        tensor = getattr(arg, "base", arg)  # of a descriptor
        if isinstance(arg, tuple):
            yield from _memory(arg)
        elif hasattr(tensor, "untyped_storage"):
            yield tensor.untyped_storage().data_ptr()
        elif isinstance(address := plain_value(tensor), int) and address >= _LEAST_ADDRESS:
            yield address
