"""The outcomes of decisions."""

from __future__ import annotations

import pytest

from tawa.ir import Operation, parse_module
from tawa.verify.barriers.program.outcomes import EQUAL, FIRST, NO, SECOND, YES, joins_flags, outcome_of
from tests.cases.programs import ttgir as programs


def operation(name: str, type: str = "i32") -> Operation:
    lines = (
        programs.compare("first", "n", "m", 2),
        programs.compare("second", "m", "n", 2),
        programs.compare("made", "n", "m", 2) if name == "cmpi" else "",
        programs.binary("made", name, *(("first", "second") if type == "i1" else ("n", "m")), type) * (name != "cmpi"),
    )
    module = parse_module(programs.kernel("\n".join(line for line in lines if line)))
    return next(op for op in module.walk() for value in op.results if value.hint == "made")


@pytest.mark.parametrize(
    ("name", "numbers", "outcome"),
    [
        ("cmpi", (1, 2, 1), YES),
        ("cmpi", (2, 2, 0), NO | EQUAL),
        ("minsi", (1, 2, 1), YES),
        ("maxsi", (2, 1, 2), NO),
        ("divsi", (7, 8, 0), NO),
        ("divsi", (8, 8, 1), YES),
        ("remsi", (7, 8, 7), NO),
        ("remsi", (9, 8, 1), YES),
    ],
)
def test_a_decision_has_one_outcome_per_side(name: str, numbers: tuple[int, int, int], outcome: int) -> None:
    of = outcome_of(operation(name))
    assert of is not None and of(*numbers) == outcome


def test_a_combination_of_flags_has_an_outcome_for_each_flag_alone() -> None:
    op = operation("andi", "i1")
    of = outcome_of(op)
    assert joins_flags(op) and of is not None
    assert [of(1, 0, 0), of(0, 1, 0), of(1, 1, 1)] == [NO | FIRST, NO | SECOND, YES]


def test_sums_decide_nothing() -> None:
    assert outcome_of(operation("addi")) is None
