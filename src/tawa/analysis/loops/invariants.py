"""Invariants: what every iteration of a loop computes alike."""

from __future__ import annotations

from tawa.dialects.effects import is_pure
from tawa.ir import Operation, Value, Worklist


def varies(value: Value, loop: Operation) -> bool:
    """Whether a value may change from one iteration of a loop to the next."""
    work = Worklist([value])
    for it in work:
        op = it.defining_op
        if op is None:
            if any(it.owner is block for region in loop.regions for block in region.blocks):
                return True
        elif loop.is_ancestor_of(op):
            if op.regions or not is_pure(op):
                return True
            work += op.operands
    return False
