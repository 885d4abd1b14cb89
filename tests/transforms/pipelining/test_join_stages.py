"""`join_stages`: two loops in a row share one pipeline."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tawa.errors import PlanError
from tawa.flow import Flow, run
from tawa.ir import Module, parse_module
from tawa.pipeline import TTGIR
from tawa.plan import LoopPlan, Plan
from tawa.transforms.drop_names import DropNames
from tawa.transforms.pipelining.join_stages import scheduled_loops, why_not_joined
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import checked, flow_of, plan_for, unchecked

JOINED = LoopPlan(1, joined=True)


def text_of(middle: str = "", *, init: str = "first", end: str = "acc", between: str = "") -> str:
    """Two loops; `middle` changes the body of the second, `between` is between them."""
    second = staged.attention_loop("acc", "_2", upper="m", init=init)
    if middle:
        second = second.replace(*middle.split(" => "))
    return staged.kernel(f"{staged.attention_loop('first')}\n{between}\n{second}\n{programs.store(end)}")


def behind(last: str, text: str, *loops: LoopPlan) -> Flow:
    """The flow after a step; `loops` are pinned."""
    plan = plan_for(parse_module(text), 2, 1)
    flow = flow_of(text, replace(plan, loops=(*plan.loops, *loops)))
    assert run(flow, unchecked(TTGIR), until=last) is None
    return flow


def consumer(text: str, *loops: LoopPlan) -> str:
    """The consumer after the pass."""
    module = behind("PipelineStages", text, *loops).module
    DropNames().run(module)
    found = brief(checked(module))
    return found[found.index('partition = "consumer"') :]


def parts(text: str) -> tuple[Module, Plan]:
    """The module and the Plan when schedules are decided."""
    flow = behind("schedule", text)
    return flow.module, flow.plan


def reasons(text: str, *loops: LoopPlan) -> list[str]:
    """Why the second loop is not joined to the first, in each pair of scheduled loops."""
    flow = behind("schedule", text, *loops)
    expanders = [expander for _, _, expander in scheduled_loops(flow.module, flow.plan)]
    return [why_not_joined(first, second) for first, second in pairwise(expanders)]


def test_the_last_dot_of_the_first_loop_overlaps_the_first_iteration_of_the_second() -> None:
    check(
        consumer(staged.two_loops(), JOINED),
        """
        CHECK:      [[SOME:%\\w+]] = "arith.cmpi"([[ZERO:%\\w+]], %n_0) <{predicate = 2 : i64}>
        CHECK:      [[OTHERS:%\\w+]] = "arith.cmpi"([[ZERO]], %m_0) <{predicate = 2 : i64}>
        CHECK:      "scf.if"([[SOME]]) ({
        CHECK:      [[L:%\\w+]]:4 = "scf.for"({{.*}}, %n_0,
        CHECK:      "scf.if"([[OTHERS]]) ({
        CHECK:      [[A:%\\w+]] = "aref.get"({{.*}}, [[L]]#0)
        CHECK-NEXT: [[S:%\\w+]] = "ttng.warp_group_dot"([[A]], [[A]], %zeros_0) <{{.*}}isAsync = true
        CHECK:      [[B:%\\w+]] = "aref.get"({{.*}}, [[L]]#1)
        CHECK-NEXT: [[N:%\\w+]] = "ttng.warp_group_dot"([[L]]#2, [[B]], [[L]]#3) <{{.*}}isAsync = true
        CHECK:      "ttng.warp_group_dot_wait"([[S]]) <{pendings = 1 : i32}>
        CHECK:      "math.exp2"
        CHECK:      "ttng.warp_group_dot_wait"([[N]]) <{pendings = 0 : i32}>
        CHECK:      "scf.for"({{.*}}, %m_0,
        """,
    )


def test_each_case_of_trips_has_its_own_code() -> None:
    text = consumer(staged.two_loops(), JOINED)
    assert text.count('"scf.if"') == 3
    assert [text.count(f"%{bound}_0, %one_1") for bound in "nm"] == [1, 2]


def test_joined_is_a_decision() -> None:
    text = staged.two_loops()
    assert consumer(text).count('"scf.if"') == consumer(text, LoopPlan(1, joined=False)).count('"scf.if"') == 2
    for pinned, found in (((), [False, False]), ((JOINED,), [False, True])):
        plan = behind("joins", text, *pinned).plan
        assert [plan.loop(number).joined for number in (0, 1)] == found


def test_two_loops_can_be_joined() -> None:
    assert reasons(staged.two_loops()) == [""]


OBSTACLES = {
    "used in between": (
        text_of(between=programs.binary("twice", "mulf", "first", "first", programs.ACC), init="twice"),
        "results of the first loop have other uses",
    ),
    "a store between": (text_of(between=programs.store("zeros")), "not in a row"),
    "one stage in the second": (
        text_of('mulf"(%s_2, %s_2) => mulf"(%s_2, %sum_2)'),
        "both loops need two stages",
    ),
}


@pytest.mark.parametrize(("text", "why"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacles_have_a_reason(text: str, why: str) -> None:
    (found,) = reasons(text)
    assert why in found


def test_what_the_second_loop_starts_with_must_be_computed_before() -> None:
    first, second = [it for _, _, it in scheduled_loops(*parts(staged.two_loops()))]
    assert why_not_joined(first, second) == ""
    scaled = next(number for number, op in enumerate(second.graph.nodes) if second.loop.iter_args[0] in op.operands)
    second.begins[scaled] = 0  # before the dot of the first loop
    second.sequence = [scaled, *(number for number in second.sequence if number != scaled)]
    assert why_not_joined(first, second) == "the second loop starts with what the first one computes last"


def test_a_plan_that_joins_loops_with_an_obstacle_is_an_error() -> None:
    with pytest.raises(
        PlanError,
        match=r"joins loop 1 \(kernel.py:\d+\) to the loop before it: the loops are not in a row; cure: joined=false",
    ):
        behind("joins", OBSTACLES["a store between"][0], JOINED)


def test_a_plan_that_joins_what_cannot_be_joined_is_an_error() -> None:
    with pytest.raises(
        PlanError,
        match=r"joins loop 0 \(kernel.py:\d+\) to the loop before it: there is no loop before it; cure: joined=false",
    ):
        behind("joins", staged.two_loops(), LoopPlan(0, joined=True))
