"""`Schedule`: it prints, goes to JSON and back, and says what is wrong with one that was written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.errors import PlanError
from tawa.plan import LoopPlan, Plan
from tawa.plan.schedule import Bound, Schedule, ScheduledOp

SCHEDULE = Schedule(
    loop=0,
    location="fa.py:17",
    ii_cycles=600,
    bounds=(Bound("tensor cores", 512),),
    ops=(ScheduledOp(0, 1, 20, "s = dot", "fa.py:18"), ScheduledOp(1, 0, 0, "acc = dot")),
    ring_depths=(("ring0", 2),),
    tile_registers=96,
)


def test_it_prints_as_a_table_in_the_order_of_a_kernel_iteration() -> None:
    assert str(SCHEDULE).splitlines() == [
        "loop 0 (fa.py:17): 2 stages, 600 cycles per iteration; bounds: tensor cores 512",
        "tiles take 96 registers per thread; ring0 D >= 2",
        "stage  order  begin  operation  line",
        "    1      0      0  acc = dot",
        "    0      1     20  s = dot    fa.py:18",
    ]


def test_a_plan_carries_it_through_json() -> None:
    plan = Plan(loops=(LoopPlan(0, stages=2, schedule=SCHEDULE),))
    assert Plan.from_json(plan.to_json()) == plan and plan.schedules == (SCHEDULE,)


def test_a_plan_without_schedules_is_read() -> None:
    plan = Plan(loops=(LoopPlan(0, mma_depth=1),))
    assert "schedule" not in plan.to_json() and Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("schedule", "wrong"),
    [
        ("[]", "loops[0].schedule is [], not names and values"),
        ('{"loop": 0}', "loops[0].schedule.location is missing"),
        (
            SCHEDULE.to_json().replace('"stage": 1', '"stage": "1"'),
            "loops[0].schedule.ops[1].stage is '1', not a whole number",
        ),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_place(schedule: str, wrong: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.from_json(f'{{"loops": [{{"loop": 0, "schedule": {schedule}}}]}}')
    assert f"not a Plan: {wrong}; cure: start from what tawa compile" in str(caught.value)


def test_orders_are_a_permutation() -> None:
    with pytest.raises(PlanError, match=r"orders \[1, 1\]; cure: each from 0 to 1 once"):
        replace(SCHEDULE, ops=(SCHEDULE.ops[0], replace(SCHEDULE.ops[1], order=1)))


def test_stages_begin_with_0() -> None:
    with pytest.raises(PlanError, match="must begin with stage 0"):
        replace(SCHEDULE, ops=tuple(replace(op, stage=1) for op in SCHEDULE.ops))
