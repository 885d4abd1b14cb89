"""Assumptions as people write them, and what the credit check makes of them for numbers computed from arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.errors import AssumptionError
from tawa.ir import parse_module
from tawa.verify.assumptions import Assumption, holding, parse_assumptions
from tawa.verify.credits.facts import Facts
from tawa.verify.credits.skeleton import Part, Program, Term, Terms
from tests.cases.programs import ttgir as programs


def test_a_fact_is_read_as_it_is_written() -> None:
    assert parse_assumptions(["L >= 128"]) == (Assumption("L", ">=", 128),)
    assert parse_assumptions(["K % 64 == 0"]) == (Assumption("K", "==", 0, 64),)
    assert parse_assumptions(["  n!=-3 "]) == (Assumption("n", "!=", -3),)


@pytest.mark.parametrize("text", ["L >= 128 and K % 64 == 0", "L >= 128, K % 64 == 0", "L >= 128 && K%64==0"])
def test_facts_are_joined_by_and_or_commas(text: str) -> None:
    assert [str(fact) for fact in parse_assumptions([text])] == ["L >= 128", "K % 64 == 0"]


def test_a_range_is_two_facts() -> None:
    assert [str(fact) for fact in parse_assumptions(["0 < M <= 4096"])] == ["M > 0", "M <= 4096"]


@pytest.mark.parametrize(
    "text", ["", "L", "L >= ", "L >= K", "128 >= 64", "L // 2 == 0", "K % 0 == 0", "L >= 1.5", "a b > 1"]
)
def test_what_is_no_comparison_with_a_number_is_an_error_that_shows_how(text: str) -> None:
    with pytest.raises(AssumptionError, match="write L >= 128"):
        parse_assumptions([text])


def test_an_error_quotes_the_part_and_the_whole() -> None:
    with pytest.raises(AssumptionError, match=r"'L' in 'K > 1 and L' is no assumption"):
        parse_assumptions(["K > 1 and L"])


def test_every_fact_about_a_name_has_to_hold() -> None:
    facts = parse_assumptions(["0 < M <= 8", "M % 4 == 0", "N > 100"])
    assert [value for value in range(-8, 20) if holding(facts, "M", value)] == [4, 8]
    assert holding(facts, "K", -1)


# -- numbers computed from arguments -----------------------------------------------------------------------------------

STEPS = {
    "arith.addi": lambda number, constant: number + constant,
    "arith.subi": lambda number, constant: number - constant,
    "arith.muli": lambda number, constant: number * constant,
    "arith.divsi": lambda number, constant: int(number / constant),
}
FACTS = ["n >= 5", "n <= 40", "n % 6 == 0", "n % 4 != 1", "n != 12", "n == 9", "n < 3", "n > 17"]


def facts_about(texts: list[str], steps: list[tuple[str, int]]) -> tuple[Facts, Term]:
    """Facts about n, and the number that the steps make of n."""
    terms = Terms()
    argument = number = terms(("argument", 0), "n")
    for name, constant in steps:
        number = terms((name, number, constant))
    module = parse_module(programs.tile_gemm())
    program = Program(module, [Part("kernel")], [], [], [], {"n": argument}, terms, {})
    return Facts(program, parse_assumptions(texts)), number


chains = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 7)), max_size=3)


@given(st.lists(st.sampled_from(FACTS), min_size=1, max_size=3), chains)
def test_a_number_is_possible_exactly_if_a_value_of_the_argument_makes_it(
    texts: list[str], steps: list[tuple[str, int]]
) -> None:
    facts, number = facts_about(texts, steps)
    assumptions = parse_assumptions(texts)
    possible: set[int] = set()
    for value in range(-3000, 3000):
        if holding(assumptions, "n", value):
            made = value
            for name, constant in steps:
                made = STEPS[name](made, constant)
            possible.add(made)
    for made in range(-8, 9):
        assert facts.allows(number, made, made) == (made in possible), (texts, steps, made)


@given(st.sampled_from(["n % 6 == 0", "n % 4 != 1", "n % 5 == 2"]), chains, st.integers(1, 4))
def test_facts_with_a_modulus_repeat_after_their_period(text: str, steps: list[tuple[str, int]], step: int) -> None:
    facts, number = facts_about([text], steps)
    period = facts.period(number, step) * step
    for made in range(2000, 2040):
        assert facts.allows(number, made, made) == facts.allows(number, made + period, made + period)


def test_what_two_numbers_make_is_possible_and_uses_no_fact() -> None:
    facts, number = facts_about(["n > 3"], [])
    both = Terms()(("arith.muli", number, number))
    assert facts.allows(both, -1, -1)
    assert not facts.used
    assert not facts.allows(number, 0, 3)
    assert list(facts.used) == ["n > 3"]
