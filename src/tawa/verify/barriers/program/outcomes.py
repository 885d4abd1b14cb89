"""Which way each decision of a program went in the runs that were made; one that never went the other way is untried.

    arith.cmpi ne, %k, %c1280      holds: seen     does not: not seen for K ≤ 448
    arith.divsi %pid, %c4          0: seen         more: not seen for pid 0, 1

Numbers that can be any number (arguments, program numbers, how far a loop is) become slots, parities, predicates and
branches in few ways: by a comparison, a minimum or maximum, a quotient or remainder, bits that are masked; and a loop
asks whether there is anything between its bounds. Each of these has its outcomes here; between them everything is
linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.ir import Operation

Outcome = Callable[[int, int, int], int]
"""From left, right and result: what happened, as bits."""
YES, NO, EQUAL, FIRST, SECOND = 1, 2, 4, 8, 16
"""FIRST, SECOND: of two flags the first, or the second, alone: what each of them decides shows there."""
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
    """How a decision with two operands goes; None where `op` decides nothing."""
    if joins_flags(op):
        return _flags
    return _OUTCOMES.get(op.name)


def joins_flags(op: Operation) -> bool:
    """Whether `op` makes one flag of two."""
    return op.name in _LOGIC and op.result.type == "i1"


def picks_flag(op: Operation) -> bool:
    """Whether `op` decides like an `and` of flags."""
    return arith.SelectOp.matches(op) and op.result.type == "i1"
