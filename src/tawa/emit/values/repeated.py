"""Tiles that repeat a number or a smaller tile, which Gluon's operators do by themselves.

%t = tt.splat %scale                            scores * scale
%p = arith.mulf %scores, %t
"""

from __future__ import annotations

from itertools import zip_longest

from tawa.dialects import arith, tt
from tawa.dialects.declare.declaration import op_names
from tawa.emit.values.expressions import ELEMENTWISE
from tawa.ir import Operation, Value
from tawa.ir.types import TensorType, parse_type

REPEATING = op_names(tt.SplatOp, tt.BroadcastOp, arith.ConstantOp)


def only_repeats(op: Operation) -> bool:
    """Whether every user can take the operand of this splat or broadcast instead of the result."""
    if op.name not in REPEATING or not isinstance(parse_type(op.result.type), TensorType):
        return False
    return all(use.op.name in ELEMENTWISE and use.index in _repeated(use.op) for use in op.result.uses)


def _repeated(op: Operation) -> set[int]:
    """The operands in whose place the smaller value can stand: those left, and these, give the shape of the result."""
    result = parse_type(op.results[0].type)
    if not isinstance(result, TensorType):
        return set()
    smaller = {index for index, value in enumerate(op.operands) if _source_shape(value) is not None}
    if arith.SelectOp.matches(op):
        smaller.discard(0)
        if all(_source_shape(it) == () for it in op.operands[1:]):
            smaller.discard(1)
    for index in sorted(smaller, key=lambda it: _source_shape(op.operands[it]) != ()):
        if _shape(op, smaller) == tuple(result.shape):
            break
        smaller.discard(index)
    return smaller


def _shape(op: Operation, smaller: set[int]) -> tuple[int, ...]:
    """The shape of the result with the smaller operands."""
    shapes = [
        (_source_shape(value) or ()) if index in smaller else tuple(_tile(value).shape)
        for index, value in enumerate(op.operands)
        if index in smaller or value.type.startswith("tensor")
    ]
    return tuple(max(sizes) for sizes in zip_longest(*shapes, fillvalue=1)) if shapes else ()


def _source_shape(value: Value) -> tuple[int, ...] | None:
    """The shape of what a tile repeats, () for a number; None if it repeats nothing."""
    op = value.defining_op
    if op is None or op.name not in REPEATING or not value.type.startswith("tensor"):
        return None
    return tuple(_tile(op.operands[0]).shape) if tt.BroadcastOp.matches(op) else ()


def _tile(value: Value) -> TensorType:
    type = parse_type(value.type)
    assert isinstance(type, TensorType)
    return type
