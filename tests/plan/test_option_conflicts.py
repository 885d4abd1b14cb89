"""Options and a Plan beside them say the same, or one of them is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.errors import PlanError
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions, RingPlan
from tawa.plan.option_conflicts import STOCK, check_agreement, contradictions
from tawa.plan.schedule import Schedule

STAGED = LoopPlan(0, 0, 2, Schedule(0, "", 100, (), ()))


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({"aref_depth": 3}, Plan(rings=(RingPlan("ring0", depth=2),))),
        ({"aref_depth": 3}, Plan(rings=(RingPlan("ring0", depth=3), RingPlan("ring1", depth=2)))),
        ({"mma_depth": 1}, Plan(loops=(LoopPlan(0, 0),))),
        ({"mma_depth": 0}, Plan(loops=(LoopPlan(0, 0), LoopPlan(1, 1)))),
        ({"num_consumer_groups": 2}, Plan(groups=1)),
        ({"ping_pong": True}, Plan(ping_pong=False)),
        ({"persistent": True}, Plan(form="as_written")),
        ({"persistent": False}, Plan(form="persistent")),
        ({"pointer_loads": "cp.async"}, Plan(operands=(OperandPlan("a", 0, path="promoted"),))),
        ({"pointer_loads": "tma"}, Plan(operands=(OperandPlan(path="pointers"),))),
        ({"precision": "exact"}, Plan(split_k=4)),
        ({"precision": "exact"}, Plan(operands=(OperandPlan("v", 0, transposed="converter", reordered=True),))),
        ({"enable_warp_specialization": False}, Plan(groups=1)),
        ({"enable_warp_specialization": True}, STOCK),
        ({"persistent": True}, STOCK),
    ],
)
def test_an_option_against_what_the_plan_says_is_refused(options: dict[str, Any], plan: Plan) -> None:
    (name,) = options
    with pytest.raises(PlanError, match=f"{name}=.* contradicts the plan, which has .*; cure: give one"):
        check_agreement(PlanOptions(**options), plan)


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({"aref_depth": 3}, Plan(rings=(RingPlan("ring0", depth=3), RingPlan("ring1")))),
        ({"aref_depth": 3}, Plan(groups=1)),
        ({"mma_depth": 1}, Plan(loops=(LoopPlan(0, 1), LoopPlan(1, 0)))),
        ({"mma_depth": 1}, Plan(loops=(STAGED,))),
        ({"mma_depth": 1}, Plan(loops=(LoopPlan(0, stages=1),))),
        ({"num_consumer_groups": 2, "ping_pong": True, "persistent": True}, Plan(early_puts=1)),
        ({"num_consumer_groups": 2}, Plan(groups=2)),
        ({"precision": "exact"}, Plan(split_k=1)),
        ({"precision": "relaxed"}, Plan(split_k=4)),
        ({"persistent": True}, Plan(form="persistent")),
        ({"persistent": False}, STOCK),
        ({"pointer_loads": "tma"}, Plan(operands=(OperandPlan("a", 0, path="promoted"), OperandPlan(path="cp.async")))),
        ({"enable_warp_specialization": False}, STOCK),
        ({"enable_warp_specialization": True}, Plan(groups=1)),
    ],
)
def test_what_a_plan_leaves_open_is_for_the_options_to_say(options: dict[str, Any], plan: Plan) -> None:
    assert contradictions(PlanOptions(**options), plan) == {}
