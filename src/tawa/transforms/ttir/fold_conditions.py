"""Fold conditions: comparisons whose result is known before the launch become constants.

    for %i in 0 to 2:                                     for %i in 0 to 2:
      %m = cmpi slt, (64·%i + make_range {0..64}), 128      %t = load %p
      %t = load %p, %m, %zero                       →
      %c = cmpi sge, %i, 0                                  dot %t …
      if %c { dot %t … }

Sizes that are constants of a kernel give masks that all lanes pass, and branches that are always taken. Triton does not
know the ranges of loop indices, so it compares in each iteration, and its pipeliner leaves loops alone whose dots are
in branches.

Requires: TTIR, structured.
Ensures: the same effects and values. A comparison is folded only if it follows from constants and from the bounds of
the loops and branches around it, without a premise (`tawa.symbolic.value_ranges`).
Declines: never.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tawa.dialects.arith import AndIOp, CmpIOp, ConstantOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.scf import IfOp
from tawa.dialects.tt import BroadcastOp, ExpandDimsOp, FuncOp, LoadOp, SplatOp, StoreOp
from tawa.ir import Builder, Module, Operation, TensorType, Value, parse_type, replace_op, shape_of
from tawa.ir.attributes import array_attr
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import Bound
from tawa.symbolic.known import Proof
from tawa.symbolic.polynomial import ONE, Poly, constant
from tawa.symbolic.value_ranges import ValueRanges
from tawa.transforms.result import PassResult

_NONE = Proof()


@dataclass(frozen=True, slots=True)
class FoldConditions:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Folds the comparisons of every structured function."""
        changed = False
        for op in list(module.body.ops):
            function = FuncOp.of(op)
            if function is not None and function.structured:
                changed |= _fold(function)
        return PassResult(changed)


def _fold(function: FuncOp) -> bool:
    affine = Affine()
    ranges = ValueRanges(function, affine)
    comparisons = [op for op in function.op.walk() if CmpIOp.matches(op)]
    known = {op: it for op in comparisons if (it := _outcome(op, affine, ranges)) is not None}
    for op, holds in known.items():
        replace_op(op, [_constant(op, holds)])
    if known:
        for op in list(function.op.walk()):
            _simplify(op)
    return bool(known)


# -- what is known -----------------------------------------------------------------------------------------------------


def _outcome(comparison: Operation, affine: Affine, ranges: ValueRanges) -> bool | None:
    """Whether a comparison always or never holds; None if that is not known."""
    bounds = affine.bounds(comparison.result)
    if not bounds or not all(it.unconditional for it in bounds):
        return None
    shape = shape_of(comparison.result)

    def proved(poly: Poly) -> bool:
        return ranges.not_negative(poly, comparison) == _NONE

    if all(proved(_least(it, shape) - ONE) for it in bounds):
        return True
    return False if any(proved(constant(0) - _greatest(it, shape)) for it in bounds) else None


def _least(bound: Bound, shape: tuple[int, ...]) -> Poly:
    """The least distance of a tile's elements from a bound, which holds where it is positive."""
    return bound.room - constant(shape[bound.dim] - 1) if bound.kind == "upper" else bound.room


def _greatest(bound: Bound, shape: tuple[int, ...]) -> Poly:
    return bound.room + constant(shape[bound.dim] - 1) if bound.kind == "lower" else bound.room


# -- what becomes of it ------------------------------------------------------------------------------------------------


def _constant(op: Operation, holds: bool) -> Value:
    """A boolean, or a tile of one, in place of a result."""
    type, text = op.result.type, "true" if holds else "false"
    value = f"dense<{text}> : {type}" if shape_of(op.result) else text
    return Builder.before(op).create(ConstantOp.NAME, (), (type,), properties={"value": value}).result


def _known(value: Value | None) -> bool | None:
    """The value of a boolean constant, or of all elements of a tile of one."""
    found = ConstantOp.of(value.defining_op) if value is not None else None
    if found is None:
        return None
    type = parse_type(found.op.result.type)
    if (type.element if isinstance(type, TensorType) else found.op.result.type) != "i1":
        return None
    return {"true": True, "false": False}.get(found.text.removeprefix("dense<").partition(">")[0].partition(" ")[0])


def _simplify(op: Operation) -> None:
    """Simplifies an operation that reads a condition that is known."""
    simplify = _SIMPLE.get(op.name)
    if simplify is not None:
        simplify(op)


def _both(op: Operation) -> None:
    for known, other in (op.operands, op.operands[::-1]):
        holds = _known(known)
        if holds is not None:
            replace_op(op, [other if holds else known])
            return


def _shaped(op: Operation) -> None:
    holds = _known(op.operands[0])
    if holds is not None:
        replace_op(op, [_constant(op, holds)])


def _loaded(op: Operation) -> None:
    if _known(LoadOp(op).mask) is True:
        op.set_operands(op.operands[:1])
        op.properties["operandSegmentSizes"] = array_attr([1, 0, 0])


def _stored(op: Operation) -> None:
    if _known(StoreOp(op).mask) is True:
        op.set_operands(op.operands[:2])


def _taken(op: Operation) -> None:
    """A branch that is always or never taken leaves its operations, and its values, behind."""
    branch = IfOp(op)
    holds = _known(branch.condition)
    if holds is None:
        return
    taken = branch.branches[0] if holds else (branch.branches[1] if len(branch.branches) > 1 else None)
    if taken is None or not taken.ops:
        op.erase()
        return
    builder = Builder.before(op)
    *inner, end = taken.ops
    for it in inner:
        builder.insert(it.detach())
    replace_op(op, list(end.operands))


_SIMPLE: dict[str, Callable[[Operation], None]] = by_name(
    {
        AndIOp: _both,
        BroadcastOp: _shaped,
        ExpandDimsOp: _shaped,
        SplatOp: _shaped,
        LoadOp: _loaded,
        StoreOp: _stored,
        IfOp: _taken,
    }
)
