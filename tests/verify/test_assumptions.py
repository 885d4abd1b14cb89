"""Assumptions in the form that users write."""

from __future__ import annotations

import pytest

from tawa.errors import AssumptionError
from tawa.verify.assumptions import Assumption, parse_assumptions


def test_a_fact_is_parsed() -> None:
    assert parse_assumptions(["L >= 128"]) == (Assumption("L", ">=", 128),)
    assert parse_assumptions(["K % 64 == 0"]) == (Assumption("K", "==", 0, 64),)
    assert parse_assumptions(["a.shape[1] % 8 == 0"]) == (Assumption("a.shape[1]", "==", 0, 8),)
    assert parse_assumptions(["  n!=-3 "]) == (Assumption("n", "!=", -3),)


@pytest.mark.parametrize("text", ["L >= 128 and K % 64 == 0", "L >= 128, K % 64 == 0", "L >= 128 && K%64==0"])
def test_facts_are_joined_by_and_or_commas(text: str) -> None:
    assert [str(fact) for fact in parse_assumptions([text])] == ["L >= 128", "K % 64 == 0"]


def test_a_range_is_two_facts() -> None:
    assert [str(fact) for fact in parse_assumptions(["0 < M <= 4096"])] == ["M > 0", "M <= 4096"]


@pytest.mark.parametrize(
    "text", ["", "L", "L >= ", "L >= K", "128 >= 64", "L // 2 == 0", "K % 0 == 0", "L >= 1.5", "a b > 1"]
)
def test_anything_but_a_comparison_with_a_number_is_an_error_with_a_cure(text: str) -> None:
    with pytest.raises(AssumptionError, match="write L >= 128"):
        parse_assumptions([text])


def test_an_error_quotes_the_part_and_the_whole() -> None:
    with pytest.raises(AssumptionError, match=r"'L' in 'K > 1 and L' is not an assumption"):
        parse_assumptions(["K > 1 and L"])


def test_a_fact_holds_for_the_numbers_that_it_allows() -> None:
    facts = parse_assumptions(["0 < M <= 8", "M % 4 == 0"])
    assert [value for value in range(-8, 20) if all(fact.holds(value) for fact in facts)] == [4, 8]
