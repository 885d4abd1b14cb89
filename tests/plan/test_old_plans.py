"""Plans of the versions 1 to 5: they are still read, and pin what they did."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from tawa.errors import PlanError
from tawa.ir import parse_module
from tawa.outside import read
from tawa.pipeline import Outcome, Target, specialise
from tawa.plan import LoopPlan, PartitionPlan, Plan, PlanOptions, RingPlan, StorePlan
from tawa.plan.entries import UNCAPPED
from tawa.plan.plan import JSON_VERSION
from tawa.plan.schedule import Schedule
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.turns import grouped

TARGET = Target(4, 3)

VERSION_4 = """
{"version": 4,
 "partitions": [{"name": "producer", "role": "producer", "num_warps": 1, "registers": null},
                {"name": "consumer", "role": "consumer", "num_warps": 4, "registers": null}],
 "rings": [{"name": "ring0", "payload": ["!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"],
            "depth": 2, "slot_bytes": 8192, "copies": 1, "fill": "tma"},
           {"name": "ring1", "payload": ["!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"],
            "depth": 2, "slot_bytes": 8192, "copies": 1, "fill": "tma"}],
 "mma_depth": 0,
 "staged_stores": false,
 "max_registers": null,
 "early_puts": 0,
 "schedules": [
  {"loop": 0, "location": "kernel.py:9", "ii_cycles": 606, "bounds": [{"what": "tensor cores", "cycles": 256}],
   "ops": [
    {"stage": 0, "order": 0, "begin_cycle": 0, "label": "a = get", "location": "kernel.py:10"},
    {"stage": 0, "order": 1, "begin_cycle": 44, "label": "count = advance", "location": "kernel.py:10"},
    {"stage": 0, "order": 2, "begin_cycle": 20, "label": "s = warp_group_dot", "location": "kernel.py:11"},
    {"stage": 0, "order": 3, "begin_cycle": 182, "label": "consumed", "location": "kernel.py:11"},
    {"stage": 0, "order": 4, "begin_cycle": 202, "label": "t = mulf", "location": "kernel.py:12"},
    {"stage": 0, "order": 5, "begin_cycle": 234, "label": "p = exp2", "location": "kernel.py:12"},
    {"stage": 0, "order": 6, "begin_cycle": 574, "label": "scaled = mulf", "location": "kernel.py:13"},
    {"stage": 0, "order": 7, "begin_cycle": 22, "label": "b = get", "location": "kernel.py:14"},
    {"stage": 0, "order": 8, "begin_cycle": 44, "label": "count = advance", "location": "kernel.py:14"},
    {"stage": 0, "order": 9, "begin_cycle": 510, "label": "next_narrow = truncf", "location": "kernel.py:9"},
    {"stage": 0, "order": 10, "begin_cycle": 606, "label": "next_operand = convert_layout", "location": "kernel.py:9"},
    {"stage": 0, "order": 11, "begin_cycle": 42, "label": "next = warp_group_dot", "location": "kernel.py:15"},
    {"stage": 0, "order": 12, "begin_cycle": 490, "label": "consumed", "location": "kernel.py:15"}],
   "ring_depths": [["ring0", 1], ["ring1", 1]], "tile_registers": 82}],
 "max_stages": 2,
 "ping_pong": false,
 "keep_operands": false}
"""
"""Of `staged.PROGRAMS["persistent"]`, whose loop is staged in one stage: in the order of its text."""

FIRST: dict[str, Any] = {
    "version": 1,
    "partitions": [
        {"name": "producer", "role": "producer", "num_warps": 1, "registers": 24},
        {"name": "consumer", "role": "consumer", "num_warps": 4, "registers": 240},
    ],
    "rings": [{"name": "ring0", "payload": [programs.SLOT, programs.SLOT], "depth": 4, "slot_bytes": 16384}],
    "mma_depth": 2,
    "staged_stores": True,
    "max_registers": None,
    "early_puts": 1,
}
"""All that the first version had, of `programs.persistent_gemm`."""


def pinned(text: str, data: dict[str, Any], target: Target = TARGET) -> tuple[Outcome, Plan]:
    made = specialise(text, PlanOptions(), target, Plan.of(data))
    assert made.applied and made.plan is not None, made.remarks
    return made, made.plan


def changed(**changes: Any) -> dict[str, Any]:
    return {**json.loads(VERSION_4), **changes}


# -- what they say -----------------------------------------------------------------------------------------------------


def test_the_fields_of_version_4_are_found_in_their_new_places() -> None:
    schedule = read(Schedule, json.loads(VERSION_4)["schedules"][0])
    payload = ("!ttg.memdesc<64x64xf16, #shared, #smem, mutable>",)
    assert Plan.from_json(VERSION_4) == Plan(
        groups=1,
        partitions=(
            PartitionPlan("producer", "producer", 1, UNCAPPED),
            PartitionPlan("consumer", "consumer", 4, UNCAPPED),
        ),
        max_registers=UNCAPPED,
        stores=(StorePlan(staged=False),),
        loops=(LoopPlan(None, mma_depth=0, stages=2, kept=()), LoopPlan(0, stages=1, schedule=schedule)),
        rings=tuple(RingPlan(name, payload, 2, 8192, 1, "tma") for name in ("ring0", "ring1")),
        early_puts=0,
        ping_pong=False,
        numbering="staged",
    )


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_what_a_version_did_not_have_is_as_it_was_then(version: int) -> None:
    plan = Plan.of({**FIRST, "version": version})
    assert plan == Plan.of({"max_stages": 2, "schedules": [], "ping_pong": False, "keep_operands": False, **FIRST})
    assert (plan.numbering, plan.loops) == ("program", (LoopPlan(None, 2, 2, kept=()),))
    assert plan.rings == (RingPlan("ring0", (programs.SLOT, programs.SLOT), 4, 16384, 1, "tma"),)
    assert (plan.form, plan.operands, plan.slot_views, plan.launches) == (None, (), None, None)
    bare = Plan.of({name: FIRST[name] for name in ("version", "partitions", "rings", "mma_depth")})
    assert (bare.stores, bare.max_registers, bare.early_puts) == ((StorePlan(staged=True),), UNCAPPED, 0)


def test_the_json_of_an_old_plan_is_of_this_version_and_means_the_same() -> None:
    plan = Plan.from_json(VERSION_4)
    assert plan.to_dict()["version"] == JSON_VERSION and plan.to_dict()["numbering"] == "staged"
    assert Plan.from_json(plan.to_json()) == plan


# -- what they pin -----------------------------------------------------------------------------------------------------


def test_version_4_pins_schedules_stores_and_what_is_left_to_triton() -> None:
    text = staged.PROGRAMS["persistent"]()
    made, plan = pinned(text, json.loads(VERSION_4))
    (schedule,) = Plan.from_json(VERSION_4).schedules
    assert plan.schedules == (replace(schedule, loop=1),) and plan.loop(1).mma_depth == 0
    assert "scf.if" not in made.aref, "one stage has neither prologue nor epilogue"
    assert "requestedRegisters" not in made.barrier and "ttg.maxnreg" not in made.barrier
    assert "tt.descriptor_store" in made.aref and "async_tma_copy_local_to_global" not in made.aref
    assert [it.staged for it in plan.stores] == [False] and "fresh" not in made.aref
    own = specialise(text, PlanOptions(aref_depth=2, enable_warp_specialization=True), TARGET)
    for piece in ("scf.if", "requestedRegisters", "ttg.maxnreg", "async_tma_copy_local_to_global"):
        assert piece in own.aref + own.barrier
    for n, m in ((0, 1), (1, 2), (4, 2)):
        assert staged.output(made.module or parse_module(made.barrier), n, m) == staged.expected(text, n, m)


def test_what_was_made_of_an_old_plan_is_a_plan_of_this_version_that_makes_the_same() -> None:
    text = staged.PROGRAMS["persistent"]()
    made, plan = pinned(text, json.loads(VERSION_4))
    again, same = pinned(text, plan.to_dict())
    assert (again.aref, again.barrier, same) == (made.aref, made.barrier, plan)
    assert plan.numbering == "program"


def test_staged_loops_are_counted_group_by_group() -> None:
    """Two groups of one staged loop each: loops 0 and 1 are one loop of the program."""
    text, target = grouped(staged.attention()), Target(4, 3, groups=2)
    made = specialise(text, PlanOptions(enable_warp_specialization=True, aref_depth=2), target)
    assert made.plan is not None
    (own,) = made.plan.schedules
    flat = replace(own, ops=tuple(replace(it, stage=0, order=at) for at, it in enumerate(own.ops)))
    data = changed(schedules=[asdict(flat), asdict(replace(flat, loop=1))], staged_stores=True)
    data["partitions"] = [asdict(part) for part in made.plan.partitions]
    _, plan = pinned(text, data, target)
    assert plan.schedules == (flat,) and flat != own
    data["schedules"].append(asdict(replace(flat, loop=2)))
    with pytest.raises(PlanError, match="a schedule of loop 2, the kernel has 2 to schedule"):
        specialise(text, PlanOptions(), target, Plan.of(data))


def test_of_two_staged_loops_the_second_may_be_pinned_alone() -> None:
    text = staged.PROGRAMS["two_loops"]()
    own = specialise(text, PlanOptions(enable_warp_specialization=True, aref_depth=2), TARGET).plan
    assert own is not None
    first, second = own.schedules
    flat = replace(second, ops=tuple(replace(it, stage=0, order=at) for at, it in enumerate(second.ops)))
    _, plan = pinned(text, changed(schedules=[asdict(flat)]))
    assert plan.schedules == (first, flat)


@pytest.mark.parametrize(("most", "stages"), [(0, []), (1, [1]), (2, [2])])
def test_max_stages_bounds_the_schedules_that_loops_get_of_their_own(most: int, stages: list[int]) -> None:
    _, plan = pinned(staged.attention(), changed(schedules=[], max_stages=most))
    assert [it.stages for it in plan.schedules] == stages


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_pins_d_p_stores_and_early_puts(version: int) -> None:
    made, plan = pinned(programs.persistent_gemm(), {**FIRST, "version": version})
    assert (plan.ring("ring0").depth, plan.mma_depth, plan.early_puts) == (4, 2, 1)
    assert "!aref.ring<4 x" in made.aref and "pendings = 2" in made.aref
    assert [it.staged for it in plan.stores] == [True] and "async_tma_copy_local_to_global" in made.aref
    assert "registers = 240" in made.aref


def test_its_p_is_that_of_all_loops() -> None:
    _, plan = pinned(programs.two_loops(), {**FIRST, "mma_depth": 3})
    assert [(it.loop, it.mma_depth) for it in plan.loops] == [(0, 3), (1, 3)]


def test_keep_operands_leaves_the_choice_to_the_planner() -> None:
    assert Plan.of(changed(keep_operands=True)).loop(0).kept is None
    assert Plan.of(changed(keep_operands=False)).loop(0).kept == ()


# -- what is no Plan ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keep_operands": 1}, "keep_operands is 1, not true or false"),
        ({"staged_stores": "x"}, "staged_stores is 'x', not true or false"),
        ({"mma_depth": "1"}, "mma_depth is '1', not a whole number"),
        ({"mma_dpeth": 2}, "it has no 'mma_dpeth': .*mma_depth"),
        ({"groups": 2}, "it has no 'groups': known: partitions"),
        ({"schedules": [3]}, r"schedules\[0\] is 3, not names and values"),
        ({"partitions": [3]}, r"partitions\[0\] is 3, not names and values"),
        ({"version": 0}, "version 0 is not one of 1 to 6"),
        ({"version": True}, "version True is not one of 1 to 6"),
        ({"version": "4"}, "version '4' is not one of 1 to 6"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Plan.of(changed(**changes))


@pytest.mark.parametrize("name", ["partitions", "rings", "mma_depth"])
def test_they_are_whole_plans(name: str) -> None:
    data = json.loads(VERSION_4)
    del data[name]
    with pytest.raises(PlanError, match=f"not a Plan: {name} is missing; cure:"):
        Plan.of(data)


@pytest.mark.parametrize(
    ("rules", "choice"),
    [
        ({"short": "stock", "crowded": "specialised", "many": "as_written"}, "predicted"),
        ({"short": "specialised", "crowded": "specialised", "many": "persistent"}, "predicted"),
        ({"short": "specialised", "crowded": "specialised", "many": "as_written"}, "always"), ({}, None),
    ],
)  # fmt: skip
def test_the_rules_of_version_5_are_a_choice(rules: dict[str, str], choice: str | None) -> None:
    plan = Plan.of({"version": 5, "launches": {"conditions": ["K >= 1"], **rules}})
    assert plan.launches is not None
    assert (plan.launches.conditions, plan.launches.choice) == (("K >= 1",), choice)
