"""Whether a Plan is expected to beat stock Triton, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.resources import RegisterInfo, SharedInfo
from tawa.plan import PlanOptions
from tawa.plan.cost.budget import Budget, StockCopies
from tawa.plan.planner import choose_plan
from tawa.plan.profitability import why_not_worth_it
from tests.cases.programs import ttgir as programs
from tests.plan.test_planner import BUDGET, channels_of


def refusal(budget: Budget, copies: StockCopies = "tma", chained: bool = False) -> str:
    channels = channels_of(programs.tile_gemm())
    plan = choose_plan(channels, PlanOptions(), budget, staged_stores=True)
    return why_not_worth_it(plan, channels, budget, False, chained, copies)


def test_one_cta_of_groups_is_worth_it_where_stock_has_one() -> None:
    assert refusal(BUDGET) == ""
    assert "1 CTA would share an SM instead of 2" in refusal(replace(BUDGET, num_warps=8, groups=1))


@pytest.mark.parametrize(("accumulators", "stock"), [(64, 2), (32, 3)])
def test_fewer_ctas_than_stock_has_are_not_expected_to_pay_though_each_has_groups(
    accumulators: int, stock: int
) -> None:
    crowded = replace(BUDGET, registers=RegisterInfo(accumulators, 32))
    for copies in ("tma", "rows"):
        assert f"1 CTA of 2 groups would share an SM instead of {stock}" in refusal(crowded, copies)


def test_of_stock_kernels_with_pointers_two_share_an_sm_at_most() -> None:
    one = replace(BUDGET, num_warps=8, groups=1)
    assert "would share an SM instead of 2" in refusal(one, "rows")
    assert "would share an SM instead of 4" in refusal(replace(one, registers=RegisterInfo(32, 32)))
    assert "would share an SM instead of 2" in refusal(replace(one, registers=RegisterInfo(32, 32)), "rows")


def test_one_cta_is_enough_where_a_wgmma_is_wide_or_stock_copies_elements() -> None:
    one = replace(BUDGET, num_warps=8, groups=1)
    wide = replace(one, registers=RegisterInfo(128, 128), num_warps=4, shared=SharedInfo(100 * 1024, 0, 0))
    assert "would share an SM instead of 2" in refusal(replace(wide, registers=RegisterInfo(128, 127)), "rows")
    assert refusal(wide, "rows") == ""
    assert "would share an SM instead of 2" in refusal(wide, "rows", chained=True)
    assert "would share an SM instead of 2" in refusal(wide, "tma")
    assert refusal(one, "elements") == ""


def test_ctas_that_share_an_sm_are_worth_it_where_stock_copies_by_instructions() -> None:
    small = replace(BUDGET, groups=1)
    assert refusal(small) != ""
    assert refusal(small, "rows") == ""


def test_a_ring_of_one_slot_is_not_worth_it() -> None:
    channels = channels_of(programs.tile_gemm())
    plan = choose_plan(channels, PlanOptions(), BUDGET, staged_stores=True)
    flat = replace(plan, rings=tuple(replace(ring, depth=1) for ring in plan.rings))
    assert why_not_worth_it(plan, channels, BUDGET, persistent=False) == ""
    assert "its ring has one slot only" in why_not_worth_it(flat, channels, BUDGET, persistent=False)
