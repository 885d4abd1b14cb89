"""Join loads: two loads of one tile in the branches of an ``if``, one with a mask, become one load with a mask.

    %t = scf.if %c {                                 %all = splat(%c ^ true)
      yield load %p, %mask, %zeros                   %t = load %p, %mask | %all, %zeros
    } else {                                    →
      yield load %p
    }

Kernels load the last page of a cache this way, or tiles at an edge. A load in a branch stays with the consumer; the
joined one can move to the producer.

Requires: TTIR, structured.
Ensures: the same effects and values. The operations of both branches now run in either case, so all of them are pure,
end, and divide by constants only.
Declines: never.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import ConstantOp, OrIOp, XOrIOp
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.scf import IfOp, WhileOp
from tawa.dialects.tt import FuncOp, LoadOp, SplatOp
from tawa.ir import Builder, Module, Operation, Value, replace_op
from tawa.transforms.result import PassResult

_DIVIDES = ("div", "rem")


@dataclass(frozen=True, slots=True)
class JoinLoads:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Joins the loads of every structured function."""
        functions = [function for op in module.body.ops if (function := FuncOp.of(op)) and function.structured]
        branches = [op for function in functions for op in function.op.walk() if IfOp.matches(op)]
        joined = [op for op in branches if _join(op)]
        return PassResult(bool(joined))


def _join(op: Operation) -> bool:
    """Joins the loads of one ``if``; returns whether it is gone."""
    branches = IfOp(op).branches
    if len(branches) != 2 or len(op.results) != 1:
        return False
    one, other = (LoadOp.of(branch.terminator.operands[0].defining_op) for branch in branches)
    if one is None or other is None or not _joinable(op, one, other):
        return False
    masked, all_lanes = (one, other) if one.mask is not None else (other, one)
    assert masked.mask is not None
    builder = Builder.before(op)
    for branch in branches:
        for inner in branch.ops[:-1]:
            if inner not in (one.op, other.op):
                builder.insert(inner.detach())
    builder.loc = masked.op.loc
    everywhere = IfOp(op).condition
    if all_lanes is other:
        everywhere = builder.create(XOrIOp.NAME, (everywhere, builder.constant(1, "i1")), ("i1",)).result
    type = masked.mask.type
    lanes = builder.create(SplatOp.NAME, (everywhere,), (type,)).result if type != "i1" else everywhere
    mask = builder.create(OrIOp.NAME, (masked.mask, lanes), (type,)).result
    load = builder.insert(masked.op.detach())
    load.set_operand(1, mask)
    replace_op(op, [load.result])
    return True


def _joinable(op: Operation, one: LoadOp, other: LoadOp) -> bool:
    """Whether two loads, which the branches of `op` give, are of one tile, and whether one of them has a mask."""
    inside = [inner for branch in IfOp(op).branches for inner in branch.ops[:-1]]
    if one.op not in inside or other.op not in inside or (one.mask is None) == (other.mask is None):
        return False
    loads = (one.op, other.op)
    if not all(is_plain_load(it) and len(it.result.uses) == 1 for it in loads):
        return False
    hints = [{name: text for name, text in it.properties.items() if name != "operandSegmentSizes"} for it in loads]
    computed = all(inner in loads or (is_pure(inner) and not _is_guarded(inner)) for inner in inside)
    return computed and hints[0] == hints[1] and _same(one.pointers, other.pointers, set())


def _is_guarded(op: Operation) -> bool:
    """Whether a branch may guard an operation, or one inside of it: it may divide by zero, or never end."""
    return any(WhileOp.matches(inner) or _may_divide_by_zero(inner) for inner in op.walk())


def _may_divide_by_zero(op: Operation) -> bool:
    return any(it in op.name for it in _DIVIDES) and not ConstantOp.matches(op.operands[1].defining_op)


def _same(one: Value, other: Value, known: set[tuple[Value, Value]]) -> bool:
    """Whether two values are computed alike. known: pairs that are, or that are asked for already."""
    first, second = one.defining_op, other.defining_op
    if one is other or (one, other) in known:
        return True
    known.add((one, other))
    if first is None or second is None or first.regions or second.regions or not is_pure(first):
        return False
    return (
        (first.name, first.properties, one.index, one.type) == (second.name, second.properties, other.index, other.type)
        and len(first.operands) == len(second.operands)
        and all(_same(*it, known) for it in zip(first.operands, second.operands, strict=True))
    )
