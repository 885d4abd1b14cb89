"""Inputs for an outcome of a decision, by backward propagation."""

from __future__ import annotations

from tawa.verify.barriers.inputs.targets import Inputs, Targets, Wanted, merged
from tests.cases.programs.ttgir import binary, compare
from tests.verify.barriers.program.test_origins import number, origins


def inputs(*lines: str, want: bool = True) -> tuple[list[dict[str, Wanted]], bool]:
    """What the condition %asked requires of arguments, by name; and whether inputs may have been missed."""
    found, values = origins(*lines)
    targets = Targets(found.program)
    targets.program.leaves = [values["n"], values["m"]]
    named = [
        {it if isinstance(it, str) else it.hint: wanted for it, wanted in one.items()}
        for one in targets.truth(values["asked"], want)
    ]
    return named, targets.unsure


def test_requirements_on_one_input_are_combined_or_contradict() -> None:
    one: Inputs = {"program_id(0)": Wanted(3, False)}
    assert merged(one, {"program_id(0)": Wanted(5, True)}) == {"program_id(0)": Wanted(5, True)}
    assert merged({"program_id(0)": Wanted(2, True)}, one) is None


def test_a_comparison_with_a_constant_is_propagated_to_the_argument() -> None:
    lines = (number("c", 20), number("d", 3), binary("x", "addi", "n", "d"), compare("asked", "c", "x", 2))
    found, unsure = inputs(*lines)
    assert found == [{"n": Wanted(18, False)}] and not unsure


def test_an_impossible_outcome_has_no_inputs_and_is_sure() -> None:
    lines = (number("c", 8), binary("x", "minsi", "n", "two"), compare("asked", "c", "x", 2))
    assert inputs(*lines) == ([], False)


def test_a_product_of_two_unknowns_is_inexact() -> None:
    _, unsure = inputs(number("c", 49), binary("x", "muli", "n", "m"), compare("asked", "x", "c", 0))
    assert unsure
