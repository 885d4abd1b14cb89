"""What a launch gets instead of a kernel whose conditions it violates."""

from __future__ import annotations

from tawa.bridge.launch.instead import IN_ORDER, STORED_BY_POINTERS, plan_instead, plans_without
from tawa.plan import OperandPlan, Plan, StorePlan
from tawa.symbolic.host.expr import Argument, Condition
from tawa.symbolic.host.launch_spec import LaunchSpec

EVEN = Condition(Argument(0, "rows"), "even rows, then odd ones", multiple=2, only_for="rows")
WHOLE = Condition(Argument(1, "N"), "rows end with their chunks", multiple=8, only_for="stores")
SPEC = LaunchSpec((), (Condition(Argument(0, "rows"), "no index is negative", 0), EVEN, WHOLE))


def test_a_launch_does_without_the_decision_that_it_does_not_allow() -> None:
    without = plans_without(SPEC, Plan())
    assert without == {"rows": IN_ORDER, "stores": STORED_BY_POINTERS}
    assert plan_instead(SPEC, without, (2, 8)) is None
    assert plan_instead(SPEC, without, (3, 8)) == IN_ORDER
    assert plan_instead(SPEC, without, (2, 9)) == STORED_BY_POINTERS
    assert plan_instead(SPEC, without, (3, 9)) == IN_ORDER.over(STORED_BY_POINTERS)


def test_a_condition_that_no_decision_avoids_leaves_the_stock_kernel() -> None:
    assert plan_instead(SPEC, plans_without(SPEC, Plan()), (-1, 9)) is None


def test_what_the_user_pins_stays() -> None:
    pins = Plan(
        groups=2, stores=(StorePlan("c", 0, path="promoted"),), operands=(OperandPlan("k", 0, prefetched=True),)
    )
    without = plans_without(SPEC, pins)
    assert without == {"rows": IN_ORDER.over(pins)} and without["rows"].groups == 2
    assert plan_instead(SPEC, without, (3, 9)) is None
    assert plans_without(SPEC, Plan(operands=(OperandPlan("k", 0, rows="for_next_dot"),))).keys() == {"stores"}


def test_the_conditions_are_those_of_the_decisions_that_were_taken() -> None:
    assert plans_without(SPEC.without(("rows",)), Plan()).keys() == {"stores"}
    assert LaunchSpec.from_json(SPEC.to_json()) == SPEC
