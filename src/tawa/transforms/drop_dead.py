"""Drop dead: dead-code elimination that also removes dead loop-carried values.

    %a, %p = scf.for … iter_args(%acc = %0, %q = %ptrs) {         %a = scf.for … iter_args(%acc = %0) {
      …                                                   →         …
      yield %sum, addptr %q, 64 }                                   yield %sum }

Triton's own passes drop unused operations, but not a loop-carried value whose only use is to compute its own next
value. After all loads through a pointer were replaced, such a value would keep the pointers in registers.

Requires: a structured function.
Ensures: every remaining operation has a side effect, or an operation with a side effect depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.dialects.control_flow import narrow
from tawa.dialects.effects import has_side_effect
from tawa.dialects.scf import CONTROL, ENDS
from tawa.dialects.tt import FuncOp, ReturnOp
from tawa.ir import Module, Operation
from tawa.transforms.result import PassResult


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
    roots = [op for op in nested if op.name not in CONTROL | ENDS and (has_side_effect(op) or ReturnOp.matches(op))]
    return keep_only(nested, slice_from(roots, function.op))


def keep_only(nested: Sequence[Operation], live: SliceInfo) -> bool:
    """Erases the operations of `nested` that are not in `live`, and narrows control flow to its live results.

    nested: in textual order, each operation before those in its regions. Returns whether anything was erased.
    """
    changed = False
    for op in nested:
        if op in live and op.name in CONTROL:
            changed |= narrow(op, live.kept_indices(op), live.kept_inits(op))
    for op in reversed(nested):
        parent = op.parent_op
        if op in live or (op.name in ENDS and parent is not None and parent in live) or _in_live_region(op, live):
            continue
        op.erase()
        changed = True
    return changed


def _in_live_region(op: Operation, live: SliceInfo) -> bool:
    """Whether an operation lies in a region of a live operation other than control flow: the body of a reduction."""
    parent = op.parent_op
    while parent is not None and parent.name not in CONTROL and parent.name != FuncOp.NAME:
        if parent in live:
            return True
        parent = parent.parent_op
    return False
