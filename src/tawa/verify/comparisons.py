"""One form for every comparison: conditions that differ only in how they are written are one.

    x > 3,   3 < x,   x >= 4,   not (x < 4)         →   x >= 4
    a > b,   b < a,   not (b >= a)                  →   b < a

Constants are on the right, and are compared by < and >= only. Comparisons of flags are left as they are: as a signed
number of one bit, true is -1.
"""

from __future__ import annotations

EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)
"""Predicates of ``arith.cmpi``; those of unsigned numbers are greater by `UNSIGNED`."""
UNSIGNED = 4
_MIRRORED = {LESS: GREATER, LESS_EQUAL: GREATER_EQUAL, GREATER: LESS, GREATER_EQUAL: LESS_EQUAL}
_NEGATED = {
    EQUAL: NOT_EQUAL,
    NOT_EQUAL: EQUAL,
    LESS: GREATER_EQUAL,
    GREATER_EQUAL: LESS,
    GREATER: LESS_EQUAL,
    LESS_EQUAL: GREATER,
}


def one_form(predicate: int, left: object, right: object) -> tuple[int, object, object]:
    """Predicate and operands of an equal comparison. left, right: an int is a constant."""
    if isinstance(left, int) and not isinstance(right, int):
        predicate, left, right = _mirrored(predicate), right, left
    if isinstance(right, int):
        plain = predicate - UNSIGNED if predicate > GREATER_EQUAL else predicate
        if plain in (GREATER, LESS_EQUAL) and (plain == predicate or right >= 0):
            predicate, right = predicate + (1 if plain == GREATER else -1), right + 1
    elif predicate in (GREATER, LESS_EQUAL, GREATER + UNSIGNED, LESS_EQUAL + UNSIGNED):
        predicate, left, right = _mirrored(predicate), right, left
    return predicate, left, right


def negated(predicate: int) -> int:
    """The predicate that holds where this one does not."""
    return _NEGATED[predicate] if predicate <= GREATER_EQUAL else _NEGATED[predicate - UNSIGNED] + UNSIGNED


def holds(predicate: int, left: int, right: int) -> int | None:
    """The result for two numbers, 0 or 1; None for unsigned numbers if one is negative: that depends on their width."""
    if predicate > GREATER_EQUAL:
        return None if min(left, right) < 0 else holds(predicate - UNSIGNED, left, right)
    if predicate in (EQUAL, NOT_EQUAL):
        return int((left == right) == (predicate == EQUAL))
    if predicate in (LESS, GREATER_EQUAL):
        return int((left < right) == (predicate == LESS))
    return int((left > right) == (predicate == GREATER))


def _mirrored(predicate: int) -> int:
    if predicate > GREATER_EQUAL:
        return _MIRRORED[predicate - UNSIGNED] + UNSIGNED
    return _MIRRORED.get(predicate, predicate)
