"""Why a Plan is not expected to beat stock Triton."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.resources import RegisterInfo
from tawa.machine.coefficients import ErrorInfo
from tawa.plan import Plan, PlanOptions
from tawa.plan.planner import Counts, complete
from tawa.plan.search.prediction import Expectation, anyway, why_not_expected, why_not_faster
from tests.cases.programs import ttgir as programs
from tests.plan.test_planner import BUDGET, channels_of

MODULE = programs.parse(programs.tile_gemm())
SURE = ErrorInfo(0.0, 9)


def plan_with(depth: int) -> Plan:
    plan = complete(Plan(), Counts(channels_of(programs.tile_gemm()), BUDGET), PlanOptions())
    return replace(plan, rings=tuple(replace(ring, depth=depth) for ring in plan.rings))


@pytest.mark.parametrize(("own_us", "pays"), [(5.0, True), (20.0, False)])
def test_the_predicted_times_decide(own_us: float, pays: bool) -> None:
    expectation = Expectation(10.0, own_us, SURE, "dots")
    assert (why_not_expected(MODULE, plan_with(3), BUDGET, expectation) == "") is pays


def test_what_is_too_close_to_tell_stays_with_stock_and_names_what_settles_it() -> None:
    reason = why_not_faster(Expectation(10.0, 9.9, ErrorInfo(0.2, 9), "dots"))
    assert "9.9 us predicted" in reason and "10.0 us for stock Triton's" in reason
    assert "too close to tell; `tawa tune`" in reason
    assert "tawa tune" not in why_not_faster(Expectation(10.0, 30.0, ErrorInfo(0.2, 9), "dots"))


def test_a_kernel_that_is_predicted_to_be_slower_is_not_recommended_without_a_word() -> None:
    slower = anyway(Expectation(10.0, 12.5, SURE, "dots"))
    assert slower.endswith("with 0.80 times the speed of stock Triton by this prediction")
    for other in (None, Expectation(10.0, 9.9, SURE, "dots")):
        assert anyway(other).endswith("specialises it although it is not expected to pay")


def test_an_accumulator_that_takes_all_registers_is_left_to_stock_whatever_is_predicted() -> None:
    full = replace(BUDGET, registers=RegisterInfo(256, 128, largest=256), num_warps=8)
    faster = Expectation(10.0, 5.0, SURE, "dots")
    assert "spills to local memory with any compiler" in why_not_expected(MODULE, plan_with(3), full, faster)


def test_without_a_prediction_a_ring_of_one_slot_is_left_to_stock() -> None:
    assert "one slot only" in why_not_expected(MODULE, plan_with(1), BUDGET, None)
    assert why_not_expected(MODULE, plan_with(2), BUDGET, None) == ""
