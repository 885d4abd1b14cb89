"""The forms of bounds and conditions that the queries of loops rely on."""

from __future__ import annotations

import pytest

from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, MaxSIOp, Predicate, SelectOp, SubIOp
from tawa.verify.free.bounds import (
    Number,
    addends_of,
    cap_of,
    comparison_of,
    is_not_negative,
    orders_of,
    start_of,
)
from tawa.verify.skeleton.program import Term, Terms

TERMS = Terms()
N, LOW, HIGH = (TERMS(("argument", place), name) for place, name in enumerate(("n", "low", "high")))


def added(one: Number, other: Number) -> Term:
    return TERMS((AddIOp.NAME, one, other))


def compared(predicate: int, left: Number, right: Number) -> Term:
    return TERMS((CmpIOp.NAME, "predicate", f"{predicate} : i64", left, right))


def capped(most: int, *, length: Term | None = None, near: Term | None = None) -> Term:
    """``min(low + most, high)``, as early puts compute it."""
    distance = length or TERMS((SubIOp.NAME, HIGH, LOW))
    longer = compared(Predicate.UGT, distance, most)
    condition = TERMS((AndIOp.NAME, compared(Predicate.SLT, LOW, HIGH), longer))
    return TERMS((SelectOp.NAME, condition, near or added(LOW, most), HIGH))


def test_a_range_starts_before_the_whole_steps_that_are_added() -> None:
    assert start_of(added(N, 4), 2) == (N, 2)
    assert start_of(added(N, 3), 2) == (added(N, 3), 0), "no whole number of steps"
    assert start_of(7, 3) == (1, 2) and start_of(-2, 3) == (1, -1)
    assert start_of(added(N, -4), 2) == (N, -2)


def test_a_sum_of_few_bits_may_wrap_and_is_no_step_of_a_range() -> None:
    """127 and 1 is -128 in 8 bits."""
    wrapping, wide = (TERMS((AddIOp.NAME, "of", type, N, 1)) for type in ("i8", "i64"))
    assert (start_of(wrapping, 1), start_of(wide, 1)) == ((wrapping, 0), (N, 1))
    assert (addends_of(wrapping), addends_of(wide)) == (({wrapping: 1}, 0), ({N: 1}, 1))


def test_a_sum_has_its_terms_and_its_constant() -> None:
    parts, number = addends_of(added(added(N, 3), added(N, LOW)))
    assert parts == {N: 2, LOW: 1} and number == 3
    assert addends_of(5) == ({}, 5)


def test_the_end_of_early_puts_is_a_cap() -> None:
    assert cap_of(capped(3)) == (LOW, 3, HIGH)


def test_the_end_of_early_puts_is_one_also_where_the_length_was_computed() -> None:
    """high - low is high where low is 0, and x where high is low + x."""
    longer = TERMS((AndIOp.NAME, compared(Predicate.SGE, HIGH, 1), compared(Predicate.UGT, HIGH, 3)))
    assert cap_of(TERMS((SelectOp.NAME, longer, 3, HIGH))) == (0, 3, HIGH)
    high = added(LOW, N)
    longer = TERMS((AndIOp.NAME, compared(Predicate.SLT, LOW, high), compared(Predicate.UGT, N, 3)))
    assert cap_of(TERMS((SelectOp.NAME, longer, added(LOW, 3), high))) == (LOW, 3, high)
    longer = TERMS((AndIOp.NAME, compared(Predicate.SLT, LOW, high), compared(Predicate.UGT, HIGH, 3)))
    assert cap_of(TERMS((SelectOp.NAME, longer, added(LOW, 3), high))) is None


@pytest.mark.parametrize(
    "other",
    [
        HIGH,
        5,
        capped(3, length=TERMS((SubIOp.NAME, N, LOW))),
        capped(3, near=added(LOW, 2)),
        TERMS((SelectOp.NAME, compared(Predicate.SLT, LOW, HIGH), added(LOW, 3), HIGH)),
    ],
)
def test_any_other_choice_is_no_cap(other: Number) -> None:
    assert cap_of(other) is None


def test_a_comparison_says_which_number_is_below_the_other() -> None:
    assert orders_of(compared(Predicate.SLT, N, HIGH)) == [(N, HIGH, False)]
    assert orders_of(compared(Predicate.SLE, HIGH, N)) == [(N, HIGH, True)]
    assert orders_of(compared(Predicate.SLT, N, 8)) == [(N, 8, False), (7, N, True)]
    assert orders_of(compared(Predicate.UGE, N, 8)) == orders_of(N) == []
    assert comparison_of(N) is None


def test_a_maximum_with_zero_is_not_negative() -> None:
    assert is_not_negative(TERMS((MaxSIOp.NAME, N, 0)))
    assert not is_not_negative(TERMS((MaxSIOp.NAME, N, -1))) and not is_not_negative(N)
