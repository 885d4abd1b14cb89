"""Addresses of arrays in global memory, for kernels that load pointers from memory.

Each array of a launch has its own address range, the same in each run. A kernel loads addresses from a table
(`Addresses`) and converts them to pointers with ``tt.int_to_ptr``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import IntToPtrOp
from tawa.ir import Operation, PointerType, parse_type
from tawa.sim.errors import ArgumentError, OutOfBounds
from tawa.sim.machine.values import Context, GlobalTensor, Handler, Pointer
from tawa.sim.numbers import Array, memory_dtype
from tawa.sim.ops.elementwise import element_of
from tawa.sim.ops.tiles import shape_of

_RANGE = 1 << 40
"""The size of the address range of an array. The first range is unused, so no array has the address 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Addresses:
    """An argument that is a table of i64 addresses: those of the elements `places` of `array`, in memory order."""

    array: Array
    places: tuple[int, ...]


@dataclass(slots=True, eq=False)
class AddressSpace:
    """The arrays of a launch by number, and a `GlobalTensor` for each array that the kernel accesses."""

    arrays: list[Array] = field(default_factory=list[Array])
    tensors: dict[int, GlobalTensor] = field(default_factory=dict[int, GlobalTensor])

    def table(self, name: str, given: Addresses) -> GlobalTensor:
        """The `GlobalTensor` of a table of addresses."""
        number = self._number(given.array)
        width = given.array.itemsize
        bits = np.array([(number + 1) * _RANGE + place * width for place in given.places], np.int64)
        return GlobalTensor(name, bits, "i64")

    def tensor(self, name: str, array: Array, element: str) -> GlobalTensor:
        """The `GlobalTensor` of an array, one for all its users; raises ArgumentError if the array does not fit."""
        wanted = np.dtype(memory_dtype(element))
        if array.dtype.itemsize != wanted.itemsize:
            raise ArgumentError(f"{name} has elements of type {array.dtype}, but the kernel's are {element}")
        if element not in ("f16", "f32", "f64") and array.dtype.kind == "f":
            raise ArgumentError(f"{name} holds {element}: pass its bits as {wanted} (tawa.sim.from_floats)")
        if not array.flags.c_contiguous:
            raise ArgumentError(f"{name} is not contiguous")
        number = self._number(array)
        if number not in self.tensors:
            self.tensors[number] = GlobalTensor(name, array.reshape(-1).view(wanted), element)
        return self.tensors[number]

    def pointer(self, addresses: Any, element: str) -> Pointer:
        """The pointer for an address or a tile of addresses; raises OutOfBounds if they are not all in one array."""
        numbers = np.unique(np.asarray(addresses, np.int64) // _RANGE - 1)
        if len(numbers) != 1 or not 0 <= numbers[0] < len(self.arrays):
            raise OutOfBounds(f"the address {addresses} is in no array of the launch, or in several")
        number = int(numbers[0])
        tensor = self.tensor(f"array {number}", self.arrays[number], element)
        places, rest = np.divmod(np.asarray(addresses, np.int64) - (number + 1) * _RANGE, tensor.bits.itemsize)
        if rest.any():
            raise OutOfBounds(f"the address {addresses} is not aligned to an element of {tensor.name}")
        return Pointer(tensor, places if places.ndim else int(places))

    def _number(self, array: Array) -> int:
        for number, known in enumerate(self.arrays):
            if known is array:
                return number
        self.arrays.append(array)
        return len(self.arrays) - 1


def _int_to_ptr(context: Context, op: Operation, args: list[Any], /) -> list[Any]:
    kind = parse_type(element_of(op.result.type))
    assert isinstance(kind, PointerType)
    return [context.memory.pointer(args[0] if shape_of(op.result.type) else int(args[0]), kind.pointee)]


ADDRESSES: dict[str, Handler] = by_name({IntToPtrOp: _int_to_ptr})
"""Handlers, by operation name."""
