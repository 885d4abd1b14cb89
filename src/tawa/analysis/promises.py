"""Promises: what `tl.multiple_of` on tiles of addresses says of the scalars they are made of.

    at = base + rows[:, None] * s + columns[None, :]        tl.multiple_of(at, [16, 16]), fp16
    →   rows begin at multiples of 16 bytes: so does the first, and s is a multiple of 8 elements
    →   base is a multiple of 16 bytes, if where the tile begins is one

What a hint says is what Triton makes of it (AxisInfo.h): the *first* of each run of elements that lie side by side is a
multiple of that many bytes. The first element of a row of the tile begins a run, however long Triton knows the runs to
be; so the hint for the dimension that lies together in memory is one for every row. Triton copies 16 bytes at a time on
the strength of it, and the GPU stops a kernel whose rows begin elsewhere. Hints for other dimensions would hold for
every element of a row, which none does; nobody reads them so.

A promise holds where the operation that bears it was executed. Those in front of a load, by which its own address was
computed, hold wherever the load is executed. Of a hint on what a loop carries Triton keeps what it says of the first
iteration: its front end has put it on the operation that makes the initial tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import gcd, lcm

from tawa.analysis.multiples import DIVISIBILITY, Multiples
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Operation, PointerType, ScalarType, TensorType, Value, parse_type
from tawa.ir.attributes import attribute_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import AffineTile
from tawa.symbolic.dim_relations import shape_of
from tawa.symbolic.polynomial import ONE, Poly

_ADDRESSES = frozenset({"tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape"})


def promised_by(load: Operation, function: FuncOp, affine: Affine) -> dict[Value, int]:
    """What scalars in the address of `load` are multiples of, pointers in bytes, because hints on it say so."""
    promised: dict[Value, int] = {}
    for op, numbers in _hints(load.operands[0]):
        form = affine.tile(op.result)
        bytes = _element_bytes(op.result)
        if form is None or form.base is None or form.guards or form.runs or not bytes:
            continue
        for value, number in _said(op, form, _of_rows(form, numbers), bytes, function, affine, promised):
            promised[value] = lcm(number, promised.get(value, 1))
    return promised


def _said(
    op: Operation, form: AffineTile, number: int, bytes: int, function: FuncOp, affine: Affine, known: dict[Value, int]
) -> Iterator[tuple[Value, int]]:
    """What one hint says: that the first row begins at a multiple of `number` bytes, and so does each further one."""
    shape = shape_of(op.result)
    strides = dict[Value, int]()
    for dim, stride in form.lanes.items():
        if stride != ONE and shape[dim] > 1 and (found := _scalar(stride, affine)):
            atom, factor = found
            strides[atom] = number // gcd(number, factor * bytes)
    yield from strides.items()
    multiples = Multiples(function, affine, {**known, **strides})
    assert form.base is not None
    yield form.base, gcd(number, multiples.multiple(form.offset) * bytes)


def _scalar(stride: Poly, affine: Affine) -> tuple[Value, int] | None:
    """The scalar and the number whose product a stride is."""
    if len(stride.terms) != 1 or len(stride.terms[0][0]) != 1:
        return None
    ((index,), factor) = stride.terms[0]
    atom = affine.atoms[index]
    return (atom, abs(factor)) if isinstance(atom, Value) else None


def _of_rows(form: AffineTile, numbers: list[int]) -> int:
    """What a hint says of the first element of each row."""
    inner = [dim for dim, lane in form.lanes.items() if lane == ONE]
    return numbers[inner[0]] if inner else max(numbers)


def _hints(value: Value) -> Iterator[tuple[Operation, list[int]]]:
    """The hints on tiles of addresses from which `value` is computed, nearest first."""
    while True:
        op = value.defining_op
        if op is None:
            owner = value.owner
            loop = None if isinstance(owner, Operation) else ForOp.of(owner.parent_op)
            if loop is None or value.index == 0:
                return
            value = loop.inits[value.index - 1]
            continue
        text, rank = attribute_of(op.attributes, DIVISIBILITY), len(shape_of(value))
        if op.name not in _ADDRESSES:
            return
        if text is not None and rank:
            numbers = [int(number) for number in re.findall(r"\d+", text.partition(":")[0])]
            if len(numbers) in (1, rank):
                yield op, numbers * rank if len(numbers) == 1 else numbers
        value = op.operands[0]


def _element_bytes(tile: Value) -> int:
    """Bytes of what each address of a tile points to; 0 where that is not known."""
    type = parse_type(tile.type)
    pointer = parse_type(type.element) if isinstance(type, TensorType) else type
    element = parse_type(pointer.pointee) if isinstance(pointer, PointerType) else None
    return element.bits // 8 if isinstance(element, ScalarType) else 0


__all__ = ["promised_by"]
