"""Random inputs for an ordering comparison."""

from __future__ import annotations

import pytest

from tawa.ir import Operation
from tawa.verify.barriers.inputs.sampling import samples
from tawa.verify.barriers.program.kernel import BarrierProgram
from tests.cases.programs.ttgir import binary, compare
from tests.verify.barriers.program.test_origins import number, origins


def comparison(*lines: str) -> tuple[BarrierProgram, Operation]:
    found, values = origins(*lines)
    op = values["asked"].defining_op
    assert op is not None
    known = {value: found.constant(value) for value in values.values() if value.type == "i32"}
    found.program.constants = {value: constant for value, constant in known.items() if constant is not None}
    return found.program, op


PRODUCT = (number("c", 100), binary("x", "muli", "n", "m"), compare("asked", "c", "x", 2))


@pytest.mark.parametrize("want", [True, False])
def test_a_sample_has_the_wanted_outcome(want: bool) -> None:
    program, op = comparison(*PRODUCT)
    found = samples(program, op, want)
    assert found is not None
    n, m = (next(number for value, number in found.items() if value.hint == name) for name in "nm")
    assert (n * m > 100) == want


def test_an_impossible_outcome_has_no_sample() -> None:
    program, op = comparison(number("c", 7), binary("x", "minsi", "n", "two"), compare("asked", "c", "x", 2))
    assert samples(program, op, True) is None


def test_a_test_for_equality_is_not_sampled() -> None:
    program, op = comparison(*PRODUCT[:2], compare("asked", "c", "x", 0))
    with pytest.raises(ValueError, match="comparison"):
        samples(program, op, True)
