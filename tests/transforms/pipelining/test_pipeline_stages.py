"""`pipeline_stages`: the shape of the loop; results stay equal and the protocol is proved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.analysis.loops.dependences import DependenceInfo, find_dependences
from tawa.errors import PlanError
from tawa.flow import Flow, Step, run
from tawa.ir import Module, parse_module, print_module
from tawa.pipeline import BARRIERS
from tawa.plan import LoopPlan, Plan
from tawa.plan.decide.loops import choose_schedules, numbered, staged_loops
from tawa.plan.schedule import Schedule
from tawa.plan.scheduler import Limits, candidate_schedules
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tawa.transforms.pipelining.expand_stages import Expander
from tawa.transforms.pipelining.join_stages import scheduled_loops, why_not_joined
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tawa.transforms.pipelining.pipeline_stages import PipelineStages
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Proved
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ops_named
from tests.support.filecheck import brief, check
from tests.support.passes import after, checked, flow_behind, flow_of, plan_for, to_arefs, unchecked
from tests.support.sample import examples
from tests.support.verdicts import passes


def made(text: str, depth: int = 2) -> str:
    return brief(after(PipelineStages, text, depth=depth)[0])


def joined_where_possible(flow: Flow) -> None:
    """A decision in place of `decide_joins`: every second loop that can be joined is."""
    found: list[LoopPlan] = []
    before: Expander | None = None
    for number, _, expander in scheduled_loops(flow.module, flow.plan):
        joined = before is not None and not why_not_joined(before, expander)
        found.append(LoopPlan(number, joined=joined))
        before = None if joined else expander
    flow.plan = Plan(loops=tuple(found)).over(flow.plan)


def keeps(graph: DependenceInfo, schedule: Schedule) -> bool:
    """Whether a dot reads, in a later stage, a buffer that the loop fills."""
    fills = [edge for edge in graph.edges if edge.kind == "fill"]
    return any(schedule.ops[edge.source].stage < schedule.ops[edge.target].stage for edge in fills)


def with_schedules(
    text: str, depth: int, pick: int, mma_depth: int = 1, kept: bool = False
) -> tuple[Module, Module, list[Schedule]]:
    """Aref and barrier level with the `pick`-th candidate of up to three stages for each loop.

    kept: of those that keep a buffer for a later stage.
    """
    flow = flow_of(text, plan_for(parse_module(text), depth, min(mma_depth, depth - 1)))
    found: list[Schedule] = []

    def choose(flow: Flow) -> None:
        for number, loop in numbered(staged_loops(flow.module)):
            graph = find_dependences(loop)
            candidates = candidate_schedules(graph, Limits(4, max_stages=3, keeps=True), number)
            candidates = [it for it in candidates if not kept or keeps(graph, it)]
            found.extend([candidates[pick % len(candidates)]] if candidates else [])
        flow.plan = Plan(loops=tuple(LoopPlan(it.loop, schedule=it) for it in found)).over(flow.plan)

    own = {"schedule": choose, "joins": joined_where_possible}
    steps = [Step(step.name, own.get(step.name, step.run)) for step in to_arefs()]
    assert run(flow, steps) is None
    aref = parse_module(print_module(checked(flow.module)))
    assert run(flow, unchecked(BARRIERS)) is None
    return aref, checked(flow.module), found


# -- the shape of the loop ---------------------------------------------------------------------------------------------


def test_the_steady_loop_issues_both_dots_and_waits_for_one_before_the_arithmetic() -> None:
    check(
        made(staged.attention()),
        """
        CHECK:      partition = "consumer"
        CHECK:      [[ANY:%\\w+]] = "arith.cmpi"([[ZERO:%\\w+]], %n_0) <{predicate = 2 : i64}>
        CHECK:      "scf.if"([[ANY]]) ({
        CHECK:      [[K0:%\\w+]] = "aref.get"([[RA:%\\w+]], [[C0:%\\w+]])
        CHECK-NEXT: [[S0:%\\w+]] = "ttng.warp_group_dot"([[K0]], [[K0]], %zeros_0) <{{.*}}isAsync = false
        CHECK:      "aref.consumed"([[RA]], [[C0]])
        CHECK-NEXT: "arith.mulf"([[S0]], [[S0]])
        CHECK-NOT:  warp_group_dot
        CHECK:      "scf.for"({{.*}}, %n_0, %one_1,
        CHECK-NEXT: ^bb{{.*}}, [[I:%\\w+]]: !aref.index<2>, [[J:%\\w+]]: !aref.index<2>,
        CHECK-SAME: [[P:%\\w+]]: {{.*}}dot_op{{.*}}, [[A:%\\w+]]: tensor<64x64xf32, #mma>):
        CHECK-NEXT: [[K:%\\w+]] = "aref.get"([[RA]], [[I]])
        CHECK-NEXT: [[S:%\\w+]] = "ttng.warp_group_dot"([[K]], [[K]], %zeros_0) <{{.*}}isAsync = true
        CHECK-NEXT: [[V:%\\w+]] = "aref.get"([[RB:%\\w+]], [[J]])
        CHECK-NEXT: [[D:%\\w+]] = "ttng.warp_group_dot"([[P]], [[V]], [[A]]) <{{.*}}isAsync = true
        CHECK:      [[SW:%\\w+]] = "ttng.warp_group_dot_wait"([[S]]) <{pendings = 1 : i32}>
        CHECK-NEXT: "aref.consumed"([[RA]], [[I]])
        CHECK-NEXT: [[T:%\\w+]] = "arith.mulf"([[SW]], [[SW]])
        CHECK-NEXT: "math.exp2"([[T]])
        CHECK-NEXT: [[DW:%\\w+]] = "ttng.warp_group_dot_wait"([[D]]) <{pendings = 0 : i32}>
        CHECK-NEXT: "aref.consumed"([[RB]], [[J]])
        CHECK:      "arith.mulf"([[DW]], %half_0)
        CHECK-NOT:  warp_group_dot
        CHECK:      })
        CHECK-NEXT: [[VL:%\\w+]] = "aref.get"([[RB]], [[JL:%\\w+#1]])
        CHECK-NEXT: [[LAST:%\\w+]] = "ttng.warp_group_dot"({{.*}}, [[VL]], {{.*}}) <{{.*}}isAsync = false
        CHECK:      "aref.consumed"([[RB]], [[JL]])
        CHECK-NEXT: "scf.yield"([[LAST]],
        CHECK-NEXT: }, {
        CHECK-NEXT: "scf.yield"(%zeros_0,
        """,
    )


def test_three_stages_ask_for_two_trips_and_keep_the_loop_for_fewer() -> None:
    candidates = [with_schedules(staged.attention(), 2, pick) for pick in range(6)]
    aref = next(aref for aref, _, found in candidates if found[0].stages == 3)
    check(
        brief(aref),
        """
        CHECK:      partition = "consumer"
        CHECK:      [[LONGER:%\\w+]] = "arith.cmpi"({{.*}}) <{predicate = 8 : i64}>
        CHECK-NEXT: [[BOTH:%\\w+]] = "arith.andi"({{%\\w+}}, [[LONGER]])
        CHECK-NEXT: "scf.if"([[BOTH]]) ({
        CHECK:      "scf.for"
        CHECK:      }, {
        CHECK-NEXT: "scf.for"(%zero_1, %n_0, %one_1,
        CHECK:      isAsync = false
        CHECK-NOT:  isAsync = true
        """,
    )


@pytest.mark.parametrize("stages", [2, 3])
def test_a_loop_whose_step_is_an_argument_keeps_its_bits_and_its_credits(stages: int) -> None:
    text = staged.kernel(f"{staged.attention_loop(step='m')}\n{programs.store()}")
    candidates = [with_schedules(text, 2, pick) for pick in range(6)]
    aref, barrier, _ = next(made for made in candidates if made[2][0].stages == stages)
    assert passes(check_credits(aref))
    for n, m in [(0, 3), (-4, 3), (3, 3), (4, 3), (6, 3), (7, 3), (5, 1)]:
        assert staged.output(barrier, n, m) == staged.expected(text, n, m)


def test_a_loop_of_the_fine_grained_pipeline_does_not_change() -> None:
    before, _ = after(PipelineMma, programs.tile_gemm())
    behind, _ = after(PipelineStages, programs.tile_gemm())
    assert brief(before) == brief(behind)


def test_a_loop_that_gains_nothing_does_not_change() -> None:
    body = programs.iteration() + "\n" + programs.binary("scaled", "mulf", "next", "next", programs.ACC)
    text = programs.kernel(
        programs.for_loop(body, carried={"sum": ("zeros", "scaled", programs.ACC)}, results="%acc")
        + "\n"
        + programs.store()
    )
    before, _ = after(PipelineMma, text)
    assert brief(before) == brief(after(PipelineStages, text)[0])


def test_a_note_says_how_many_stages_and_what_bounds_them() -> None:
    _, remarks = after(PipelineStages, staged.attention())
    assert "2 stages in this loop: 606 cycles per iteration; lower bound 468 (" in remarks[-1].reason
    assert str(remarks[-1].location) == "kernel.py:9"


def test_back_to_back_dots_of_one_stage_accumulate_in_flight() -> None:
    text = staged.text(
        staged.Body(
            (staged.Step("load dot", 0, 0), staged.Step("register dot", 1, 0), staged.Step("add", 0, 1)), (0, 0, 0)
        )
    )
    for n in (0, 1, 4):
        assert staged.output(with_schedules(text, 2, 0)[1], n, 1) == staged.expected(text, n, 1)


# -- pinned ------------------------------------------------------------------------------------------------------------


def behind_mma(text: str) -> tuple[Module, Plan]:
    flow = flow_behind(PipelineMma, text)
    return flow.module, flow.plan


def with_schedule(plan: Plan, schedule: Schedule) -> Plan:
    return Plan(loops=(LoopPlan(schedule.loop, schedule=schedule),)).over(plan)


def test_a_pinned_schedule_is_taken() -> None:
    module, plan = behind_mma(staged.attention())
    flat = next(
        it for it in candidate_schedules(find_dependences(staged_loops(module)[0]), Limits(4)) if it.stages == 1
    )
    plan = with_schedule(plan, flat)
    assert choose_schedules(module, plan) == {0: (flat,)}
    PipelineStages(plan).run(module)
    check(brief(module), 'CHECK: partition = "consumer"\nCHECK-NOT: scf.if')


def test_a_pinned_schedule_that_breaks_a_dependence_or_has_no_loop_is_refused() -> None:
    module, plan = behind_mma(staged.attention())
    ((right,),) = choose_schedules(module, plan).values()
    flipped = replace(right, ops=tuple(replace(it, order=len(right.ops) - 1 - it.order) for it in right.ops))
    with pytest.raises(PlanError, match="which it depends on"):
        choose_schedules(module, with_schedule(plan, flipped))
    with pytest.raises(PlanError, match=r"schedules of loops \[1\], the kernel has 1 to schedule: \[0\]"):
        choose_schedules(module, with_schedule(plan, replace(right, loop=1)))


def test_a_loop_that_cannot_be_staged_says_why_not_to_who_pins_a_schedule_of_it() -> None:
    module, plan = behind_mma(staged.attention())
    ((right,),) = choose_schedules(module, plan).values()
    loop = staged_loops(module)[0]
    loop.op.properties["unsignedCmp"] = "true"
    assert choose_schedules(module, plan) == {}
    why = "its induction variable is unsigned"
    with pytest.raises(PlanError, match=rf"loop 0 \(kernel.py:9\) cannot be staged: {why}; cure: leave"):
        choose_schedules(module, with_schedule(plan, right))


# -- meaning and protocol ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", staged.PROGRAMS)
def test_the_bits_stay_and_both_levels_are_proved_for_every_trip_count(name: str, depth: int) -> None:
    text = staged.PROGRAMS[name]()
    mma_depth = min(1, depth - 1)
    aref, _ = after(PipelineStages, text, depth=depth, mma_depth=mma_depth)
    barrier, _ = after(LowerArefs, text, depth=depth, mma_depth=mma_depth)
    assert check_credits(aref) == Proved()
    for n in sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1}):
        for m in (0, 1, 2) if name in ("two_loops", "persistent") else (1,):
            wanted = staged.expected(text, n, m)
            for order in ("eager", "late"):
                assert staged.output(aref, n, m, order) == wanted, (n, m, order)
            assert staged.output(barrier, n, m, "random", seed=n) == wanted, (n, m)


@pytest.mark.parametrize("pick", range(6))
@pytest.mark.parametrize("name", staged.PROGRAMS)
def test_every_schedule_that_was_weighed_keeps_the_bits_and_is_proved(name: str, pick: int) -> None:
    text = staged.PROGRAMS[name]()
    aref, barrier, found = with_schedules(text, 2, pick)
    assert found and all(need <= 2 for schedule in found for _, need in schedule.ring_depths)
    assert isinstance(check_credits(aref), Proved)
    assert passes(check_barriers(barrier, effort="fast"))
    for n in range(5):
        assert staged.output(barrier, n, 2, "late") == staged.expected(text, n, 2), n


@pytest.mark.parametrize("pick", range(4))
def test_a_buffer_that_is_kept_for_a_later_stage_is_allocated_once_and_keeps_the_bits(pick: int) -> None:
    text = staged.operand_in_shared()
    aref, barrier, found = with_schedules(text, 3, pick, mma_depth=0, kept=True)
    assert found
    inside = [op for loop in ops_named(aref, "scf.for") for op in loop.walk()]
    stores = [op for op in inside if op.name == "ttg.local_store"]
    assert stores and not [op for op in inside if op.name == "ttg.local_alloc"]
    for store in stores:
        block = store.parent
        assert block is not None and block.ops[block.index_of(store) + 1].name == "ttng.fence_async_shared"
    assert isinstance(check_credits(aref), Proved)
    assert passes(check_barriers(barrier, effort="fast"))
    for n in range(6):
        for order in ("eager", "late", "random"):
            assert staged.output(barrier, n, 1, order, seed=n) == staged.expected(text, n, 1), (n, order)


def test_a_kept_buffer_that_is_filled_before_its_reader_is_complete_is_found() -> None:
    _, barrier, _ = with_schedules(staged.operand_in_shared(), 3, 0, mma_depth=0, kept=True)
    assert passes(check_barriers(barrier, effort="fast"))
    waits = ops_named(barrier, "ttng.warp_group_dot_wait")
    assert waits
    found = 0
    for number in range(len(waits)):
        mutant = parse_module(print_module(barrier))
        wait = ops_named(mutant, "ttng.warp_group_dot_wait")[number]
        wait.properties["pendings"] = "2 : i32"
        found += not passes(check_barriers(mutant, effort="fast"))
    assert found == len(waits)


def test_automatic_schedules_keep_no_buffer() -> None:
    for text in (staged.operand_in_shared(), staged.attention()):
        module = flow_behind(PipelineMma, text).module
        (loop,) = staged_loops(module)
        graph = find_dependences(loop)
        assert not any(keeps(graph, it) for it in candidate_schedules(graph, Limits(4, max_stages=3)))


def test_a_ring_shallower_than_the_schedule_needs_is_a_deadlock_that_the_verifier_finds() -> None:
    needs = [with_schedules(staged.attention(), 1, pick) for pick in range(6)]
    deep = [aref for aref, _, found in needs if any(depth > 1 for _, depth in found[0].ring_depths)]
    assert deep and not any(passes(check_credits(aref)) for aref in deep)


@given(staged.bodies(), st.integers(1, 4), st.integers(0, 1000), st.sampled_from([0, 1]))
@settings(max_examples=examples(25))
def test_no_loop_changes_its_bits_or_its_protocol(body: staged.Body, depth: int, pick: int, mma_depth: int) -> None:
    text = staged.text(body)
    aref, barrier, found = with_schedules(text, depth, pick, mma_depth)
    verdict = check_credits(aref)
    if any(need > depth for schedule in found for _, need in schedule.ring_depths):
        return
    assert passes(verdict), verdict
    assert passes(check_barriers(barrier, effort="fast"))
    for n, m in ((0, 0), (1, 2), (3, 1), (4, 5)):
        wanted = staged.expected(text, n, m)
        assert staged.output(aref, n, m, "late") == wanted, (n, m)
        assert staged.output(barrier, n, m, "random", seed=n) == wanted, (n, m)
