"""Alignment hints: what `tl.multiple_of` on a tile of addresses implies for the scalars in the addresses.

    at = base + rows[:, None] * s + columns[None, :]        tl.multiple_of(at, [16, 16]), fp16
    →   every row begins at a multiple of 16 bytes: s is a multiple of 8 elements
    →   base is a multiple of 16 bytes, if the offset of the tile from it is one

A hint has Triton's semantics (AxisInfo.h): the *first* of each run of contiguous elements is aligned to this many
bytes. The first element of a row of the tile begins a run, whatever run length Triton finds, so that the hint for the
contiguous dimension holds for every row. Triton relies on it for 16-byte copies, and the GPU traps if a row is
misaligned. A hint for another dimension would imply that every element of a row is aligned, which is never true; it is
ignored.

A hint holds where its operation is executed. The hints on the operations that compute the address of a load hold
wherever the load is executed. A hint on a loop-carried value holds in the first iteration only: Triton's front end
attaches it to the operation that defines the initial tile.
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
    """Divisors of the scalars in the address of `load` (of pointers in bytes) that follow from hints on the address."""
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
    """Divisors of the strides of a tile whose rows all begin at multiples of `number` bytes."""
    shape = shape_of(op.result)
    divisors: dict[Value, int] = {}
    for dim, stride in tile.lanes.items():
        if stride != ONE and shape[dim] > 1 and (found := _scalar(stride, affine)):
            atom, factor = found
            divisors[atom] = number // gcd(number, factor * bytes)
    return divisors


def _scalar(stride: Poly, affine: Affine) -> tuple[Value, int] | None:
    """A stride as the product of a scalar and a constant; None if it is not one."""
    if len(stride.terms) != 1 or len(stride.terms[0][0]) != 1:
        return None
    ((index,), factor) = stride.terms[0]
    atom = affine.atoms[index]
    return (atom, abs(factor)) if isinstance(atom, Value) else None


def _of_rows(tile: AffineTile, numbers: tuple[int, ...]) -> int:
    """The part of a hint that holds for the first element of each row."""
    inner = [dim for dim, lane in tile.lanes.items() if lane == ONE]
    return numbers[inner[0]] if inner else max(numbers)


def _hints(value: Value) -> Iterator[tuple[Operation, tuple[int, ...]]]:
    """The hints on the tiles of addresses from which `value` is computed, nearest first."""
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
    """Bytes of the pointee type of a tile of pointers; 0 if it is unknown."""
    type = parse_type(tile.type)
    pointer = parse_type(type.element) if isinstance(type, TensorType) else type
    element = parse_type(pointer.pointee) if isinstance(pointer, PointerType) else None
    return element.bits // 8 if isinstance(element, ScalarType) else 0
