"""One form for every comparison: conditions that differ only in how they are written are one.

    x > 3,   3 < x,   x >= 4,   not (x < 4)         →   x >= 4
    a > b,   b < a,   not (b >= a)                  →   b < a

Constants are on the right, and are compared by < and >= only. Comparisons of flags are left as they are: as a signed
number of one bit, true is -1.
"""

from __future__ import annotations

from tawa.dialects.arith import Predicate

_TURNED = (Predicate.SGT, Predicate.SLE, Predicate.UGT, Predicate.ULE)
"""The predicates that comparisons in one form do not have."""


def one_form(predicate: Predicate, left: object, right: object) -> tuple[Predicate, object, object]:
    """Predicate and operands of an equal comparison. left, right: an int is a constant."""
    if isinstance(left, int) and not isinstance(right, int):
        predicate, left, right = predicate.mirrored, right, left
    if predicate not in _TURNED:
        return predicate, left, right
    if not isinstance(right, int):
        return predicate.mirrored, right, left
    if predicate.is_unsigned and right < 0:
        return predicate, left, right
    return Predicate(predicate + (1 if predicate in (Predicate.SGT, Predicate.UGT) else -1)), left, right + 1
