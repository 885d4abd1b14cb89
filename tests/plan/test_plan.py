"""Whole Plans, edited and pinned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from tawa.errors import PlanError
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ping_pong import grouped
from tests.cases.small.pointer_kernels import made, ttgir
from tests.support.pipeline import specialise

TARGET = Target(num_warps=4, num_stages=3)

WHOLE: dict[str, Callable[[], tuple[str, int]]] = {
    "tile": lambda: (programs.tile_gemm(), 1),
    "persistent": lambda: (programs.persistent_gemm(), 1),
    "two loops": lambda: (programs.two_loops(), 1),
    "gate up": lambda: (programs.gate_up(), 1),
    "branching": lambda: (programs.branching_gemm(), 1),
    "nested": lambda: (programs.nested_loops(), 1),
    "attention": lambda: (staged.attention(), 1),
    "attention, two groups": lambda: (grouped(staged.attention()), 2),
    "two loops, staged": lambda: (staged.PROGRAMS["two_loops"](), 1),
    "pointers": lambda: (ttgir("wrapped"), 1),
    "weights": lambda: (ttgir("weight_only"), 1),
}
"""Programs, and their consumer groups."""


def own_plan(text: str) -> Plan:
    made = specialise(text, PlanOptions(aref_depth=3, mma_depth=1), TARGET)
    assert made.plan is not None
    return made.plan


def pinned(plan: Plan, text: str = "") -> Plan:
    made = specialise(text or programs.tile_gemm(), PlanOptions(), TARGET, plan)
    assert made.applied and made.plan is not None
    return made.plan


def edited(**changes: object) -> Plan:
    return replace(own_plan(programs.tile_gemm()), **changes)  # type: ignore[arg-type]


def with_ring(**changes: object) -> Plan:
    plan = own_plan(programs.tile_gemm())
    return replace(plan, rings=(replace(plan.rings[0], **changes),))  # type: ignore[arg-type]


def with_loop(**changes: object) -> Plan:
    plan = own_plan(programs.tile_gemm())
    return replace(plan, loops=(replace(plan.loops[0], **changes),))  # type: ignore[arg-type]


def with_part(which: str, **changes: object) -> Plan:
    plan = own_plan(programs.tile_gemm())
    parts = tuple(replace(part, **changes) if part.role == which else part for part in plan.partitions)  # type: ignore[arg-type]
    return replace(plan, partitions=parts)


# -- a whole Plan ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_plan_gives_the_same_plan_and_the_same_barriers(name: str) -> None:
    text, groups = WHOLE[name]()
    target, options = Target(4, 3, groups=groups), PlanOptions(enable_warp_specialization=True)
    made = specialise(text, options, target)
    assert made.plan is not None, made.remarks
    for plan in (made.plan, Plan.from_json(made.plan.to_json())):
        again = specialise(text, PlanOptions(), target, plan)
        assert again.plan == made.plan
        assert (again.aref, again.barrier) == (made.aref, made.barrier)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_plan_leaves_nothing_of_a_kernel_open(name: str) -> None:
    text, groups = WHOLE[name]()
    plan = specialise(text, PlanOptions(enable_warp_specialization=True), Target(4, 3, groups=groups)).plan
    assert plan is not None
    still_open = {it.name for it in fields(Plan) if getattr(plan, it.name) is None}
    # Of these there is nothing to say before the kernel has layouts, of sections where groups go freely, and of
    # corrections where accumulators are in registers.
    assert still_open == {
        "correction",
        "exchange",
        "tile_order",
        "tile_group",
        "tiles",
        "split",
        "split_k",
        "sums",
        "unit_strides",
        "launches",
        "ping_pong_sections",
        "direct_stores",
        "unrolled",
        "num_warps",
    }
    assert all(it.registers for it in plan.partitions) and plan.operands and plan.loops and plan.rings
    for ring in plan.rings:
        assert None not in (ring.depth, ring.slot_bytes, ring.copies, ring.fill) and ring.payload
    for operand in plan.operands:
        assert operand.argument is None or (operand.path and operand.ring and operand.line)
        assert operand.argument is None or operand.hoisted is not None
    for loop in plan.loops:
        assert None not in (loop.loop, loop.mma_depth, loop.stages, loop.kept) and loop.line
        assert (loop.stages or 0) == (loop.schedule.stages if loop.schedule else 0)
    assert all(store.path and store.staged is not None and store.line for store in plan.stores)


def test_a_plan_holds_the_schedules_that_were_chosen_and_pins_them() -> None:
    made = specialise(staged.attention(), PlanOptions(aref_depth=2), TARGET)
    assert made.plan is not None and [it.stages for it in made.plan.schedules] == [2]
    again = specialise(staged.attention(), PlanOptions(), TARGET, Plan.from_json(made.plan.to_json()))
    assert (again.aref, again.plan) == (made.aref, made.plan)
    (schedule,) = made.plan.schedules
    in_order = replace(schedule, ops=tuple(replace(it, stage=0, order=at) for at, it in enumerate(schedule.ops)))
    loops = (LoopPlan(0, schedule=in_order),)
    for plan in (replace(made.plan, loops=loops), Plan(loops=loops, rings=made.plan.rings)):
        other = specialise(staged.attention(), PlanOptions(), TARGET, plan)
        assert other.plan is not None and other.plan.schedules == (in_order,) and other.aref != made.aref


@pytest.mark.parametrize(("most", "stages"), [(0, []), (1, [1]), (2, [2])])
def test_stages_bound_the_schedules_that_loops_get_of_their_own(most: int, stages: list[int]) -> None:
    own = specialise(staged.attention(), PlanOptions(aref_depth=2), TARGET).plan
    assert own is not None
    for loop in (LoopPlan(0, stages=most), LoopPlan(None, stages=most)):
        made = specialise(staged.attention(), PlanOptions(), TARGET, replace(own, loops=(loop,)))
        assert made.plan is not None and [it.stages for it in made.plan.schedules] == stages


def test_a_staged_loop_is_not_said_to_have_no_dots_in_flight() -> None:
    made = specialise(staged.attention(), PlanOptions(aref_depth=2, mma_depth=1), TARGET)
    reasons = [remark.reason for remark in made.remarks]
    assert any("2 stages in this loop" in it for it in reasons) and not any("P = 0" in it for it in reasons[1:])


def test_p_of_a_staged_loop_is_0_and_that_of_others_what_they_have() -> None:
    """What its schedule keeps in flight is not counted by iterations."""
    made = specialise(staged.attention(), PlanOptions(aref_depth=2, mma_depth=1), TARGET)
    assert made.plan is not None and made.plan.loop(0).mma_depth == made.plan.mma_depth == 0
    assert own_plan(programs.tile_gemm()).loop(0).mma_depth == 1


def test_a_pinned_plan_is_the_plan() -> None:
    plan = replace(with_loop(mma_depth=0), early_puts=0)
    assert pinned(Plan.from_json(plan.to_json())) == plan


def test_a_pinned_plan_gives_the_same_program_as_the_options_that_made_it() -> None:
    by_options = specialise(programs.tile_gemm(), PlanOptions(aref_depth=3, mma_depth=1), TARGET)
    by_plan = specialise(programs.tile_gemm(), PlanOptions(), TARGET, by_options.plan)
    assert (by_plan.aref, by_plan.barrier) == (by_options.aref, by_options.barrier)


def test_every_decision_of_a_pinned_plan_is_obeyed() -> None:
    made = specialise(programs.persistent_gemm(), PlanOptions(), TARGET, own_plan(programs.persistent_gemm()))
    text = made.aref
    assert "ring<3 x" in text and "pendings = 1" in text and "async_tma_copy_local_to_global" in text
    own = own_plan(programs.persistent_gemm())
    other = replace(
        own,
        loops=tuple(replace(it, mma_depth=0) for it in own.loops),
        stores=tuple(replace(it, staged=False) for it in own.stores),
        max_registers=96,
        ctas_per_sm=None,
    )
    text = specialise(programs.persistent_gemm(), PlanOptions(), TARGET, other).aref
    assert "pendings = 1" not in text and "tt.descriptor_store" in text and "ttg.maxnreg = 96 : i32" in text


def test_rings_may_have_different_depths() -> None:
    plan = own_plan(programs.gate_up())
    rings = tuple(replace(ring, depth=2 + number) for number, ring in enumerate(plan.rings))
    made = specialise(programs.gate_up(), PlanOptions(), TARGET, replace(plan, rings=rings))
    assert all(f"!aref.ring<{depth} x" in made.aref for depth in (2, 3, 4))


# -- what breaks it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (
            lambda: with_loop(mma_depth=3),
            [
                "P = 3 with a ring of D = 3",
                "D >= P + 1",
                "loop 0 (kernel.py:9), ring0",
                "a_desc, loop 0 (kernel.py:10)",
                "cure: D = 4 or P = 2",
            ],
        ),
        (lambda: with_ring(depth=1), ["P = 1 with a ring of D = 1", "b_desc, loop 0 (kernel.py:11)", "D = 2 or P = 0"]),
        (lambda: with_ring(depth=0), ["D = 0 in ring0: a_desc, loop 0 (kernel.py:10)", "cure: D of at least 1"]),
        (lambda: with_loop(mma_depth=-1), ["mma_depth=-1 in a Plan", "cure: 0 or more"]),
        (lambda: edited(early_puts=-1), ["early_puts=-1", "cure: 0 or more"]),
        (lambda: with_loop(stages=-1), ["stages=-1", "cure: 0 or more"]),
        (
            lambda: with_ring(name="other"),
            ["the Plan has rings {'other'", "the kernel has {'ring0'", "cure: start from the kernel's own Plan"],
        ),
        (lambda: with_ring(payload=("i32",)), ["the Plan has rings {'ring0': ('i32',)}"]),
        (
            lambda: with_ring(slot_bytes=99),
            ["slots of 99 bytes in ring0", "has 16384: a_desc, loop 0 (kernel.py:10)", "cure: slot_bytes=16384"],
        ),
        (lambda: with_ring(copies=2), ["the Plan has 2 copies of ring0", "cure: copies=1"]),
        (lambda: edited(partitions=edited().partitions[1:]), ["partitions ['consumer']", "cure: one producer and one"]),
        (lambda: edited(unrolled=True), ["unrolled=True in a Plan with partitions", "cure: form='unpartitioned'"]),
        (lambda: edited(num_warps=2), ["num_warps=2 in a Plan with partitions", "cure: form='unpartitioned'"]),
        (lambda: edited(form="stock"), ["form='stock' in a Plan of a specialised kernel", "cure: 'as_written' or"]),
        (lambda: edited(groups=2), ["2 consumer groups, the kernel is compiled for 1", "cure: groups=1"]),
        (lambda: edited(max_registers=7), ["max_registers=7", "cure: a multiple of 8 from 24 to 256, or 0 for no cap"]),
        (lambda: edited(ctas_per_sm=9), ["ctas_per_sm=9", "can share an SM; cure: fewer slots, or ctas_per_sm="]),
        (lambda: with_part("consumer", role="producer"), ["partitions ['producer', 'producer']"]),
        (
            lambda: with_part("consumer", num_warps=8),
            ["consumer 'consumer' has 8 warps, the kernel num_warps=4", "cure: num_warps=4 in the Plan"],
        ),
        (lambda: with_part("producer", num_warps=3), ["producer 'producer' has 3 warps", "cure: 1"]),
        (
            lambda: with_part("producer", registers=25),
            ["asks for 25 registers", "cure: a multiple of 8 from 24 to 256"],
        ),
        (lambda: with_part("consumer", registers=264), ["asks for 264 registers"]),
        (lambda: with_part("producer", registers=16), ["asks for 16 registers"]),
        (
            lambda: with_part("consumer", registers=240),
            ["the partitions ask for 33792 registers, but a CTA with these warps has 20480", "cure: fewer registers"],
        ),
    ],
)
def test_a_plan_that_cannot_be_obeyed_says_what_and_how(make: Callable[[], Plan], parts: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        pinned(make())
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"loops": [{"mma_depth": "1"}]},
        {"loops": [{"mma_depth": True}]},
        {"loops": [{"kept": 1}]},
        {"early_puts": "x"},
        {"ping_pong": 1},
        {"stores": [{"staged": 1}]},
        {"max_registers": "x"},
        {"max_registers": 7},
        {"mma_dpeth": 2},
        {"rings": [{"depth": "3"}]},
        {"rings": [{"depth": 3.0}]},
        {"rings": [{}, {}]},
        {"partitions": [{}, {"num_warps": 4.0}]},
    ],
    ids=str,
)
def test_a_plan_with_a_value_of_a_wrong_type_is_refused(changes: dict[str, Any]) -> None:
    data = json.loads(own_plan(programs.tile_gemm()).to_json())
    for name, value in changes.items():
        if isinstance(value, list):
            usual = [*data[name], data[name][-1]]
            data[name] = [{**old, **new} for old, new in zip(usual, value, strict=False)]
        else:
            data[name] = value
    with pytest.raises(PlanError):
        pinned(Plan.from_json(json.dumps(data)))


def test_the_plan_of_another_kernel_is_refused() -> None:
    other = own_plan(programs.gate_up())
    with pytest.raises(PlanError, match="a load that the kernel does not have: c_desc, loop 0; cure: one of a_desc"):
        pinned(other)
    with pytest.raises(PlanError, match="the Plan has rings"):
        pinned(replace(other, operands=(), stores=()))


# -- rings that other ways fill ----------------------------------------------------------------------------------------


def test_a_plan_says_how_each_ring_is_filled_and_its_json_does() -> None:
    plan = made("filled_with_one").plan
    assert plan is not None and [ring.fill for ring in plan.rings] == ["registers", "cp.async"]
    assert [part.num_warps for part in plan.partitions] == [4, 4]
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_that_fills_a_ring_in_another_way_than_its_loads_go_is_refused() -> None:
    plan = made("wrapped").plan
    assert plan is not None
    by_tma = replace(plan, rings=(replace(plan.rings[0], fill="tma"),))
    with pytest.raises(PlanError, match=r"the Plan fills ring0 by tma, but the kernel's loads use cp\.async"):
        specialise(ttgir("wrapped"), PlanOptions(), TARGET, by_tma)
    words = r'fill=.paper. in a Plan; cure: one of "tma", "cp\.async", "registers", "stores", "number"'
    with pytest.raises(PlanError, match=words):
        replace(plan.rings[0], fill="paper")  # type: ignore[arg-type]


def test_a_producer_of_one_warp_cannot_copy_by_pointers() -> None:
    plan = made("wrapped").plan
    assert plan is not None
    small = replace(plan, partitions=(replace(plan.partitions[0], num_warps=1), *plan.partitions[1:]))
    with pytest.raises(PlanError, match="'producer' has 1 warps, but computes on tiles; cure: 4"):
        specialise(ttgir("wrapped"), PlanOptions(), TARGET, small)
