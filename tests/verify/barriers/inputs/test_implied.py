"""Outcomes that are impossible because of dominating conditions."""

from __future__ import annotations

import pytest

from tawa.verify.barriers.inputs.implied import Implied
from tawa.verify.barriers.program.outcomes import NO, YES
from tests.cases.programs.ttgir import binary, branch, compare, for_loop
from tests.verify.barriers.program.test_origins import number, origins


def excluded(*lines: str) -> list[int]:
    """The impossible outcomes of the condition %asked."""
    found, values = origins(*lines)
    op = values["asked"].defining_op
    assert op is not None
    return [outcome for outcome in (YES, NO) if Implied(found).excludes(op, outcome)]


def test_bounds_of_an_enclosing_loop_are_in_order() -> None:
    assert excluded(for_loop(compare("asked", "m", "n", 2), lower="m", upper="n")) == [NO]
    assert excluded(compare("asked", "m", "n", 2)) == []


def test_an_induction_variable_is_below_the_upper_bound() -> None:
    assert excluded(for_loop(compare("asked", "k", "n", 2), upper="n")) == [NO]
    later = "\n".join((binary("later", "addi", "k", "one"), compare("asked", "later", "n", 2)))
    assert excluded(for_loop(later, upper="n")) == []


@pytest.mark.parametrize(("constant", "impossible"), [(4, []), (5, [NO]), (6, [NO])])
def test_a_dominating_branch_constrains_its_operands(constant: int, impossible: list[int]) -> None:
    lines = (number("five", 5), number("c", constant), compare("small", "n", "five", 2))
    assert excluded(*lines, branch(compare("asked", "n", "c", 2), condition="small")) == impossible


PID = '%pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32'


@pytest.mark.parametrize(("of", "more"), [("pid", [YES]), ("n", [])])
def test_a_quotient_of_a_program_id_below_the_divisor_is_zero(of: str, more: list[int]) -> None:
    for name, by in (("divsi", "c"), ("remsi", "c"), ("shrsi", "six")):
        lines = (PID, number("c", 64), number("six", 6), compare("small", of, "c", 2))
        assert excluded(*lines, branch(binary("asked", name, of, by), condition="small")) == more, name
        assert excluded(*lines, binary("asked", name, of, by)) == [], name


def test_a_minimum_is_at_most_its_operands() -> None:
    assert excluded(binary("x", "minsi", "n", "m"), compare("asked", "n", "x", 2)) == [YES]
