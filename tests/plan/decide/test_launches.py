"""Which launches get a kernel."""

from __future__ import annotations

import pytest

from tawa.plan import LaunchPlan, OperandPlan, Plan
from tawa.plan.decide.launches import choose_launches, launch_plan, needs_launch
from tawa.plan.fields import LaunchChoice, Path
from tawa.symbolic.host.expr import Argument, Condition
from tawa.symbolic.host.launch_spec import LaunchSpec


def load(argument: str, path: Path) -> Plan:
    return Plan(operands=(OperandPlan(argument, 0, path=path),))


ASKED = [Plan(launches=LaunchPlan(choice=it)) for it in ("always", "specialised", "predicted")]


@pytest.mark.parametrize(
    ("pins", "forced", "planned", "choice"),
    [
        (Plan(), False, False, "predicted"), (Plan(), True, False, "specialised"),
        (Plan(groups=2), False, True, "always"), (ASKED[0], False, False, "always"),
        (ASKED[1], False, True, "specialised"), (ASKED[2], True, True, "predicted"),
    ],
)  # fmt: skip
def test_launches_are_chosen_for_by_prediction_unless_the_user_wants_this_kernel(
    pins: Plan, forced: bool, planned: bool, choice: LaunchChoice
) -> None:
    assert choose_launches(pins, Plan(), ours=True, planned=planned, forced=forced) == choice
    assert choose_launches(pins, Plan(), ours=False, planned=planned, forced=forced) == "always"


def test_a_kernel_that_assumes_strides_of_1_is_not_left_to_stock_by_prediction() -> None:
    made = Plan(unit_strides=("sk",))
    assert choose_launches(Plan(), made, ours=True, planned=False, forced=False) == "specialised"
    assert choose_launches(Plan(), None, ours=True, planned=False, forced=True) == "specialised"


@pytest.mark.parametrize("choice", ["predicted", "specialised", "always"])
def test_the_plan_says_how_launches_are_chosen_and_on_which_conditions(choice: LaunchChoice) -> None:
    made = launch_plan(LaunchSpec(conditions=(Condition(Argument(1, "K"), "why", 1),)), choice)
    assert made == LaunchPlan(("K >= 1",), choice)


@pytest.mark.parametrize(
    ("plan", "needed"),
    [
        (Plan(), False), (load("a", "promoted"), True), (load("a", "promoted_in_kernel"), False),
        (Plan(form="persistent"), True), (Plan(unit_strides=("sk",)), True), (Plan(unit_strides=()), False),
        (Plan(launches=LaunchPlan(choice="predicted")), True), (Plan(launches=LaunchPlan(choice="always")), False),
    ],
)  # fmt: skip
def test_what_the_launcher_makes_or_chooses_needs_a_launch_of_triton_s(plan: Plan, needed: bool) -> None:
    assert needs_launch(plan) is needed
