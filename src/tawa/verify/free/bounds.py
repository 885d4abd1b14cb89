"""The forms that bounds and conditions of loops have: where a range starts, what caps it, what a comparison orders.

x + 4, in steps of 2                                      x, and 2 trips before
select(low < high and high - low >u E, low + E, high)     a loop up to there ends after E trips of low … high
low < high and high - low >u E                            low + E < high
n <= 7                                                    7 < n, denied: n < 8 is n <= 7
"""

from __future__ import annotations

from collections import Counter

from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, MaxSIOp, Predicate, SelectOp, SubIOp, read_predicate
from tawa.verify.skeleton.program import Term

Number = int | Term


def is_not_negative(term: Term) -> bool:
    """Whether a number is at least 0 by the operation that computes it."""
    return term.key[0] == MaxSIOp.NAME and any(isinstance(it, int) and it >= 0 for it in term.key[-2:])


def addends_of(number: Number) -> tuple[Counter[Term], int]:
    """The terms of a sum, and its constant."""
    if isinstance(number, int):
        return Counter(), number
    if number.key[0] != AddIOp.NAME or number.narrow:
        return Counter([number]), 0
    (one, first), (other, second) = map(addends_of, number.key[-2:])
    return one + other, first + second


def start_of(lower: Number, step: int) -> tuple[Number, int]:
    """The start of the range that a loop from `lower` is a part of, and the trips from there to `lower`, maybe < 0."""
    trips = 0
    while isinstance(lower, Term) and lower.key[0] == AddIOp.NAME and not lower.narrow:
        parts = [it for it in lower.key[-2:] if isinstance(it, Term)]
        numbers = [it for it in lower.key[-2:] if isinstance(it, int)]
        if len(parts) != 1 or len(numbers) != 1 or numbers[0] % step:
            break
        lower, trips = parts[0], trips + numbers[0] // step
    if isinstance(lower, int):
        lower, trips = lower % step, trips + lower // step
    return lower, trips


def cap_of(term: Number) -> tuple[Number, int, Number] | None:
    """(low, E, high) if the term is ``select(low < high and high - low >u E, low + E, high)``."""
    if not isinstance(term, Term) or term.key[0] != SelectOp.NAME:
        return None
    condition, near, high = term.key[-3:]
    longer = longer_than(condition)
    if longer is None or longer[2] != high:
        return None
    low, most, _ = longer
    if isinstance(low, int):
        return longer if near == low + most else None
    is_near = isinstance(near, Term) and near.key[0] == AddIOp.NAME and near.key[-2:] == (low, most)
    return longer if is_near else None


def longer_than(term: Number) -> tuple[Number, int, Number] | None:
    """(low, E, high) if the term is ``low < high and high - low >u E``: then, and only then, low + E < high."""
    if not isinstance(term, Term) or term.key[0] != AndIOp.NAME:
        return None
    longer = comparison_of(term.key[-1])
    if longer is None or longer[0] != Predicate.UGE:
        return None
    _, length, most = longer
    if not isinstance(most, int) or most <= 1:
        return None
    orders = orders_of(term.key[-2])
    return next(((low, most - 1, high) for low, high, no in orders if not no and _is_length(length, low, high)), None)


def _is_length(length: Number, low: Number, high: Number) -> bool:
    """Whether a number is ``high - low``, also where that was computed to a sum: ``x`` of ``low`` and ``low + x``."""
    if isinstance(length, Term) and length.key[0] == SubIOp.NAME and length.key[-2:] == (high, low):
        return True
    (parts, number), (more, by), (whole, total) = map(addends_of, (length, low, high))
    return parts + more == whole and number + by == total


def comparison_of(term: Number) -> tuple[Predicate, Number, Number] | None:
    """Predicate, left and right operand of a comparison; None for any other term."""
    if not isinstance(term, Term) or term.key[0] != CmpIOp.NAME:
        return None
    properties = dict(zip(term.key[1:-2:2], term.key[2:-2:2], strict=True))
    return read_predicate(str(properties["predicate"])), *term.key[-2:]


def orders_of(term: Number) -> list[tuple[Number, Number, bool]]:
    """What a comparison says as ``lower < upper``, in each way; the last item tells whether it says the opposite."""
    compared = comparison_of(term)
    if compared is None or compared[0] not in (Predicate.SLT, Predicate.SGE):
        return []
    predicate, left, right = compared
    found = [(left, right, predicate == Predicate.SGE)]
    return [*found, (right - 1, left, predicate == Predicate.SLT)] if isinstance(right, int) else found
