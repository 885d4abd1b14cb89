"""Facts about arguments, and the values that they allow for numbers computed from these."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tawa.ir import parse_module
from tawa.verify.assumptions import parse_assumptions
from tawa.verify.numbers.facts import Facts
from tawa.verify.skeleton.program import Part, Program, Term, Terms
from tests.cases.programs import ttgir as programs

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
    program = Program(module, [Part("kernel")], [], [], {"n": argument}, terms)
    return Facts(program, parse_assumptions(texts)), number


chains = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 7)), max_size=3)


@given(st.lists(st.sampled_from(FACTS), min_size=1, max_size=3), chains)
def test_a_number_is_allowed_exactly_if_an_allowed_argument_gives_it(
    texts: list[str], steps: list[tuple[str, int]]
) -> None:
    facts, number = facts_about(texts, steps)
    assumptions = parse_assumptions(texts)
    possible: set[int] = set()
    for value in range(-3000, 3000):
        if all(fact.holds(value) for fact in assumptions):
            made = value
            for name, constant in steps:
                made = STEPS[name](made, constant)
            possible.add(made)
    for made in range(-8, 9):
        assert facts.allows(number, made, made) == (made in possible), (texts, steps, made)


def test_a_number_computed_from_two_terms_is_unconstrained_and_uses_no_fact() -> None:
    facts, number = facts_about(["n > 3"], [])
    both = Terms()(("arith.muli", number, number))
    assert facts.allows(both, -1, -1)
    assert not facts.used
    assert not facts.allows(number, 0, 3)
    assert list(facts.used) == ["n > 3"]
