"""Comparisons in one form mean what they meant, and equal ones are one."""

from __future__ import annotations

import itertools

import pytest

from tawa.verify.comparisons import GREATER_EQUAL, LESS, UNSIGNED, holds, negated, one_form

NUMBERS = range(-3, 4)
PREDICATES = range(10)


def value(predicate: int, left: object, right: object, given: dict[str, int]) -> int | None:
    one, other = (it if isinstance(it, int) else given[str(it)] for it in (left, right))
    return holds(predicate, one, other)


@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_comparison_in_one_form_holds_for_the_same_numbers(predicate: int) -> None:
    numbers = NUMBERS if predicate <= GREATER_EQUAL else range(5)
    for a, b in itertools.product(numbers, numbers):
        given = {"a": a, "b": b}
        for left, right in (("a", "b"), ("a", b), (a, "b")):
            expected = value(predicate, left, right, given)
            assert expected is not None
            assert value(*one_form(predicate, left, right), given) == expected, (left, right)
            assert value(negated(predicate), left, right, given) == 1 - expected


def test_all_ways_to_write_a_limit_are_one() -> None:
    ways = [one_form(4, "x", 3), one_form(5, "x", 4), one_form(2, 3, "x"), one_form(3, 4, "x")]
    assert ways == [(GREATER_EQUAL, "x", 4)] * 4
    assert one_form(4, "a", "b") == one_form(2, "b", "a") == (LESS, "b", "a")


def test_a_negative_limit_of_unsigned_numbers_is_left_as_it_is() -> None:
    """It is the largest number: one more is 0."""
    above = 4 + UNSIGNED
    assert one_form(above, "x", 3) == (GREATER_EQUAL + UNSIGNED, "x", 4)
    assert one_form(above, "x", -1) == (above, "x", -1)
    assert holds(above, -1, 3) is None
