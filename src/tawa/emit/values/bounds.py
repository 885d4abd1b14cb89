"""Bounds of loops that Triton 3.6 changes: its canonicalizer of Gluon does not see that a nested loop needs its bounds.

    for i in range(n):                      for i in range(n):
        for j in range(0, stop):                for j in range(0, stop):
            …                                       …
        stop = following                    (`stop` stays what it is before the loop)

It takes a variable for dead that only bounds nested loops and that is not read after the loop. Such a nested loop is
written with `while`. Triton 3.9 does not have this fault.
"""

from __future__ import annotations

from tawa.dialects import scf
from tawa.dialects.control_flow import incoming, outgoing
from tawa.emit.values.pure import PURE
from tawa.ir import Block, Use, Value, Worklist


def only_bounds_loops(bound: Value) -> bool:
    """Whether a loop bound depends on a variable of an enclosing loop that is used only in loop bounds."""
    work = Worklist([bound])
    for value in work:
        made = value.defining_op
        if _carried(value) and _looks_dead(value):
            return True
        work += made.operands if made is not None and made.name in PURE else []
        work += [use.value for use in incoming(value)]
    return False


def _carried(value: Value) -> bool:
    """Whether this is a variable that a loop with bounds carries."""
    return isinstance(value.owner, Block) and scf.ForOp.matches(value.owner.parent_op) and value.index > 0


def _looks_dead(variable: Value) -> bool:
    """Whether all uses of a variable of a loop end in bounds of loops."""
    work = Worklist([variable])
    for value in work:
        for use in value.uses:
            following = _following(use)
            if following is None:
                return False
            work += following
    return True


def _following(use: Use) -> list[Value] | None:
    """The values that a use flows into; None if the use keeps the value alive by itself."""
    op = use.op
    if op.name in PURE:
        return list(op.results)
    if scf.ForOp.matches(op) and use.index < 3:
        return []
    return outgoing(use) or None
