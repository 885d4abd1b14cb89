"""The outcomes of a program's decisions in the runs made so far, to find the outcomes that no run has had.

    arith.cmpi ne, %k, %c1280      true: seen      false: not seen for K ≤ 448
    arith.divsi %pid, %c4          0: seen         more: not seen for pid 0, 1

Unbounded numbers (arguments, program ids, induction variables) turn into slots, parities, predicates and branches in
few ways: by a comparison, a minimum or maximum, a quotient or remainder, masked bits, or the bounds of a loop, which
may be empty. This module defines the outcomes of each of these decisions; between decisions the program is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.ir import Operation

Outcome = Callable[[int, int, int], int]
"""Maps left operand, right operand and result to the outcome, as bits."""
YES, NO, EQUAL, FIRST, SECOND = 1, 2, 4, 8, 16
"""FIRST, SECOND: only the first, or only the second, of two flags is set, so that each one's influence is tested."""
BOTH = YES | NO


def _compared(left: int, right: int, made: int) -> int:
    return (YES if made else NO) | (EQUAL if left == right else 0)


def _holds(left: int, right: int, made: int) -> int:
    return YES if made else NO


def _flags(left: int, right: int, made: int) -> int:
    return (YES if made else NO) | (FIRST if left and not right else 0) | (SECOND if right and not left else 0)


def _first_is_less(left: int, right: int, made: int) -> int:
    return YES if left < right else NO


def _changes(left: int, right: int, made: int) -> int:
    return YES if made != left else NO


CHOICES = op_names(arith.MinSIOp, arith.MinUIOp, arith.MaxSIOp, arith.MaxUIOp)
QUOTIENTS = op_names(
    arith.DivSIOp, arith.DivUIOp, arith.CeilDivSIOp, arith.CeilDivUIOp, arith.FloorDivSIOp, arith.ShRSIOp, arith.ShRUIOp
)
REMAINDERS = op_names(arith.RemSIOp, arith.RemUIOp, arith.AndIOp)
_LOGIC = op_names(arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_OUTCOMES: Mapping[str, Outcome] = {
    arith.CmpIOp.NAME: _compared,
    **dict.fromkeys(sorted(CHOICES), _first_is_less),
    **dict.fromkeys(sorted(QUOTIENTS), _holds),
    **dict.fromkeys(sorted(REMAINDERS), _changes),
}


def outcome_of(op: Operation) -> Outcome | None:
    """The outcome function of a decision with two operands; None if `op` is not a decision."""
    if joins_flags(op):
        return _flags
    return _OUTCOMES.get(op.name)


def joins_flags(op: Operation) -> bool:
    """Whether `op` combines two flags into one."""
    return op.name in _LOGIC and op.result.type == "i1"


def picks_flag(op: Operation) -> bool:
    """Whether `op` selects between flags, which is a decision like an `and`."""
    return op.name == arith.SelectOp.NAME and op.result.type == "i1"
