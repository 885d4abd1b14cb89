"""Plans in part: what they name is pinned, and the planner takes the rest."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tawa.dialects.scf import enclosing_loops
from tawa.dialects.warp import find_groups
from tawa.errors import PlanError
from tawa.flow import Outcome
from tawa.ir import Operation, parse_module, print_module
from tawa.plan import LoopPlan, OperandPlan, PartitionPlan, Plan, PlanOptions, RingPlan, StorePlan
from tawa.plan.decide.rings import Target
from tawa.plan.fields import UNCAPPED
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ping_pong import grouped
from tests.cases.programs.ttgir import ACC, alloc, for_loop, kernel, load, op
from tests.cases.small.pointer_kernels import ttgir
from tests.matrix.promoting import Launch, promoted
from tests.matrix.test_prefetch_loads import scaled
from tests.support.pipeline import specialise
from tests.transforms.lowering.test_duplicate_slot_views import two_loops as loops_of_one_slot

TARGET = Target(4, 3)


def made(text: str, plan: Plan, target: Target = TARGET) -> tuple[Outcome, Plan]:
    found = specialise(text, PlanOptions(), target, plan)
    assert found.applied and found.plan is not None, found.remarks
    return found, found.plan


def own(text: str, target: Target = TARGET) -> Plan:
    """What the planner takes where nothing is pinned."""
    return made(text, Plan(), target)[1]


def operand(name: str, loop: int | None = 0, **pinned: Any) -> Plan:
    return Plan(operands=(OperandPlan(name, loop, **pinned),))


def in_consumer(outcome: Outcome, name: str) -> list[Operation]:
    groups = [group for group in find_groups(parse_module(outcome.aref)) if group.role == "consumer"]
    return [it for group in groups for it in group.op.walk() if it.name == name]


def test_an_empty_plan_pins_that_the_kernel_is_specialised_and_nothing_else() -> None:
    text = programs.tile_gemm()
    by_option = specialise(text, PlanOptions(enable_warp_specialization=True), TARGET)
    assert (own(text), made(text, Plan())[0].barrier) == (by_option.plan, by_option.barrier)


def test_without_rings_or_partitions_a_plan_leaves_them_to_the_planner() -> None:
    found = made(programs.tile_gemm(), Plan(early_puts=0))[1]
    usual = own(programs.tile_gemm())
    assert (found.rings, found.partitions) == (usual.rings, usual.partitions)
    assert found.early_puts == 0 != usual.early_puts


# -- rings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_d_of_one_ring(depth: int) -> None:
    outcome, plan = made(programs.gate_up(), Plan(rings=(RingPlan("ring1", depth=depth),)))
    usual = own(programs.gate_up())
    assert plan.ring("ring1").depth == depth
    others = [plan.ring(name).slots for name in ("ring0", "ring2")]
    assert min(others) >= usual.rings[0].slots, "they may take what this one leaves"
    assert plan.ring("ring1").payload == usual.ring("ring1").payload
    assert f"!aref.ring<{depth} x" in outcome.aref and plan.mma_depth <= depth - 1


def test_two_operands_of_one_ring_in_rings_of_their_own() -> None:
    apart = operand("a_desc", ring="left").over(operand("b_desc", ring="right"))
    outcome, plan = made(programs.tile_gemm(), apart.over(Plan(rings=(RingPlan("right", depth=2),))))
    assert [ring.name for ring in own(programs.tile_gemm()).rings] == ["ring0"]
    assert [(ring.name, len(ring.payload)) for ring in plan.rings] == [("left", 1), ("right", 1)]
    assert plan.ring("right").depth == 2 and outcome.aref.count('"aref.put"') >= 2
    assert [(it.argument, it.ring) for it in plan.operands if it.ring] == [("a_desc", "left"), ("b_desc", "right")]
    assert made(programs.tile_gemm(), operand("b_desc", ring="right"))[1].operand(("a_desc", 0, 0)).ring == "ring0"


def test_loads_that_would_have_rings_of_their_own_share_one_alternately() -> None:
    text = programs.two_loops()
    assert [ring.name for ring in own(text).rings] == ["ring0"]
    names = [OperandPlan(name, loop, ring=f"of{loop}") for name in ("a_desc", "b_desc") for loop in (0, 1)]
    assert [ring.name for ring in made(text, Plan(operands=tuple(names)))[1].rings] == ["of0", "of1"]
    names = [OperandPlan(name, loop, ring="both") for name in ("a_desc", "b_desc") for loop in (0, 1)]
    assert [ring.name for ring in made(text, Plan(operands=tuple(names)))[1].rings] == ["both"]


# -- loops -------------------------------------------------------------------------------------------------------------


def test_p_of_one_loop() -> None:
    outcome, plan = made(programs.two_loops(), Plan(loops=(LoopPlan(1, mma_depth=0), LoopPlan(0, mma_depth=2))))
    assert [(it.loop, it.mma_depth) for it in plan.loops] == [(0, 2), (1, 0)] and plan.mma_depth == 2
    assert plan.rings[0].slots >= 3 and outcome.aref.count("pendings = 2") == 1


def test_p_of_all_loops_but_one() -> None:
    pins = Plan(loops=(LoopPlan(mma_depth=0), LoopPlan(1, mma_depth=1)))
    assert [it.mma_depth for it in made(programs.two_loops(), pins)[1].loops] == [0, 1]


def test_stages_of_one_loop() -> None:
    pins = Plan(loops=(LoopPlan(1, stages=0),))
    _, plan = made(staged.PROGRAMS["two_loops"](), pins)
    assert [(it.stages, it.schedule is None) for it in plan.loops] == [(2, False), (0, True)]


@functools.cache
def with_query() -> str:
    """A loop whose dot has a left operand that the loop does not change."""
    dot = programs.dot("next", "x", "y", "sum")
    loop = for_loop("\n".join((load("b", "b_desc"), alloc("y", "b"), dot)), carried={"sum": ("zeros", "next", ACC)},
                    results="%acc")  # fmt: skip
    return kernel("\n".join((load("a", "a_desc", "%zero, %zero"), alloc("x", "a"), loop, programs.store())))


def test_operands_that_are_not_kept() -> None:
    outcome, plan = made(with_query(), Plan())
    assert plan.loop(0).kept == (0,) and len(in_consumer(outcome, "ttg.local_load")) == 1
    outcome, plan = made(with_query(), Plan(loops=(LoopPlan(0, kept=()),)))
    assert plan.loop(0).kept == () and in_consumer(outcome, "ttg.local_load") == []


# -- operands and stores -----------------------------------------------------------------------------------------------


def test_an_operand_that_the_consumer_loads() -> None:
    outcome, plan = made(programs.gate_up(), operand("c_desc", path="consumer"))
    entry = plan.operand(("c_desc", 0, 0))
    assert (entry.path, entry.ring, len(plan.rings)) == ("consumer", None, 2)
    (left,) = in_consumer(outcome, "tt.descriptor_load")
    assert left.operands[0].hint.startswith("c_desc")


def test_an_operand_through_the_registers_of_the_producer() -> None:
    text = ttgir("wrapped")
    assert [ring.fill for ring in own(text).rings] == ["cp.async"]
    _, plan = made(text, operand("a_ptr", path="registers"))
    assert [(ring.fill, len(ring.payload)) for ring in plan.rings] == [("registers", 1), ("cp.async", 1)]
    assert [it.path for it in plan.operands if it.argument] == ["registers", "cp.async"]
    assert [ring.fill for ring in made(text, Plan(operands=(OperandPlan(path="registers"),)))[1].rings] == ["registers"]


@functools.cache
def with_scales() -> str:
    """A row of scales by TMA, behind the tile that it scales."""
    lot, b, length = np.random.default_rng(0), 64, 128
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((b, length)).astype(np.float16),
        "b_ptr": lot.standard_normal((length, b)).astype(np.float16),
        "s_ptr": lot.standard_normal(length).astype(np.float16),
        "c_ptr": np.zeros(b * b + length, np.float16),
        "T": length,
    }
    return print_module(promoted(Launch(scaled, arguments, {"STORE": False, "B": b}, (1,))).ttgir())


def test_a_row_that_is_not_hoisted_has_a_ring_of_its_own() -> None:
    usual = own(with_scales())
    assert usual.operand(("s_ptr", 0, 0)).hoisted and [len(ring.payload) for ring in usual.rings] == [3]
    _, plan = made(with_scales(), operand("s_ptr", hoisted=False))
    assert plan.operand(("s_ptr", 0, 0)).hoisted is False
    assert [len(ring.payload) for ring in plan.rings] == [2, 1]
    assert len(made(with_scales(), Plan(operands=(OperandPlan(hoisted=False),)))[1].rings) == 2


@functools.cache
def with_gate(pointer: str = "%p, %k") -> str:
    """A loop in which the consumer loads a number of each iteration, and multiplies by it."""
    lines = (
        programs.iteration(result="product"),
        op("tt.addptr", pointer, "!tt.ptr<f32>, i32", "%place", "!tt.ptr<f32>"),
        op("tt.load", "%place", "!tt.ptr<f32>", "%gate", "f32", line=14, properties="cache = 1 : i32, evict = 1 : i32"),
        op("tt.splat", "%gate", "f32", "%gates", ACC),
        programs.binary("next", "mulf", "product", "gates", ACC),
    )
    loop = for_loop("\n".join(lines), carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return kernel(f"{loop}\n{programs.store()}", arguments={"p": "!tt.ptr<f32>"})


def test_a_number_that_is_not_prefetched() -> None:
    flat = Plan(loops=(LoopPlan(stages=0),))
    outcome, plan = made(with_gate(), flat)
    assert plan.operand(("p", 0, 0)).prefetched is True and plan.operand(("p", 0, 0)).path == "consumer"
    assert [bool(enclosing_loops(it)) for it in in_consumer(outcome, "tt.load")] == [False, True]
    for pins in (operand("p", prefetched=False), Plan(operands=(OperandPlan(prefetched=False),))):
        outcome, plan = made(with_gate(), pins.over(flat))
        assert plan.operand(("p", 0, 0)).prefetched is False
        assert [bool(enclosing_loops(it)) for it in in_consumer(outcome, "tt.load")] == [True]


@functools.cache
def with_two_stores() -> str:
    stores = f"{programs.store()}\n{programs.store(desc='d_desc').replace('%acc_', '%again_')}"
    body = for_loop(f"{programs.gemm_loop()}\n{stores}", induction="tile", upper="m")
    return kernel(body, arguments={"d_desc": programs.DESC})


def test_one_store_that_is_waited_for_where_it_stands() -> None:
    outcome, plan = made(with_two_stores(), Plan(stores=(StorePlan("d_desc", 0, staged=False),)))
    assert [(it.argument, it.staged) for it in plan.stores] == [("c_desc", True), ("d_desc", False)]
    assert len(in_consumer(outcome, "ttng.async_tma_copy_local_to_global")) == 1
    (left,) = in_consumer(outcome, "tt.descriptor_store")
    assert left.operands[0].hint.startswith("d_desc")


# -- the machine -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ctas", "cap"), [(1, False), (2, True)])
def test_how_many_ctas_share_an_sm(ctas: int, cap: bool) -> None:
    usual = own(programs.tile_gemm())
    assert (usual.ctas_per_sm or 0) > 2
    outcome, plan = made(programs.tile_gemm(), Plan(ctas_per_sm=ctas))
    assert plan.ctas_per_sm == ctas and bool(plan.max_registers) is cap
    assert ("ttg.maxnreg" in outcome.barrier) is cap
    consumer = next(part for part in plan.partitions if part.role == "consumer")
    before = next(part for part in usual.partitions if part.role == "consumer")
    assert (consumer.registers or 0) > (before.registers or 0)


def test_a_cap_on_registers_or_none() -> None:
    assert made(programs.tile_gemm(), Plan(max_registers=96))[1].max_registers == 96
    outcome, plan = made(programs.tile_gemm(), Plan(max_registers=UNCAPPED))
    assert plan.max_registers == UNCAPPED and "ttg.maxnreg" not in outcome.barrier


def test_registers_of_one_partition() -> None:
    parts = (PartitionPlan("producer", "producer", 1, 40), PartitionPlan("consumer", "consumer", 4))
    _, plan = made(programs.tile_gemm(), Plan(partitions=parts, ctas_per_sm=1))
    usual = made(programs.tile_gemm(), Plan(ctas_per_sm=1))[1]
    producer, consumer = plan.partitions
    assert producer.registers == 40 and 24 <= (consumer.registers or 0) <= (usual.partitions[1].registers or 0)


def test_groups_with_ping_pong() -> None:
    target = Target(4, 3, groups=2)
    outcome, plan = made(grouped(staged.attention()), Plan(ping_pong=True), target)
    assert plan.ping_pong and plan.groups == 2 and "token0" in outcome.aref
    assert plan.ping_pong_sections and made(grouped(staged.attention()), plan, target)[1] == plan


def test_views_of_slots() -> None:
    assert own(loops_of_one_slot()).slot_views == "own" and own(programs.tile_gemm()).slot_views == "shared"
    assert made(loops_of_one_slot(), Plan(slot_views="own"))[1].slot_views == "own"


# -- what cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plan", "parts"),
    [
        (
            programs.tile_gemm, operand("z_desc", prefetched=False),
            ["a load that the kernel does not have: z_desc, loop 0", "cure: one of a_desc, loop 0; b_desc, loop 0"],
        ),
        (
            programs.tile_gemm, Plan(operands=(OperandPlan("a_desc", 0, 1, path="consumer"),)),
            ["does not have: a_desc, loop 0, number 1"],
        ),
        (
            programs.tile_gemm, Plan(stores=(StorePlan("a_desc", staged=False),)),
            ["a store that the kernel does not have: a_desc, outside of loops; cure: one of c_desc, outside of loops"],
        ),
        (
            programs.tile_gemm, Plan(loops=(LoopPlan(3, mma_depth=0),)),
            ["the Plan names loop 3; the kernel has loops with dots [0]", "cure: start from the kernel's own Plan"],
        ),
        (
            programs.tile_gemm, Plan(rings=(RingPlan("ring7", depth=2),)),
            ["the Plan has rings {'ring7': ()}, the kernel has {'ring0'", "cure:"],
        ),
        (
            programs.tile_gemm, operand("a_desc", path="cp.async"),
            ["loads a_desc, loop 0 (kernel.py:10) by cp.async, but it is loaded by host_descriptor",
             "cure: path='host_descriptor' or 'consumer'"],
        ),
        (
            programs.tile_gemm, Plan(operands=(OperandPlan(path="consumer"),)),
            ["leaves every load to the consumer, so the producer has no work; cure: form='stock'"],
        ),
        (
            programs.nested_loops, operand("a_desc", ring="one").over(operand("a_desc", loop=1, ring="one")),
            ["the Plan puts a_desc, loop 0 (kernel.py:10) and a_desc, loop 1 (kernel.py:10) into one:",
             "neither loaded together nor equal tiles loaded one after the other", "cure: separate rings"],
        ),
        (
            programs.tile_gemm, Plan(rings=(RingPlan("ring0", depth=2),), loops=(LoopPlan(0, mma_depth=2),)),
            ["P = 2 with a ring of D = 2", "D >= P + 1", "loop 0 (kernel.py:9), ring0: a_desc, loop 0 (kernel.py:10)",
             "cure: D = 3 or P = 1"],
        ),
        (
            programs.tile_gemm,
            Plan(partitions=(PartitionPlan("p", "producer", 1, 240), PartitionPlan("c", "consumer", 4, 240)),
                 max_registers=96),
            ["the partitions ask for 61440 registers, but a CTA with these warps has 24576",
             "cure: fewer registers for a partition"],
        ),
        (loops_of_one_slot, Plan(slot_views="shared"),
         ["shares the views of slots", "several branches or loops read one slot of ring", "cure: slot_views='own'"]),
        (programs.tile_gemm, Plan(form="stock"), ["form='stock'", "cure: 'as_written' or 'persistent'"]),
        (programs.tile_gemm, Plan(groups=2), ["2 consumer groups, the kernel is compiled for 1", "cure: groups=1"]),
        (programs.tile_gemm, Plan(ping_pong=True), ["the Plan has ping_pong", "needs two consumer groups", "cure:"]),
        (
            programs.tile_gemm, operand("a_desc", prefetched=True),
            ["the Plan prefetches a_desc, loop 0 (kernel.py:10)", "cure: prefetched=false"],
        ),
        (
            programs.tile_gemm, Plan(loops=(LoopPlan(0, kept=(0,)),)),
            ["keeps the left operand of dot 0 of loop 0 (kernel.py:9) in registers", "cure: kept without 0"],
        ),
        (programs.tile_gemm, Plan(ctas_per_sm=9), ["ctas_per_sm=9", "can share an SM", "cure: fewer slots, or"]),
    ],
    ids=["load", "number of a load", "store", "loop", "ring", "path", "no producer", "sharing", "D and P", "registers",
         "views", "stock", "groups", "sections", "prefetched", "kept", "CTAs"],
)  # fmt: skip
def test_a_plan_that_cannot_be_carried_out_names_what_is_wrong_and_the_cure(
    text: Any, plan: Plan, parts: list[str]
) -> None:
    with pytest.raises(PlanError) as caught:
        made(text(), plan)
    for part in parts:
        assert part in str(caught.value)


def test_options_that_contradict_a_plan_give_way_to_it() -> None:
    """The Plan is the more exact one."""
    options = PlanOptions(aref_depth=4, mma_depth=0)
    found = specialise(programs.gate_up(), options, TARGET, Plan(rings=(RingPlan("ring1", depth=2),)))
    assert found.plan is not None and [ring.depth for ring in found.plan.rings] == [4, 2, 4]
