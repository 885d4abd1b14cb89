"""Drop dead: removes what no effect of the function needs, also what a loop only carries for itself.

    %a, %p = scf.for … iter_args(%acc = %0, %q = %ptrs) {         %a = scf.for … iter_args(%acc = %0) {
      …                                                   →         …
      yield %sum, addptr %q, 64 }                                   yield %sum }

Triton's own passes drop unused operations, but not a value that is carried from iteration to iteration and used to
compute nothing but itself. Where every load through a pointer was replaced, those pointers would stay in registers.

Requires: a structured function.
Ensures: every operation left is needed by one with an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.dialects.effects import has_side_effect
from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, Operation, Value
from tawa.transforms.result import PassResult

_CONTROL = frozenset({ForOp.NAME, IfOp.NAME, WhileOp.NAME})
_ENDS = frozenset({"scf.yield", "scf.condition"})


@dataclass(frozen=True, slots=True)
class DropDead:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Cleans every structured function of the module."""
        changed = False
        for op in list(module.body.ops):
            function = FuncOp.of(op)
            if function is not None and function.structured:
                changed |= _clean(function)
        return PassResult(changed)


def _clean(function: FuncOp) -> bool:
    nested = [op for op in function.op.walk() if op is not function.op]
    roots = [op for op in nested if op.name not in _CONTROL | _ENDS and (has_side_effect(op) or op.name == "tt.return")]
    return keep_only(nested, slice_from(roots, function.op))


def keep_only(nested: Sequence[Operation], live: SliceInfo) -> bool:
    """Removes all but `live` of some operations, in textual order with those inside of them; whether that was any."""
    changed = False
    for op in nested:
        if op in live and op.name in _CONTROL:
            changed |= _narrow(op, live)
    for op in reversed(nested):
        parent = op.parent_op
        if op in live or (op.name in _ENDS and parent is not None and parent in live) or _inner(op, live):
            continue
        op.erase()
        changed = True
    return changed


def _inner(op: Operation, live: SliceInfo) -> bool:
    """Whether an operation belongs to a live one that is no control flow: the body of a reduction."""
    parent = op.parent_op
    while parent is not None and parent.name not in _CONTROL and parent.name != FuncOp.NAME:
        if parent in live:
            return True
        parent = parent.parent_op
    return False


def _narrow(op: Operation, live: SliceInfo) -> bool:
    """Leaves a loop or a branch only the results that somebody needs."""
    kept, inits = live.kept_indices(op), live.kept_inits(op)
    loop, repeat = ForOp.of(op), WhileOp.of(op)
    if len(kept) == len(op.results) and not (repeat and len(inits) < len(op.operands)):
        return False
    if loop:
        op.set_operands([*loop.bounds, *(loop.inits[index] for index in kept)])
        loop.body.args = _chosen(loop.body.args, [0, *(1 + index for index in kept)])
        ends = [(loop.body.terminator, kept)]
    elif repeat:
        op.set_operands([op.operands[index] for index in inits])
        repeat.before.args = _chosen(repeat.before.args, inits)
        repeat.after.args = _chosen(repeat.after.args, kept)
        ends = [(repeat.before.terminator, [0, *(1 + index for index in kept)]), (repeat.after.terminator, inits)]
    else:
        ends = [(block.terminator, kept) for block in IfOp(op).branches]
    for end, indices in ends:
        end.set_operands([end.operands[index] for index in indices])
    op.results = _chosen(op.results, kept)
    return True


def _chosen(values: list[Value], indices: list[int]) -> list[Value]:
    """Some of the arguments or results, which take the places of all."""
    chosen = [values[index] for index in indices]
    for place, value in enumerate(chosen):
        value.index = place
    return chosen


__all__ = ["DropDead", "keep_only"]
