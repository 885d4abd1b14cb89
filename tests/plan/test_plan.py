"""The Plan as a value: printed, edited, pinned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.analysis.channels import find_channels
from tawa.analysis.loads import find_dot_loads
from tawa.errors import PlanError
from tawa.ir import parse_module
from tawa.pipeline import Target, specialise
from tawa.plan import PartitionPlan, Plan, PlanOptions, RingPlan
from tawa.plan.plan import JSON_VERSION
from tawa.plan.profitability import pointer_loads_worth
from tawa.plan.schedule import Bound, Schedule, ScheduledOp
from tests.matrix.pointer_kernels import made, ttgir
from tests.support import programs, staged

TARGET = Target(num_warps=4, num_stages=3)


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


def with_part(which: str, **changes: object) -> Plan:
    plan = own_plan(programs.tile_gemm())
    parts = tuple(replace(part, **changes) if part.role == which else part for part in plan.partitions)  # type: ignore[arg-type]
    return replace(plan, partitions=parts)


# -- JSON --------------------------------------------------------------------------------------------------------------


names = st.text("abcdefgh_0123", min_size=1)
plans = st.builds(
    Plan,
    partitions=st.lists(
        st.builds(
            PartitionPlan,
            names,
            st.sampled_from(["producer", "consumer"]),
            st.integers(1, 8),
            st.none() | st.integers(24, 256),
        )
    ).map(tuple),
    rings=st.lists(
        st.builds(RingPlan, names, st.lists(st.text()).map(tuple), st.integers(1, 8), st.integers(0, 2**18))
    ).map(tuple),
    mma_depth=st.integers(0, 4),
    staged_stores=st.booleans(),
    max_registers=st.none() | st.integers(24, 256),
    early_puts=st.integers(0, 4),
    keep_operands=st.booleans(),
    schedules=st.lists(
        st.builds(
            Schedule,
            st.integers(0, 3),
            names,
            st.integers(0, 4000),
            st.lists(st.builds(Bound, names, st.integers(0, 4000))).map(tuple),
            st.integers(0, 3).map(
                lambda count: tuple(ScheduledOp(place % 2, place, 0, "op") for place in range(count))
            ),
            st.lists(st.tuples(names, st.integers(1, 4))).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    max_stages=st.integers(0, 3),
)


@given(plans)
def test_a_plan_comes_back_from_its_json(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", "{}", '{"partitions": [], "rings": [{}], "mma_depth": 0}']
)
def test_another_text_is_no_plan(text: str) -> None:
    with pytest.raises(PlanError, match=r"not a Plan: .*cure: start from"):
        Plan.from_json(text)


def test_a_plan_of_a_later_version_is_refused_and_one_of_the_first_is_read() -> None:
    data = json.loads(own_plan(programs.tile_gemm()).to_json())
    assert data["version"] == JSON_VERSION
    with pytest.raises(PlanError, match=f"version {JSON_VERSION + 1} is not one of 1 to"):
        Plan.from_json(json.dumps(data | {"version": JSON_VERSION + 1}))
    first = {name: value for name, value in data.items() if name not in ("schedules", "max_stages", "ping_pong")}
    assert Plan.from_json(json.dumps(first | {"version": 1})) == own_plan(programs.tile_gemm())


def test_a_plan_holds_the_schedules_that_were_chosen_and_pins_them() -> None:
    made = specialise(staged.attention(), PlanOptions(aref_depth=2), TARGET)
    assert made.plan is not None and [it.stages for it in made.plan.schedules] == [2]
    again = specialise(staged.attention(), PlanOptions(), TARGET, Plan.from_json(made.plan.to_json()))
    assert (again.aref, again.plan) == (made.aref, made.plan)
    (schedule,) = made.plan.schedules
    in_order = replace(schedule, ops=tuple(replace(it, stage=0, order=at) for at, it in enumerate(schedule.ops)))
    other = specialise(staged.attention(), PlanOptions(), TARGET, replace(made.plan, schedules=(in_order,)))
    assert other.plan is not None and other.plan.schedules == (in_order,) and other.aref != made.aref


@pytest.mark.parametrize(("most", "stages"), [(0, []), (1, [1]), (2, [2])])
def test_max_stages_bounds_the_schedules_that_loops_get_of_their_own(most: int, stages: list[int]) -> None:
    own = specialise(staged.attention(), PlanOptions(aref_depth=2), TARGET).plan
    assert own is not None
    made = specialise(staged.attention(), PlanOptions(), TARGET, replace(own, schedules=(), max_stages=most))
    assert made.plan is not None and [it.stages for it in made.plan.schedules] == stages


def test_a_staged_loop_is_not_said_to_have_no_dots_in_flight() -> None:
    made = specialise(staged.attention(), PlanOptions(aref_depth=2, mma_depth=1), TARGET)
    reasons = [remark.reason for remark in made.remarks]
    assert any("2 stages in this loop" in it for it in reasons) and not any("P = 0" in it for it in reasons)


def test_a_pinned_plan_is_the_plan() -> None:
    plan = edited(mma_depth=0, early_puts=0)
    assert pinned(Plan.from_json(plan.to_json())) == plan


def test_a_pinned_plan_gives_the_same_program_as_the_options_that_made_it() -> None:
    by_options = specialise(programs.tile_gemm(), PlanOptions(aref_depth=3, mma_depth=1), TARGET)
    by_plan = specialise(programs.tile_gemm(), PlanOptions(), TARGET, by_options.plan)
    assert (by_plan.aref, by_plan.barrier) == (by_options.aref, by_options.barrier)


def test_every_decision_of_a_pinned_plan_is_obeyed() -> None:
    made = specialise(programs.persistent_gemm(), PlanOptions(), TARGET, own_plan(programs.persistent_gemm()))
    text = made.aref
    assert "ring<3 x" in text and "pendings = 1" in text and "async_tma_copy_local_to_global" in text
    other = replace(own_plan(programs.persistent_gemm()), mma_depth=0, staged_stores=False, max_registers=96)
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
        (lambda: edited(mma_depth=3), ["P = 3 with a ring of D = 3", "D >= P + 1", "cure: D = 4 or P = 2"]),
        (lambda: with_ring(depth=1), ["P = 1 with a ring of D = 1", "cure: D = 2 or P = 0"]),
        (lambda: with_ring(depth=0), ["D = 0, P = 1", "cure: D of at least 1"]),
        (lambda: edited(mma_depth=-1), ["P = -1", "P of at least 0"]),
        (lambda: edited(early_puts=-1), ["early_puts=-1", "cure: 0 or more"]),
        (lambda: edited(max_stages=-1), ["max_stages=-1", "cure: 0 or more"]),
        (
            lambda: edited(rings=()),
            ["the Plan has rings {}, the kernel has {'ring0'", "cure: start from the kernel's own Plan"],
        ),
        (lambda: with_ring(name="other"), ["the Plan has rings {'other'"]),
        (lambda: with_ring(payload=("i32",)), ["the Plan has rings {'ring0': ('i32',)}"]),
        (lambda: edited(partitions=()), ["the Plan has partitions []", "cure: one producer and one consumer"]),
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
    ],
)
def test_a_plan_that_cannot_be_obeyed_says_what_and_how(make: Callable[[], Plan], parts: list[str]) -> None:
    plan = make()
    with pytest.raises(PlanError) as caught:
        pinned(plan)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"mma_depth": "1"},
        {"mma_depth": True},
        {"early_puts": "x"},
        {"keep_operands": 1},
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
    with pytest.raises(PlanError, match="the Plan has rings"):
        pinned(own_plan(programs.gate_up()))


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
    with pytest.raises(PlanError, match=r"the Plan fills ring0 by tma, the kernel's loads go by cp\.async"):
        specialise(ttgir("wrapped"), PlanOptions(), TARGET, by_tma)
    with pytest.raises(PlanError, match=r"fill='paper' in a Plan: one of tma, cp\.async, registers is needed"):
        replace(plan.rings[0], fill="paper")  # type: ignore[arg-type]


def test_a_producer_of_one_warp_cannot_copy_by_pointers() -> None:
    plan = made("wrapped").plan
    assert plan is not None
    small = replace(plan, partitions=(replace(plan.partitions[0], num_warps=1), *plan.partitions[1:]))
    with pytest.raises(PlanError, match="'producer' has 1 warps, and works on tiles of addresses; cure: 4"):
        specialise(ttgir("wrapped"), PlanOptions(), TARGET, small)


def test_a_plain_gemm_through_pointers_is_left_to_stock_and_chained_dots_are_not() -> None:
    left = specialise(ttgir("wrapped"), PlanOptions(), TARGET)
    assert not left.applied
    channels = tuple(find_channels(find_dot_loads(parse_module(ttgir("wrapped")))))
    assert not pointer_loads_worth(channels, chained=False) and pointer_loads_worth(channels, chained=True)
