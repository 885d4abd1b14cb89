"""The scheduler: stages, order, bounds, and the check of a pinned schedule."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from tawa.analysis.loops.dependences import DependenceInfo, find_dependences, is_fused
from tawa.dialects.scf import ForOp
from tawa.errors import PlanError
from tawa.machine import work
from tawa.machine.coefficients import fitted
from tawa.machine.hopper import CostModel
from tawa.machine.nvidia import LANES_PER_CYCLE
from tawa.machine.work import REPACKING_SLOTS
from tawa.plan import scheduler
from tawa.plan.decide.loops import staged_loops
from tawa.plan.pinned_schedule import check_schedule
from tawa.plan.schedule import Schedule
from tawa.plan.scheduler import (
    RESERVED_REGISTERS,
    Limits,
    _Problem,
    candidate_schedules,
    find_schedule,
)
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, op
from tests.support.passes import after


def graph_of(text: str) -> DependenceInfo:
    module, _ = after(PipelineMma, text)
    return find_dependences(staged_loops(module)[0])


FOUR_WARPS = Limits(4)


def best(text: str, limits: Limits = FOUR_WARPS) -> Schedule:
    found = find_schedule(graph_of(text), limits)
    assert found is not None
    return found


def place(schedule: Schedule, label: str) -> tuple[int, int]:
    (found,) = [(it.stage, it.order) for it in schedule.ops if it.label == label]
    return found


def test_the_dependent_dot_goes_to_the_next_stage_beside_the_arithmetic_on_the_first() -> None:
    schedule = best(staged.attention())
    (s, first), (following, second) = place(schedule, "s = warp_group_dot"), place(schedule, "next = warp_group_dot")
    stage, work = place(schedule, "p = exp2")
    assert (s, following, stage) == (0, 1, 0) and first < second < work


def test_the_narrow_operand_is_carried_and_the_scores_are_not() -> None:
    schedule = best(staged.attention())
    assert place(schedule, "next_operand = convert_layout")[0] == 0
    assert place(schedule, "p = exp2")[0] == 0


def test_the_accumulator_is_scaled_behind_the_dot_of_the_iteration_before() -> None:
    schedule = best(staged.attention())
    stage, order = place(schedule, "scaled = mulf")
    assert stage == 0 and order > place(schedule, "next = warp_group_dot")[1]


def test_the_new_operand_is_made_when_the_dot_that_reads_the_old_one_is_complete() -> None:
    schedule = best(staged.attention())
    released = max(it.order for it in schedule.ops if it.label == "consumed")
    assert place(schedule, "next_narrow = truncf")[1] > released


def test_it_is_shorter_than_waiting_and_no_shorter_than_its_bounds() -> None:
    schedule = best(staged.attention())
    flat = [it for it in candidate_schedules(graph_of(staged.attention()), Limits(4)) if it.stages == 1]
    assert all(schedule.ii_cycles < it.ii_cycles for it in flat)
    assert all(bound.cycles <= schedule.ii_cycles for bound in schedule.bounds)
    assert [bound.cycles for bound in schedule.bounds] == sorted((it.cycles for it in schedule.bounds), reverse=True)
    assert {it.what.split()[0] for it in schedule.bounds} == {"tensor", "issue", "recurrence"}


# -- carried types -----------------------------------------------------------------------------------------------------


def carried(schedule: Schedule) -> dict[str, str]:
    return {it.label: it.type for it in schedule.carried}


def test_8_bit_operands_are_converted_behind_the_cut() -> None:
    schedule = best(staged.of_bytes(staged.attention()))
    assert carried(schedule)["p = exp2"] == "64x64xf32" and "64x64xf8E4M3FN" not in carried(schedule).values()
    (stage, narrowed), (_, operand) = (
        place(schedule, "next_narrow = truncf"),
        place(schedule, "next_operand = convert_layout"),
    )
    assert stage == 1 and place(schedule, "s = warp_group_dot")[1] < narrowed < operand
    assert operand < place(schedule, "next = warp_group_dot")[1]


def test_16_bit_operands_are_converted_before_the_cut() -> None:
    assert carried(best(staged.attention()))["next_operand = convert_layout"] == "64x64xf16"


def carries_bytes(schedule: Schedule) -> bool:
    return "64x64xf8E4M3FN" in carried(schedule).values()


def test_repacking_takes_its_time_in_every_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    text = staged.of_bytes(staged.operand_stored())  # the store keeps the conversion in stage 0
    (dear,) = filter(carries_bytes, candidate_schedules(graph_of(text), FOUR_WARPS))
    monkeypatch.setattr(work, "REPACKING_SLOTS", 0.0)
    (free,) = filter(carries_bytes, candidate_schedules(graph_of(text), FOUR_WARPS))
    assert dear.ii_cycles - free.ii_cycles == math.ceil(64 * 64 * REPACKING_SLOTS / LANES_PER_CYCLE)


def test_groups_that_share_an_sm_do_not_repack_to_save_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CostModel, "fma_per_cycle", lambda *_: 768)  # long dots, as of a larger tile
    usual = replace(fitted().coefficients, sharing=3.0)
    monkeypatch.setattr(scheduler, "together", partial(scheduler.together, coefficients=usual))
    wide, narrow = staged.operand_stored(), staged.of_bytes(staged.operand_stored())
    shared = Limits(4, groups=2)
    assert best(wide, shared) == best(wide)
    assert carries_bytes(best(narrow)) and not carries_bytes(best(narrow, shared))


def test_no_more_stages_are_taken_than_allowed() -> None:
    for most in (1, 2, 3):
        found = candidate_schedules(graph_of(staged.attention()), Limits(4, max_stages=most))
        assert {schedule.stages for schedule in found} == set(range(1, most + 1))


def test_a_schedule_whose_tiles_do_not_fit_is_passed_over() -> None:
    usual = best(staged.attention())
    (flat,) = candidate_schedules(graph_of(staged.attention()), Limits(4, max_stages=1))
    assert flat.tile_registers < usual.tile_registers and flat.ii_cycles > usual.ii_cycles
    narrow = Limits(4, flat.tile_registers + RESERVED_REGISTERS)
    assert candidate_schedules(graph_of(staged.attention()), narrow)[0].ii_cycles == flat.ii_cycles


def test_dots_that_nothing_can_run_beside_get_no_schedule() -> None:
    body = programs.iteration("sum", "part") + "\n" + op("arith.truncf", "%part", ACC, "%low", staged.NARROW)
    body += "\n" + op("arith.extf", "%low", staged.NARROW, "%next", ACC)
    text = programs.kernel(
        programs.for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc") + "\n" + programs.store()
    )
    assert find_schedule(graph_of(text), Limits(4)) is None


def test_every_candidate_keeps_all_dependences() -> None:
    for make in staged.PROGRAMS.values():
        graph = graph_of(make())
        for schedule in candidate_schedules(graph, Limits(4, max_stages=3)):
            check_schedule(graph, schedule)


def test_ring_depths_are_one_where_rings_are_read_in_the_order_of_the_loop() -> None:
    assert best(staged.attention()).ring_depths == (("ring0", 1), ("ring1", 1))


def test_a_ring_that_is_read_ahead_needs_one_slot_more_for_each_stage() -> None:
    found = candidate_schedules(graph_of(staged.attention()), Limits(4, max_stages=3))
    ahead = [it for it in found if place(it, "next = warp_group_dot")[0] - place(it, "s = warp_group_dot")[0] == 2]
    assert ahead and all(dict(it.ring_depths)["ring1"] == 2 for it in ahead)


def test_the_same_loop_gives_the_same_schedule() -> None:
    assert best(staged.attention()) == best(staged.attention())


# -- pinned ------------------------------------------------------------------------------------------------------------


def swapped(schedule: Schedule, one: str, other: str) -> Schedule:
    """The schedule with two operations in each other's places."""
    orders = {one: place(schedule, other)[1], other: place(schedule, one)[1]}
    return replace(schedule, ops=tuple(replace(it, order=orders.get(it.label, it.order)) for it in schedule.ops))


def test_a_schedule_with_an_operation_before_its_input_is_refused() -> None:
    wrong = swapped(best(staged.attention()), "t = mulf", "p = exp2")
    with pytest.raises(PlanError, match=r"has 'p = exp2' .* before 't = mulf' .*in the same iteration; cure"):
        check_schedule(graph_of(staged.attention()), wrong)


def test_a_schedule_that_scales_the_accumulator_before_it_is_there_is_refused() -> None:
    right = best(staged.attention())
    ops = tuple(replace(it, stage=0) for it in right.ops if it.label)
    with pytest.raises(PlanError, match=r"'next = warp_group_dot' .* before 'next_operand = convert_layout'"):
        check_schedule(graph_of(staged.attention()), replace(right, ops=ops))
    last = next(it.label for it in right.ops if it.order == len(right.ops) - 1)
    moved = swapped(right, "next = warp_group_dot", last)
    with pytest.raises(PlanError, match=r"before 'next = warp_group_dot' .*which it depends on"):
        check_schedule(graph_of(staged.attention()), moved)


def test_a_schedule_that_reads_a_slot_in_a_later_stage_than_its_get_is_refused() -> None:
    right = best(staged.attention())
    mine = ("b = get", "count = advance")
    ops = tuple(replace(it, stage=0) if it.label in mine else it for it in right.ops)
    with pytest.raises(PlanError, match="reads the buffer of 'b = get' in stage 0; cure: the same stage"):
        check_schedule(graph_of(staged.attention()), replace(right, ops=ops))


def test_a_schedule_of_another_loop_is_refused() -> None:
    right = best(staged.attention())
    count = len(right.ops)
    with pytest.raises(PlanError, match=f"has {count} operations, the loop has {count + 2}"):
        check_schedule(graph_of(staged.branching()), right)


def test_a_product_stays_in_the_stage_of_the_sum_it_is_rounded_with() -> None:
    """Between stages, the two would become two instructions, which round twice."""
    body = "\n".join(
        (
            programs.iteration("zeros", "part"),
            op("math.exp2", "%part", ACC, "%high", ACC),
            op("arith.mulf", "%high, %part", f"{ACC}, {ACC}", "%product", ACC),
            op("arith.addf", "%product, %sum", f"{ACC}, {ACC}", "%next", ACC),
        )
    )
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    module = programs.parse(programs.kernel(f"{loop}\n{programs.store()}"))
    graph = find_dependences(next(view for it in module.walk() if (view := ForOp.of(it))))
    ((one, other),) = {
        (it.source, it.target) for it in graph.edges if is_fused(graph.nodes[it.source], graph.nodes[it.target])
    }
    found = candidate_schedules(graph, Limits(4, max_stages=3))
    assert found and all(it.ops[one].stage == it.ops[other].stage for it in found)
    ops = list(found[0].ops)
    ops[other] = replace(ops[other], stage=ops[other].stage + 1)
    with pytest.raises(PlanError, match="is rounded together with the product"):
        check_schedule(graph, replace(found[0], ops=tuple(ops)))


def test_reads_and_dots_come_later_where_registers_are_scarce() -> None:
    graph = graph_of(staged.attention())
    problem = _Problem(graph, Limits(4, max_stages=1))
    (made,) = problem.candidates()
    for less in range(0, 64, 8):
        relieved = problem.relieved(made, made.registers - less)
        assert relieved.registers <= made.registers and sorted(relieved.sequence) == sorted(made.sequence)
        check_schedule(graph, problem.describe(relieved, 0, ()))
