"""Comparisons in one form mean what they meant, and equal ones are one."""

from __future__ import annotations

import itertools

import pytest

from tawa.dialects.arith import Predicate
from tawa.verify.comparisons import one_form

NUMBERS = range(-3, 4)


def value(predicate: Predicate, left: object, right: object, given: dict[str, int]) -> int | None:
    one, other = (it if isinstance(it, int) else given[str(it)] for it in (left, right))
    return predicate.holds(one, other)


@pytest.mark.parametrize("predicate", Predicate)
def test_a_comparison_in_one_form_holds_for_the_same_numbers(predicate: Predicate) -> None:
    numbers = range(5) if predicate.is_unsigned else NUMBERS
    for a, b in itertools.product(numbers, numbers):
        given = {"a": a, "b": b}
        for left, right in (("a", "b"), ("a", b), (a, "b")):
            expected = value(predicate, left, right, given)
            assert expected is not None
            assert value(*one_form(predicate, left, right), given) == expected, (left, right)
            assert value(predicate.negated, left, right, given) == 1 - expected


def test_all_ways_to_write_a_limit_are_one() -> None:
    ways = [
        one_form(Predicate.SGT, "x", 3),
        one_form(Predicate.SGE, "x", 4),
        one_form(Predicate.SLT, 3, "x"),
        one_form(Predicate.SLE, 4, "x"),
    ]
    assert ways == [(Predicate.SGE, "x", 4)] * 4
    assert one_form(Predicate.SGT, "a", "b") == one_form(Predicate.SLT, "b", "a") == (Predicate.SLT, "b", "a")


def test_a_negative_limit_of_unsigned_numbers_is_left_as_it_is() -> None:
    """It is the largest number: one more is 0."""
    above = Predicate.UGT
    assert one_form(above, "x", 3) == (Predicate.UGE, "x", 4)
    assert one_form(above, "x", -1) == (above, "x", -1)
    assert above.holds(-1, 3) is None
