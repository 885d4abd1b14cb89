"""What is known of a kernel before layouts: which of its forms are expected to be the fastest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.plan import Plan, PlanOptions
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.option_conflicts import STOCK
from tawa.plan.search.search import Search
from tawa.plan.search.space import Space
from tests.cases.programs.workloads import by_descriptors, chained, workload
from tests.plan.cost.test_programs import plan
from tests.support.forms import form_plan

GEMM = Space(8, 3, workload(by_descriptors()))
PERSISTENT = replace(GEMM, persistent=True)
ATTENTION = Space(8, 2, workload(chained()))


def test_the_persistent_form_counts_only_where_launches_may_get_it() -> None:
    form = form_plan(1)
    assert PERSISTENT.of_form(form).own_us < GEMM.of_form(form).own_us
    assert PERSISTENT.of_form(form).own_us == PERSISTENT.of_form(replace(form, form="persistent")).own_us


def test_a_plan_is_expected_to_take_the_time_of_its_form() -> None:
    found = GEMM.expected(plan(groups=1))
    assert found is not None
    assert found.own_us == pytest.approx(GEMM.of_form(form_plan(1)).own_us, rel=0.2)
    shallow = GEMM.expected(plan(groups=1, rings=(replace(plan().rings[0], depth=1),)))
    assert shallow is not None and shallow.gain < found.gain


def test_nothing_is_expected_if_stock_does_not_fit() -> None:
    assert replace(GEMM, num_stages=5).expected(plan()) is None


def test_the_usual_number_of_groups_is_tried_first_unless_another_is_clearly_faster() -> None:
    assert Search.of(ATTENTION).groups(usual=2) == Search.of(ATTENTION).groups(usual=1) == 2
    single = Search.of(Space(4, 3, workload(by_descriptors())))
    assert single.groups(usual=1) == single.groups(usual=2) == 1
    assert Search.of(replace(ATTENTION, num_warps=16)).groups(usual=4) == 2


def test_forms_are_those_that_pins_and_options_leave_open() -> None:
    assert Search.of(GEMM, options=PlanOptions(num_consumer_groups=2)).forms == (form_plan(2),)
    pinned = Search.of(PERSISTENT, Plan(form="persistent"))
    assert pinned.forms == (form_plan(1, persistent=True), form_plan(2, persistent=True))
    assert Search.of(PERSISTENT, Plan(form="as_written", groups=1)).forms == (form_plan(1),)


def test_plans_are_ranked_by_their_mean_over_the_usual_launches() -> None:
    found = Search.of(GEMM).ranked()
    times = [it.predicted_us or 0.0 for it in found]
    assert times == sorted(times) and [it.plan for it in found].count(STOCK) == 1


def test_the_facts_of_the_stock_kernel_change_what_is_expected_of_it() -> None:
    found = GEMM.knowing(ProgramFacts(True, 154, 0, 147480))
    assert found.stock.facts.serialised and found.stock.plan == GEMM.stock.plan
    assert found.of_form(form_plan(1)).stock_us > GEMM.of_form(form_plan(1)).stock_us
    assert {it.plan: it.predicted_us for it in Search.of(found).ranked()}[STOCK] > {  # type: ignore[operator]
        it.plan: it.predicted_us for it in Search.of(GEMM).ranked()
    }[STOCK]
