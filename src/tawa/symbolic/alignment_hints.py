"""Alignment hints: what `tl.multiple_of` on a tile of addresses says of the scalars that the addresses are made of.

    at = base + rows[:, None] * s + columns[None, :]        tl.multiple_of(at, [16, 16]), fp16
    →   rows begin at multiples of 16 bytes, the first row and each further one: s is a multiple of 8 elements
    →   base is a multiple of 16 bytes, if the offset of the tile from it is one

A hint means what Triton makes of it (AxisInfo.h): the *first* of each run of elements that are contiguous in memory is
at a multiple of that many bytes. The first element of a row of the tile begins a run, whatever length of runs Triton
finds; so the hint for the contiguous dimension holds for every row. Triton relies on it to copy 16 bytes at a time, and
the GPU stops a kernel whose rows begin elsewhere. A hint for another dimension would say that every element of a row is
aligned, which is never so; it is ignored.

A hint holds where its operation is executed. The hints on the operations that compute the address of a load hold
wherever the load is executed. Triton keeps a hint on a value that a loop carries for the first iteration: its front end
puts the hint on the operation that makes the initial tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, lcm

from tawa.dialects.declare.declaration import op_names
from tawa.dialects.hints import hint_of
from tawa.dialects.tt import AddPtrOp, BroadcastOp, ExpandDimsOp, FuncOp, ReshapeOp, SplatOp, TransOp
from tawa.ir import Operation, PointerType, ScalarType, TensorType, Value, parse_type, shape_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import AffineTile
from tawa.symbolic.induction import first_and_next
from tawa.symbolic.polynomial import ONE, Poly
from tawa.symbolic.value_ranges import ValueRanges

_ADDRESSES = op_names(AddPtrOp, SplatOp, BroadcastOp, ExpandDimsOp, TransOp, ReshapeOp)


def hinted_divisors(load: Operation, function: FuncOp, affine: Affine) -> dict[Value, int]:
    """What divides the scalars in the address of `load`, pointers in bytes, because hints on the address say so."""
    divisors: dict[Value, int] = {}
    for op, numbers in _hints(load.operands[0]):
        tile, bytes = affine.tile(op.result), _element_bytes(op.result)
        if tile is None or tile.base is None or tile.guards or tile.runs or not bytes:
            continue
        number = _of_rows(tile, numbers)
        _add(divisors, _stride_divisors(op, tile, number, bytes, affine))
        offset = ValueRanges(function, affine, divisors).multiple(tile.offset)
        _add(divisors, {tile.base: gcd(number, offset * bytes)})
    return divisors


def _add(divisors: dict[Value, int], found: Mapping[Value, int]) -> None:
    for value, number in found.items():
        divisors[value] = lcm(number, divisors.get(value, 1))


def _stride_divisors(op: Operation, tile: AffineTile, number: int, bytes: int, affine: Affine) -> dict[Value, int]:
    """What divides the strides of a tile whose rows all begin at multiples of `number` bytes."""
    shape = shape_of(op.result)
    divisors: dict[Value, int] = {}
    for dim, stride in tile.lanes.items():
        if stride != ONE and shape[dim] > 1 and (found := _scalar(stride, affine)):
            atom, factor = found
            divisors[atom] = number // gcd(number, factor * bytes)
    return divisors


def _scalar(stride: Poly, affine: Affine) -> tuple[Value, int] | None:
    """The scalar and the number whose product a stride is."""
    if len(stride.terms) != 1 or len(stride.terms[0][0]) != 1:
        return None
    ((index,), factor) = stride.terms[0]
    atom = affine.atoms[index]
    return (atom, abs(factor)) if isinstance(atom, Value) else None


def _of_rows(tile: AffineTile, numbers: tuple[int, ...]) -> int:
    """What a hint says of the first element of each row."""
    inner = [dim for dim, lane in tile.lanes.items() if lane == ONE]
    return numbers[inner[0]] if inner else max(numbers)


def _hints(value: Value) -> Iterator[tuple[Operation, tuple[int, ...]]]:
    """The hints on tiles of addresses from which `value` is computed, nearest first."""
    while True:
        op = value.defining_op
        if op is None:
            carried = first_and_next(value)
            if carried is None:
                return
            value = carried[0]
            continue
        if op.name not in _ADDRESSES:
            return
        numbers = hint_of(op, "divisibility")
        if numbers is not None and shape_of(value):
            yield op, numbers
        value = op.operands[0]


def _element_bytes(tile: Value) -> int:
    """Bytes of what each address of a tile points to; 0 where that is not known."""
    type = parse_type(tile.type)
    pointer = parse_type(type.element) if isinstance(type, TensorType) else type
    element = parse_type(pointer.pointee) if isinstance(pointer, PointerType) else None
    return element.bits // 8 if isinstance(element, ScalarType) else 0


__all__ = ["hinted_divisors"]
