"""Drop dead: removes what no effect of the function needs, also what a loop only carries for itself.

    %a, %p = scf.for … iter_args(%acc = %0, %q = %ptrs) {         %a = scf.for … iter_args(%acc = %0) {
      …                                                   →         …
      yield %sum, addptr %q, 64 }                                   yield %sum }

Triton's own passes drop unused operations, but not a value that is carried from iteration to iteration and used to
compute nothing but itself. Where every load through a pointer was replaced, those pointers would stay in registers.

Requires: a structured function.
Ensures: every operation left is needed by one with an effect; what a `scf.while` carries stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.effects import has_side_effect
from tawa.analysis.slices import SliceInfo, slice_from
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
    live = slice_from(roots, function.op)
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
    kept = live.kept_indices(op)
    loop, branch = ForOp.of(op), IfOp.of(op)
    if len(kept) == len(op.results) or not (loop or branch):
        return False
    if loop:
        op.set_operands([*loop.bounds, *(loop.inits[index] for index in kept)])
        block = loop.body
        block.args = _renumber([block.args[0], *(block.args[1 + index] for index in kept)])
        ends = [block.terminator]
    else:
        ends = [block.terminator for block in IfOp(op).branches]
    for end in ends:
        end.set_operands([end.operands[index] for index in kept])
    op.results = _renumber([op.results[index] for index in kept])
    return True


def _renumber(values: list[Value]) -> list[Value]:
    for index, value in enumerate(values):
        value.index = index
    return values


__all__ = ["DropDead"]
