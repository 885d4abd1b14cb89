"""When rows are loaded in the order of the next dot, and why they are not."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

from tawa.analysis.names import name_module
from tawa.bridge.triton.generic_print import read_ttir
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import OperandPlan, Plan, PlanOptions
from tawa.plan.decide import orders
from tawa.plan.decide.orders import NOT_OURS, Orders, choose_orders
from tawa.plan.decide.paths import Launching
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.cases.small import ordered_kernels as kernels
from tests.matrix.compiling import signature
from tests.support.fronts import front

RELAXED, OURS = PlanOptions(precision="relaxed"), Launching(ours=True)
K = ("k_desc", 0, 0)


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where rows are put in another order without being asked."""
    monkeypatch.setattr(orders, "UNASKED", True)


@functools.cache
def named(kernel: Any, **sizes: Any) -> Module:
    case = kernels.case(kernel, **sizes)
    made = front(case.kernel, signature(case), num_warps=case.num_warps)
    module = read_ttir(made.ttir, made.context)
    name_module(module)
    return module


def chosen(
    kernel: Any, options: PlanOptions = RELAXED, pins: Plan = Plan(), launching: Launching = OURS
) -> tuple[Orders, str]:
    """What is chosen, and the reason for the rows of K."""
    found = choose_orders(named(kernel), options, launching, LaunchSpec(), pins)
    return found, found.why.get("operands.k_desc, loop 0.rows", "")


def asking(rows: Any, *key: Any) -> Plan:
    return Plan(operands=(OperandPlan(*(key or K), rows=rows),))


def test_an_exchange_that_is_saved_decides() -> None:
    found, why = chosen(kernels.plain)
    assert len(found.ordered) == 1 and found.plan.operand(K).rows == "for_next_dot"
    assert why == "the next dot takes the result as it is: 64 cycles of exchanges less in each iteration"


def test_rows_stay_in_order_unless_a_plan_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found, why = chosen(kernels.plain)
    assert found.ordered == () and found.plan.operand(K).rows == "in_order"
    assert why == "another order saves 64 cycles of exchanges in each iteration, but only a Plan asks for it"
    assert len(chosen(kernels.plain, pins=asking("for_next_dot"))[0].ordered) == 1


def test_a_sum_that_would_round_differently_takes_permission() -> None:
    found, why = chosen(kernels.normalised, PlanOptions())
    assert found.ordered == () and found.plan.operand(K).rows == "in_order"
    assert why.startswith("a sum along them would round differently (") and "relaxed" in why
    assert len(chosen(kernels.normalised)[0].ordered) == 1


def test_without_such_a_sum_no_permission_is_needed() -> None:
    assert len(chosen(kernels.causal, PlanOptions())[0].ordered) == 1


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.scaled, "a load through pointers runs along them"),
        (kernels.written, "the columns of its dot cannot stand in another order: tl.store has an effect along them"),
        (kernels.odd_start, "the first row of the tile is not known to be a multiple of 2"),
    ],
)
def test_rows_that_stay_have_a_reason(kernel: Any, reason: str) -> None:
    found, why = chosen(kernel)
    assert found.ordered == () and found.plan.operand(K).rows == "in_order" and why.startswith(reason)


def test_dots_that_are_too_small_for_wgmma_keep_rows_in_order() -> None:
    found = choose_orders(named(kernels.plain, BM=32), RELAXED, OURS, LaunchSpec(), Plan())
    assert found.ordered == ()
    assert set(found.why.values()) == {"its dots have fewer than the 64 rows of a wgmma"}


def test_operands_of_16_bits_have_no_order_to_decide() -> None:
    found = choose_orders(named(kernels.halves, dtype="fp16"), RELAXED, OURS, LaunchSpec(), Plan())
    assert found == Orders()


def test_a_kernel_that_others_launch_gets_no_descriptor() -> None:
    assert chosen(kernels.plain, launching=Launching())[1] == NOT_OURS


def test_a_plan_decides_for_itself() -> None:
    assert chosen(kernels.plain, pins=asking("in_order"))[0].ordered == ()
    assert len(chosen(kernels.normalised, PlanOptions(), asking("for_next_dot"))[0].ordered) == 1
    assert len(chosen(kernels.scaled, pins=asking("for_next_dot"))[0].ordered) == 1


def test_the_default_of_a_plan_is_met_where_it_can_be() -> None:
    every = asking("for_next_dot", None, None, 0)
    assert len(chosen(kernels.normalised, PlanOptions(), every)[0].ordered) == 1
    assert chosen(kernels.written, pins=every)[0].ordered == ()


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.written, "tl.store has an effect along them"),
        (kernels.read_twice, "a dot sums over them"),
        (kernels.odd_start, "not known to be a multiple of 2"),
        (kernels.scanned, "no dot of its rows has a result that threads exchange"),
    ],
)
def test_a_plan_that_cannot_be_met_names_the_load_and_the_cure(kernel: Any, reason: str) -> None:
    with pytest.raises(PlanError) as error:
        chosen(kernel, pins=asking("for_next_dot"))
    text = str(error.value)
    assert text.startswith("the Plan orders the rows of k_desc, loop 0 (") and reason in text
    assert text.endswith("cure: rows='in_order'") and "ordered_kernels.py" in text


def test_a_plan_that_moves_a_sum_contradicts_an_exact_kernel() -> None:
    exact = PlanOptions(precision="exact")
    with pytest.raises(PlanError, match="precision='exact' keeps the order of the sum along them"):
        chosen(kernels.normalised, exact, asking("for_next_dot"))
    assert len(chosen(kernels.plain, exact, asking("for_next_dot"))[0].ordered) == 1


def test_a_plan_for_a_kernel_that_others_launch_cannot_be_met() -> None:
    with pytest.raises(PlanError, match=NOT_OURS):
        chosen(kernels.plain, pins=asking("for_next_dot"), launching=Launching())


def test_the_rows_of_the_second_dot_have_no_order() -> None:
    with pytest.raises(PlanError, match="rows of v_desc, loop 0"):
        chosen(kernels.plain, pins=asking("for_next_dot", "v_desc", 0, 0))


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(PlanError, match=r'rows=.mixed. in a Plan; cure: one of "in_order", "for_next_dot"'):
        replace(OperandPlan(), rows="mixed")  # type: ignore[arg-type]
