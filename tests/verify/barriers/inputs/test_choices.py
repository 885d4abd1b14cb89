"""The numbers tried: corner cases with fast effort, all small trip counts with full; assumptions restrict both."""

from __future__ import annotations

import pytest

from tawa.errors import AssumptionError
from tawa.ir import parse_module
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.barriers.inputs.choices import choices, trips_to_try
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.verdict import Checked, Refuted, Unknown
from tests.support.verdicts import passes
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import NAMED, PROGRAMS, barrier, data, kind_of, made, ops


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("depth", "mma_depth"), [(1, 0), (2, 1), (3, 2)])
def test_fast_proves_the_pipeline_s_output(program: str, depth: int, mma_depth: int) -> None:
    aref, low = made(program, depth, mma_depth)
    for verdict in (
        check_barriers(parse_module(low), effort="fast"),
        check_refinement(parse_module(aref), parse_module(low), effort="fast"),
    ):
        assert isinstance(verdict, Checked), verdict
        assert "only" not in verdict.bound


@pytest.mark.parametrize(("kind", "program", "change", "name", "place"), NAMED)
def test_fast_names_the_same_faults(kind: str, program: str, change: mutate.Change, name: str, place: int) -> None:
    module = barrier(program)
    assert change(ops(module, name)[place])
    assert kind_of(check_barriers(module, effort="fast")) == kind


def test_the_bound_names_every_number_that_was_tried() -> None:
    fast, full = (check_barriers(barrier("tile"), effort=effort) for effort in ("fast", "full"))
    assert isinstance(fast, Checked)
    assert isinstance(full, Checked)
    assert "n in 0, 1, 5 (" in fast.bound
    assert "n in 0, 1, …, 5 (" in full.bound


def test_fast_tries_trip_counts_that_wrap_every_ring() -> None:
    """The fault occurs when slot 0 is filled for the second time: in trip D + 1."""
    for depth in (1, 2, 3, 4):
        module = barrier("tile", depth, 0)
        mutate.drop(ops(module, mutate.ARRIVE)[0])
        assert isinstance(check_barriers(module, effort="fast"), Refuted)


def test_two_waves_of_a_persistent_kernel_are_tried() -> None:
    program = BarrierProgram(barrier("while"))
    found = choices(program, {}, (), trips_to_try(program, "fast", None))
    assert {choice.name: choice.numbers for choice in found if choice.outer} == {"m": (0, 1, 2)}


# -- assumptions -------------------------------------------------------------------------------------------------------


def test_an_assumption_about_an_unknown_argument_names_the_arguments() -> None:
    with pytest.raises(AssumptionError, match=r"'q' in 'q > 3' is not an integer argument of the kernel.*n"):
        check_barriers(barrier("tile"), assume=("q > 3",))


def test_only_assumptions_that_changed_the_numbers_are_stated() -> None:
    verdict = check_barriers(barrier("tile"), assume=("n >= 2 and n % 1 == 0",))
    assert isinstance(verdict, Checked)
    assert verdict.assumptions == ("n >= 2",)
    assert "n in 2, 3, …, 7" in verdict.bound
    unused = check_barriers(barrier("tile"), assume=("n >= 0",))
    assert passes(unused)
    assert unused.assumptions == ()


def test_a_large_lower_bound_moves_the_tried_numbers_there() -> None:
    verdict = check_barriers(barrier("tile"), assume=("n >= 40 and n % 3 == 1",), max_trips=2)
    assert isinstance(verdict, Checked)
    assert "n in 40, 43, 46" in verdict.bound


def test_unsatisfiable_assumptions_are_unknown() -> None:
    verdict = check_barriers(barrier("tile"), assume=("n < 0",))
    assert isinstance(verdict, Unknown)
    assert "no choice of numbers" in verdict.reason
    assert verdict.assumptions == ("n < 0",)


def test_a_refuted_verdict_states_its_assumptions() -> None:
    module = data("gluon_attention_ping_pong.triton3_6")
    for init in ops(module, mutate.INIT):
        init.properties["count"] = "1 : i32"
    verdict = check_barriers(module, assume=("L >= 256",))
    assert isinstance(verdict, Refuted)
    assert "L >= 256" in verdict.assumptions


def test_a_refinement_out_of_budget_states_how_many_choices_it_compared() -> None:
    aref, low = made("two_loops", 2, 1)
    verdict = check_refinement(parse_module(aref), parse_module(low), budget_states=2000)
    assert isinstance(verdict, Checked), verdict
    assert " of 36 choices" in verdict.bound
    early = check_refinement(parse_module(aref), parse_module(low), budget_states=1)
    assert isinstance(early, Unknown)
    assert "1 of 36 choices" in early.reason
