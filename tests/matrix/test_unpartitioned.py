"""Kernels without partitions: their loops convert no tiles and load rows ahead, and the bits stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.nothing_to_do import why_nothing_to_do
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.structured import read_kernel
from tawa.declines import NO_DOT
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.scf import enclosing_loops
from tawa.errors import PlanError
from tawa.ir import Module, parse_module
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions, RingPlan
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.search.search import Search
from tawa.plan.search.space import AHEAD, NOT_AHEAD, UNPARTITIONED, UNROLLED, Space
from tawa.sim import simulate
from tests.cases.small.row_kernels import decayed, multiplied, of_a_chunk, one_loop, scored, summed, written
from tests.matrix.promoting import Launch, lay_out
from tests.support.fronts import Front, front
from tests.support.sample import sample

WARPS = (1, 2, 4, 8)
_B, _N = 16, 64


def without_a_dot(rows: int) -> Launch:
    """A launch of the kernel that scores rows."""
    lot = np.random.default_rng(rows)
    arguments: dict[str, Any] = {
        "q_ptr": lot.standard_normal(_B * _N).astype(np.float32),
        "k_ptr": lot.standard_normal(_B * _N).astype(np.float16),
        "g_ptr": lot.standard_normal(_B * _N).astype(np.float32),
        "out_ptr": np.full(_B * _B, np.nan, np.float32),
        "J": rows,
    }
    return Launch(scored, arguments, {"B": _B, "N": _N}, (1,), told=False)


def launch(kernel: Any, trips: int = 2, rows: int = _B) -> Launch:
    lot = np.random.default_rng(trips + rows)
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((trips + 1) * _B * _B).astype(np.float32),
        "k_ptr": lot.standard_normal((trips + 1) * _B * _N).astype(np.float16),
        "g_ptr": lot.standard_normal((trips + 3) * _B * _N).astype(np.float32),
        "out_ptr": np.full(_B * _N, np.nan, np.float32),
        "T": trips,
        "J": rows,
    }
    return Launch(kernel, arguments, {"B": _B, "N": _N}, (1,), told=False)


def made(given: Launch, num_warps: int, plan: Plan = UNPARTITIONED) -> tuple[Front, Specialised]:
    """The kernel before and after."""
    before = front(given.kernel, given.signature(), num_warps=num_warps)
    after = specialise(before.job("kernel"), Request(plan=plan))
    assert isinstance(after, Specialised), after.remarks
    return before, after


def final(it: Specialised) -> Module:
    return parse_module(print_generic(it.results["ttgir"].value.module))


def output(given: Launch, module: Module, order: Any = "eager") -> dict[str, bytes]:
    arguments = {name: it.copy() if isinstance(it, np.ndarray) else it for name, it in given.arguments.items()}
    simulate(module, arguments, given.grid, order=order, seed=1)
    return {name: it.tobytes() for name, it in arguments.items() if isinstance(it, np.ndarray)}


def inside(module: Module, name: str) -> list[Any]:
    return [op for op in module.walk() if op.name == name and enclosing_loops(op)]


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 4))
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize(("trips", "rows"), [(0, 0), (0, 1), (1, 3), (1, 4), (2, 5), (1, 9), (2, 16)])
def test_the_bits_stay(trips: int, rows: int, num_warps: int, order: str) -> None:
    given = launch(decayed, trips, rows)
    before, after = made(given, num_warps)
    assert output(given, lay_out(before, before.ttir)) == output(given, final(after), order)


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 3))
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("plan", [AHEAD, UNROLLED], ids=["ahead", "unrolled"])
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17])
def test_the_bits_of_whole_and_partial_chunks_stay(rows: int, plan: Plan, num_warps: int, order: str) -> None:
    given = launch(of_a_chunk, 1, rows)
    before, after = made(given, num_warps, plan)
    assert output(given, lay_out(before, before.ttir)) == output(given, final(after), order)


def test_a_number_of_warps_is_a_power_of_two() -> None:
    with pytest.raises(PlanError, match=r"num_warps=3; cure: a power of two up to 32"):
        made(launch(decayed), 1, replace(NOT_AHEAD, num_warps=3))


@pytest.mark.parametrize(("launched", "tried"), [(1, [2, 4]), (2, [4]), (4, [2]), (8, [2, 4])])
def test_launches_try_two_and_four_warps_where_a_loop_computes_with_rows(launched: int, tried: list[int]) -> None:
    assert [it.num_warps for it in search_of(launch(decayed), launched).forms if it.num_warps] == tried
    assert not any(it.num_warps for it in search_of(launch(one_loop), launched).forms)


@pytest.mark.parametrize("num_warps", WARPS)
def test_the_rows_of_a_chunk_are_unrolled_where_the_plan_says_so(num_warps: int) -> None:
    for plan in (NOT_AHEAD, UNROLLED):
        _, after = made(launch(of_a_chunk), num_warps, plan)
        masked = [op for op in final(after).walk() if op.name == "arith.select" and op.result.type.startswith("tensor")]
        assert len(masked) == 1 + (_B if plan is UNROLLED else 0)
        remark = "16 iterations without what a mask drops"
        assert any(remark in it.reason for it in after.outcome.remarks) is (plan is UNROLLED)


@pytest.mark.parametrize(("num_warps", "unrolled"), [(1, False), (2, True), (4, True), (8, False)])
def test_the_planner_unrolls_where_two_to_four_warps_share_the_code(num_warps: int, unrolled: bool) -> None:
    plan = made(launch(of_a_chunk), num_warps)[1].outcome.plan
    assert plan is not None and plan.unrolled is unrolled
    assert not (unrolled and any(it.prefetched for it in plan.operands))


def test_launches_that_learn_try_unrolled_rows_where_a_mask_drops_some() -> None:
    assert UNROLLED in search_of(launch(of_a_chunk), 2).forms
    assert UNROLLED not in search_of(launch(decayed), 2).forms


def test_a_plan_that_unrolls_masked_rows_needs_some() -> None:
    with pytest.raises(PlanError, match=r"unrolls loops over masked rows, but there is none; cure: unrolled=false"):
        made(launch(decayed), 2, UNROLLED)


@pytest.mark.parametrize("num_warps", WARPS)
def test_no_tile_is_converted_in_the_loop_of_rows(num_warps: int) -> None:
    _, after = made(launch(decayed), num_warps)
    assert not inside(final(after), "ttg.convert_layout")
    plan = after.outcome.plan
    assert plan is not None and plan.form == "unpartitioned" and not plan.partitions and not plan.rings


@pytest.mark.parametrize(("num_warps", "ahead"), [(1, True), (2, True), (4, False), (8, False)])
def test_rows_are_loaded_one_iteration_ahead_if_an_iteration_has_enough_to_do(num_warps: int, ahead: bool) -> None:
    _, after = made(launch(decayed), num_warps)
    plan = after.outcome.plan
    assert plan is not None
    assert [it.argument for it in plan.operands if it.prefetched] == ["a_ptr", "k_ptr", "g_ptr"] * ahead
    count = len([op for op in final(after).walk() if op.name == "tt.load"])
    assert count == 1 + (3 + 3 if ahead else 3)  # gates, which bring their rows to L1; first rows, next iteration's


@pytest.mark.parametrize(("spilled", "ahead"), [(0, True), (16, False)])
def test_no_rows_are_loaded_ahead_where_stock_triton_spills(
    monkeypatch: pytest.MonkeyPatch, spilled: int, ahead: bool
) -> None:
    monkeypatch.setattr("tawa.bridge.driver.back_end._stock_facts", lambda job: ProgramFacts(spilled=spilled))
    plan = made(launch(decayed), 1)[1].outcome.plan
    assert plan is not None and any(it.prefetched for it in plan.operands) is ahead


def test_a_product_whose_conversion_goes_is_rounded_before_it_is_added() -> None:
    given = launch(multiplied)
    before, after = made(given, 4)
    assert not inside(final(after), "ttg.convert_layout")
    products = inside(final(after), "tt.elementwise_inline_asm")
    assert len(products) == 1 and all(map(RoundedProductOp.matches, products))
    assert all([user.name for user in it.result.users] == ["arith.addf"] for it in products)
    assert output(given, lay_out(before, before.ttir)) == output(given, final(after))


def test_a_kernel_that_would_stay_as_it_is_is_refused() -> None:
    with pytest.raises(PlanError, match=r"changes nothing: no loop converts a tile.*cure: leave form out"):
        made(launch(one_loop), 4)


def test_a_plan_may_leave_the_rows_where_they_are() -> None:
    _, after = made(launch(decayed), 1, Plan(form="unpartitioned", operands=(OperandPlan(prefetched=False),)))
    assert not inside(final(after), "ttg.convert_layout")
    assert after.outcome.plan is not None and not any(it.prefetched for it in after.outcome.plan.operands)


def test_a_plan_that_loads_rows_ahead_needs_some() -> None:
    with pytest.raises(PlanError, match=r"rows one iteration ahead, but no loop has one.*cure: prefetched=false"):
        made(launch(one_loop), 4, AHEAD)


def test_a_loop_that_writes_what_it_reads_keeps_the_order() -> None:
    with pytest.raises(PlanError, match=r"changes nothing: no loop .* loads rows that it may load ahead"):
        made(launch(written, rows=6), 1, Plan(form="unpartitioned"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"operands": (OperandPlan("a_ptr", 0, path="promoted"),)}, "path='promoted' of a_ptr"),
        ({"groups": 2}, "groups=2"),
        ({"tiles": "dynamic"}, "tiles='dynamic'"),
        ({"rings": (RingPlan("ring0", depth=2),)}, "rings"),
        ({"loops": (LoopPlan(0, mma_depth=1),)}, "mma_depth=1 of loop 0"),
    ],
)
def test_a_plan_without_partitions_has_no_words_for_them(more: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=rf"{said}.*form='unpartitioned'.*cure: leave it out"):
        made(launch(decayed), 4, Plan(form="unpartitioned", **more))


def test_a_plan_that_is_passed_back_gives_the_same_kernel() -> None:
    given = launch(decayed)
    _, first = made(given, 2)
    assert first.outcome.plan is not None
    _, again = made(given, 2, first.outcome.plan)
    assert again.outcome.plan == first.outcome.plan
    assert str(again.results["ttgir"].value) == str(first.results["ttgir"].value)


@pytest.mark.parametrize("num_warps", [1, 2, 8])
def test_launches_that_learn_try_it_where_the_kernel_is_declined(num_warps: int) -> None:
    given = launch(decayed)
    before = front(given.kernel, given.signature(), num_warps=num_warps)
    learned = specialise(before.job("kernel"), Request(learns=True))
    assert isinstance(learned, Specialised)
    assert learned.outcome.plan is not None and learned.outcome.plan.form == "unpartitioned"


@pytest.mark.parametrize("kernel", [decayed, one_loop])
def test_launches_that_learn_try_it_beside_the_specialised_forms_if_a_loop_without_dots_loads_rows(kernel: Any) -> None:
    found = tried(launch(kernel), 4)
    assert (AHEAD in found) == (NOT_AHEAD in found) == (kernel is decayed)


def test_nobody_else_gets_it_unasked() -> None:
    given = launch(decayed)
    found = specialise(front(given.kernel, given.signature(), num_warps=1).job("kernel"), Request())
    assert not isinstance(found, Specialised) and "narrow" not in found.remarks[0].reason


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 3))
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("rows", [0, 1, 16])
def test_a_kernel_without_a_dot_keeps_its_bits_and_converts_nothing_in_its_loop(
    rows: int, num_warps: int, order: str
) -> None:
    given = without_a_dot(rows)
    before, after = made(given, num_warps)
    assert inside(lay_out(before, before.ttir), "ttg.convert_layout")
    assert not inside(final(after), "ttg.convert_layout")
    assert output(given, lay_out(before, before.ttir)) == output(given, final(after), order)


@pytest.mark.parametrize(
    ("kernel", "learns", "tried"), [(scored, True, True), (scored, False, False), (summed, True, False)]
)
def test_a_kernel_without_a_dot_is_tried_by_launches_that_learn_if_it_has_a_loop_of_rows(
    kernel: Any, learns: bool, tried: bool
) -> None:
    given = Launch(
        kernel,
        {"x_ptr": np.zeros(_N, np.float32), "out_ptr": np.zeros(1, np.float32), "J": 1},
        {"N": _N},
        (1,),
        told=False,
    )
    given = without_a_dot(1) if kernel is scored else given
    ttir = str(front(given.kernel, given.signature(), num_warps=1).ttir)
    refusal = why_nothing_to_do(ttir, Request(), learns)
    assert refusal is None if tried else refusal is not None and NO_DOT.says(refusal.reason)
    assert why_nothing_to_do(ttir, Request(plan=UNPARTITIONED), False) is None


def test_launches_try_rows_ahead_and_not_ahead_where_a_loop_computes_with_rows() -> None:
    assert AHEAD in tried(without_a_dot(1), 2) and AHEAD not in tried(launch(one_loop), 2)


def tried(given: Launch, num_warps: int) -> tuple[Plan, ...]:
    """The forms that a launch may try."""
    search = search_of(given, num_warps)
    return search.in_launches(search.space.launches[0])


def search_of(given: Launch, num_warps: int) -> Search:
    made = front(given.kernel, given.signature(), num_warps=num_warps)
    space = Space.of(read_kernel(made.ttir, made.context), 0, (num_warps, 3, None), PlanOptions(), True)
    assert space is not None
    return Search.of(space)
