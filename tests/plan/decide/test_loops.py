"""What a Plan says of loops that are partitioned already: kept operands, schedules, loads that go ahead."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.flow import Flow
from tawa.plan import LoopPlan, OperandPlan, Plan
from tawa.plan.decide.loops import choose_ahead, choose_kept, choose_schedules, loops_with_dots, scheduled, staged_loops
from tawa.transforms.partition.partition import Partition
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.plan.test_partial_plans import with_query
from tests.support.passes import flow_behind


def piped(text: str, mma_depth: int = 0) -> Flow:
    """Behind `pipeline_mma`; P = 0 leaves the dots to wait for themselves."""
    return flow_behind(PipelineMma, text, mma_depth=mma_depth)


def loops(*entries: LoopPlan) -> Plan:
    return Plan(loops=entries)


def test_every_loop_that_is_the_innermost_one_of_a_dot_has_an_entry() -> None:
    module = piped(programs.persistent_gemm()).module
    assert [(it.loop, it.line) for it in loops_with_dots(module)] == [(1, "kernel.py:9")]
    assert [it.loop for it in loops_with_dots(piped(programs.nested_loops()).module)] == [0, 1]


@pytest.mark.parametrize(("mma_depth", "count"), [(0, 1), (1, 0)])
def test_a_loop_whose_dots_wait_for_themselves_can_be_staged(mma_depth: int, count: int) -> None:
    assert len(staged_loops(piped(programs.tile_gemm(), mma_depth).module)) == count


def test_of_loops_within_each_other_only_the_innermost_is_staged() -> None:
    (loop,) = staged_loops(piped(staged.persistent()).module)
    assert loop.op.ancestors()


def test_a_staged_loop_gets_one_schedule_unless_the_plan_gives_it_no_stages() -> None:
    module = piped(staged.attention()).module
    found = choose_schedules(module, loops(LoopPlan(0)))
    assert list(found) == [0] and [it.stages for it in found[0]] == [2]
    assert choose_schedules(module, loops(LoopPlan(0, stages=0))) == {}
    flat = choose_schedules(module, loops(LoopPlan(0, stages=1)))
    assert [it.stages for it in flat[0]] == [1]


def test_a_pinned_schedule_is_taken_and_one_of_a_loop_that_is_not_there_refused() -> None:
    module = piped(staged.attention()).module
    (own,) = choose_schedules(module, loops(LoopPlan(0, stages=1)))[0]
    assert choose_schedules(module, loops(LoopPlan(0, schedule=own))) == {0: (own,)}
    with pytest.raises(PlanError, match=r"schedules of loops \[5\], the kernel has 1 to schedule: \[0\]; cure: start"):
        choose_schedules(module, loops(LoopPlan(5, schedule=own)))


def test_a_loop_with_a_schedule_has_its_stages_and_one_without_has_none() -> None:
    found = choose_schedules(piped(staged.attention()).module, loops(LoopPlan(0)))
    made = scheduled(loops(LoopPlan(0), LoopPlan(1)), found)
    assert [(it.loop, it.stages, it.schedule) for it in made.loops] == [(0, 2, found[0][0]), (1, 0, None)]


def test_an_operand_that_the_loop_does_not_change_is_kept_where_the_plan_leaves_that_open() -> None:
    module = flow_behind(Partition, with_query()).module
    assert choose_kept(module, loops(LoopPlan(0))).loops == (LoopPlan(0, kept=(0,)),)
    assert choose_kept(module, loops(LoopPlan(0, kept=()))).loops == ()
    other = flow_behind(Partition, programs.tile_gemm()).module
    assert choose_kept(other, loops(LoopPlan(0))).loops == (LoopPlan(0, kept=()),)


def test_a_number_of_the_consumer_is_prefetched_unless_the_plan_says_not() -> None:
    factor = programs.op("tt.addptr", "%lock, %k", "!tt.ptr<i32>, i32", "%at", "!tt.ptr<i32>")
    number = f"{factor}\n{programs.scalar_load('number', 'at', line=13)}"
    scale = "\n".join((
        programs.op("arith.sitofp", "%number", "i32", "%real", "f32"),
        programs.op("tt.splat", "%real", "f32", "%scale", programs.ACC),
        programs.op("arith.mulf", "%half, %scale", f"{programs.ACC}, {programs.ACC}", "%next", programs.ACC),
    ))  # fmt: skip
    body = f"{programs.iteration(result='half')}\n{number}\n{scale}"
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", programs.ACC)}, results="%acc")
    module = piped(programs.kernel(f"{loop}\n{programs.store()}", arguments=programs.LOCK)).module
    every = OperandPlan(prefetched=False)
    assert choose_ahead(module, Plan()).operands == (OperandPlan("lock", 0, 0, "consumer", prefetched=True), every)
    for left in (every, OperandPlan("lock", 0, prefetched=False)):
        assert choose_ahead(module, Plan(operands=(left,))).operands == (every,)
    (staged_loop,) = choose_schedules(piped(staged.attention()).module, loops(LoopPlan(0)))[0]
    assert choose_ahead(module, loops(LoopPlan(0, schedule=staged_loop))).operands == (every,)
