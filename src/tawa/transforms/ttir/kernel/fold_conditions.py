"""Fold conditions: branches that are always or never taken, whatever a launch passes, become straight code.

    for %i in 0 to 2:                                for %i in 0 to 2:
      %c = cmpi sge, %i, 0                     →       dot %t …
      if %c { dot %t … }

Triton does not know the ranges of loop indices, and its pipeliner leaves loops alone whose dots are in branches.
Conditions of tiles are left to LLVM, which folds them as well.

Requires: TTIR, structured.
Ensures: the same effects and values. A comparison is folded only if it follows from constants and from the bounds of
the loops and branches around it, without a premise (`tawa.symbolic.value_ranges`).
Declines: never.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import AndIOp, CmpIOp, ConstantOp
from tawa.dialects.scf import IfOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Builder, Module, Operation, Value, replace_op, shape_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Proof
from tawa.symbolic.polynomial import ONE, Poly, constant
from tawa.symbolic.value_ranges import ValueRanges
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class FoldConditions:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Folds the branches of every structured function."""
        changed = False
        for op in list(module.body.ops):
            function = FuncOp.of(op)
            if function is not None and function.structured:
                changed |= _fold(function)
        return PassResult(changed)


def _fold(function: FuncOp) -> bool:
    affine = Affine()
    ranges = ValueRanges(function, affine)
    comparisons = [op for op in function.op.walk() if CmpIOp.matches(op) and _decides(op)]
    known = {op: it for op in comparisons if (it := _outcome(op, affine, ranges)) is not None}
    for op, holds in known.items():
        replace_op(op, [_boolean(op, holds)])
    for op in list(function.op.walk()) if known else ():
        if AndIOp.matches(op):
            _simplify(op)
        elif IfOp.matches(op):
            _take(op)
    return bool(known)


def _decides(op: Operation) -> bool:
    """Whether a branch depends on a condition, alone or with others."""
    return not shape_of(op.result) and any(
        IfOp.matches(it) or (AndIOp.matches(it) and _decides(it)) for it in op.result.users
    )


def _outcome(comparison: Operation, affine: Affine, ranges: ValueRanges) -> bool | None:
    """Whether a comparison always or never holds; None if that is not known."""
    bounds = affine.bounds(comparison.result)
    if not bounds or any(it.kind != "uniform" or not it.unconditional for it in bounds):
        return None

    def proved(poly: Poly) -> bool:
        return ranges.not_negative(poly, comparison) == Proof()

    if all(proved(it.room - ONE) for it in bounds):
        return True
    return False if any(proved(constant(0) - it.room) for it in bounds) else None


def _boolean(op: Operation, holds: bool) -> Value:
    properties = {"value": "true" if holds else "false"}
    return Builder.before(op).create(ConstantOp.NAME, (), ("i1",), properties=properties).result


def _known(value: Value) -> bool | None:
    """The value of a boolean constant."""
    found = ConstantOp.of(value.defining_op)
    return {"true": True, "false": False}.get(found.text) if found is not None else None


def _simplify(op: Operation) -> None:
    """A conjunction with a known condition is the other one, or false."""
    for known, other in (op.operands, op.operands[::-1]):
        holds = _known(known)
        if holds is not None:
            replace_op(op, [other if holds else known])
            return


def _take(op: Operation) -> None:
    """A branch that is always or never taken leaves its operations, and its values, behind."""
    branches, holds = IfOp(op).branches, _known(IfOp(op).condition)
    if holds is None:
        return
    if not holds and len(branches) < 2:
        op.erase()
        return
    builder = Builder.before(op)
    *inner, end = branches[0 if holds else 1].ops
    for it in inner:
        builder.insert(it.detach())
    replace_op(op, list(end.operands))
