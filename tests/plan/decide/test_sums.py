"""When sums may leave their loops."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.ir import parse_module
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.sums import choose_sums
from tawa.plan.option_conflicts import check_agreement
from tests.cases.programs.running_sum import USUAL, loop, program


def sums_late(plan: Plan, options: PlanOptions) -> bool:
    decided, sums = choose_sums(parse_module(program(loop(*USUAL))), options, plan)
    assert decided == (Plan(sums="after_loops") if sums else Plan())
    return bool(sums)


def test_only_a_user_who_allows_another_order_of_sums_gets_one() -> None:
    assert not sums_late(Plan(), PlanOptions()) and not sums_late(Plan(), PlanOptions(precision="exact"))
    assert sums_late(Plan(), PlanOptions(precision="relaxed"))


def test_a_plan_decides_for_itself() -> None:
    assert sums_late(Plan(sums="after_loops"), PlanOptions())
    assert not sums_late(Plan(sums="in_order"), PlanOptions(precision="relaxed"))


def test_an_exact_kernel_contradicts_a_plan_with_late_sums() -> None:
    with pytest.raises(PlanError, match="precision='exact' contradicts the plan, which has sums='after_loops'"):
        check_agreement(PlanOptions(precision="exact"), Plan(sums="after_loops"))


def test_precision_is_a_word() -> None:
    with pytest.raises(PlanError, match="precision='fast': 'exact', 'relaxed' or None is needed"):
        PlanOptions(precision="fast")  # type: ignore[arg-type]
