"""Random partial Plans of ten kernels: a legal one is proved and gives the same bits, an illegal one says why.

A Plan is made of changes to what the planner itself chooses. Each change is known to be legal, or comes with the words
that the error must have.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.errors import PlanError
from tawa.ir import parse_module, print_module
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions, RingPlan, StorePlan
from tests.cases.attention import cases as attention
from tests.cases.attention.builders import forward_case, resized
from tests.cases.case import Specimen
from tests.cases.gemm import cases as gemm
from tests.cases.pointers import cases as pointers
from tests.cases.simulated import ORDERS, simulated
from tests.matrix.compiling import signature
from tests.support.fronts import Front, front
from tests.support.sample import sample, seeds, simulated_once
from tests.support.verdicts import passes

SEEDS = seeds(6)


def _kernels() -> dict[str, Specimen]:
    found = {name: gemm.find(name) for name in ("tile_64x64", "persistent", "gate_up", "two_loops", "epilogue_all")}
    found |= {name: pointers.find(name) for name in ("tutorial_fp16_nn", "linear_attention", "grouped_lengths")}
    for name in ("two_loops_causal_333x200", "persistent_200x333"):
        found[name] = resized(attention.find(name), 150, 100).with_sizes(B=1)
    small = {"M": 136, "N": 144, "K": 136}
    for name in ("tile_64x64", "gate_up", "two_loops", "epilogue_all", "tutorial_fp16_nn"):
        known = set(found[name].sizes)
        found[name] = found[name].with_sizes(**{key: value for key, value in small.items() if key in known})
    small_8_bits = {"dtype": "fp8e4nv", "dim": 64, "B": 1, "H": 1, "HK": 1, "SQ": 130, "SK": 262}
    found["keys_innermost"] = forward_case("ordered", "two_loops", causal=True, tile=(128, 64, 8), **small_8_bits)
    found["values_as_rows"] = forward_case("rows", "two_loops", causal=False, rows=True, **small_8_bits)
    return found


NAMES = (
    "tile_64x64", "persistent", "gate_up", "two_loops", "epilogue_all", "tutorial_fp16_nn", "linear_attention",
    "grouped_lengths", "two_loops_causal_333x200", "persistent_200x333",
)  # fmt: skip

EIGHT_BITS = ("keys_innermost", "values_as_rows")
"""Attention in 8 bits, for words that only such kernels have: the order of rows, who transposes a tile."""


@functools.cache
def kernels() -> dict[str, Specimen]:
    found = _kernels()
    assert tuple(found) == NAMES + EIGHT_BITS
    return found


@functools.cache
def fronts(name: str) -> Front:
    case = kernels()[name]
    return front(case.kernel, signature(case), **case.options())


def planned(name: str, plan: Plan | None) -> tuple[Any, dict[str, str]]:
    """What becomes of a kernel with a Plan, as far as the barrier level, and its texts."""
    job = fronts(name).job(name)
    request = Request(PlanOptions(enable_warp_specialization=True) if plan is None else PlanOptions(), plan)
    found = specialise(job, request)
    return found, job.texts


@functools.cache
def own(name: str) -> Plan:
    found, _ = planned(name, None)
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    return found.outcome.plan


@functools.cache
def bits(name: str) -> dict[str, Any]:
    return simulated(kernels()[name], fronts(name).whole())


@dataclass(frozen=True)
class Change:
    """A part of a Plan. wrong: words of the error that it must give; none where it is legal."""

    plan: Plan
    wrong: tuple[str, ...] = ()


# -- changes that are legal --------------------------------------------------------------------------------------------


def depth(plan: Plan, lot: random.Random) -> Change:
    """Another D for one ring, and no more in flight than that allows."""
    ring, slots = lot.choice(plan.rings), lot.randint(1, 3)
    return Change(Plan(rings=(RingPlan(ring.name, depth=slots),), loops=(LoopPlan(mma_depth=min(1, slots - 1)),)))


def in_flight(plan: Plan, lot: random.Random) -> Change:
    """Another P for one loop; 0 where it may be that no wgmma can stay in flight."""
    loop = lot.choice(plan.loops)
    most = min(ring.slots for ring in plan.rings) - 1 if loop.mma_depth else 0
    return Change(Plan(loops=(LoopPlan(loop.loop, mma_depth=lot.randint(0, min(most, 2))),)))


def few_stages(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(loops=(LoopPlan(lot.choice(plan.loops).loop, stages=lot.randint(0, 2)),)))


def nothing_kept(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(loops=(LoopPlan(kept=()),)))


def rings_apart(plan: Plan, lot: random.Random) -> Change:
    """Each operand in a ring of its own, as shallow as can be."""
    moved = [it for it in plan.operands if it.ring is not None]
    entries = tuple(OperandPlan(*it.key, ring=f"own{number}") for number, it in enumerate(moved))
    rings = tuple(RingPlan(f"own{number}", depth=1) for number in range(len(moved)))
    return Change(Plan(operands=entries, rings=rings, loops=(LoopPlan(mma_depth=0),)))


def by_registers(plan: Plan, lot: random.Random) -> Change:
    copied = [it for it in plan.operands if it.path == "cp.async"]
    entries = (OperandPlan(*lot.choice(copied).key, path="registers"),) if copied else ()
    return Change(Plan(operands=entries))


def by_consumer(plan: Plan, lot: random.Random) -> Change:
    moved = [it for it in plan.operands if it.ring is not None]
    entries = (OperandPlan(*lot.choice(moved).key, path="consumer"),) if len(moved) > 1 else ()
    return Change(Plan(operands=entries))


def through_pointers(plan: Plan, lot: random.Random) -> Change:
    promoted = [it for it in plan.operands if it.path == "promoted_in_kernel"]
    entries = (OperandPlan(*lot.choice(promoted).key, path="pointers"),) if promoted else ()
    return Change(Plan(operands=entries))


def not_ahead(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(operands=(OperandPlan(hoisted=False, prefetched=False),)))


def stores_wait(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(stores=(StorePlan(staged=False),)))


def early(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(early_puts=lot.randint(0, 3)))


def alone(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(ctas_per_sm=1))


def own_views(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(slot_views="own"))


LEGAL: tuple[Callable[[Plan, random.Random], Change], ...] = (
    depth, in_flight, few_stages, nothing_kept, rings_apart, by_registers, by_consumer, through_pointers, not_ahead,
    stores_wait, early, alone, own_views,
)  # fmt: skip


# -- changes that are not ----------------------------------------------------------------------------------------------


def too_much_in_flight(plan: Plan, lot: random.Random) -> Change:
    ring, loop = lot.choice(plan.rings), lot.choice(plan.loops)
    part = Plan(rings=(RingPlan(ring.name, depth=2),), loops=(LoopPlan(loop.loop, mma_depth=2),))
    argument = next(it.argument for it in plan.operands if it.ring == ring.name)
    return Change(part, ("D >= P + 1", f"loop {loop.loop}", str(argument), "cure: D = 3 or P = 1"))


def no_such_ring(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(rings=(RingPlan("ring77", depth=2),)), ("the Plan has rings {'ring77'", "cure:"))


def no_such_operand(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(operands=(OperandPlan("nobody", 0, prefetched=False),)), ("nobody, loop 0", "cure: one of"))


def no_such_loop(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(loops=(LoopPlan(77, mma_depth=0),)), ("loop 77", "cure:"))


def other_tiles(plan: Plan, lot: random.Random) -> Change:
    ring = lot.choice(plan.rings)
    return Change(Plan(rings=(replace(ring, payload=("i32",)),)), (ring.name, "'i32'", "cure:"))


def other_bytes(plan: Plan, lot: random.Random) -> Change:
    ring = lot.choice(plan.rings)
    line = next(it.line for it in plan.operands if it.ring == ring.name)
    return Change(Plan(rings=(RingPlan(ring.name, slot_bytes=7),)), (ring.name, line, "cure: slot_bytes="))


def odd_registers(plan: Plan, lot: random.Random) -> Change:
    parts = tuple(replace(it, registers=25) for it in plan.partitions)
    return Change(Plan(partitions=parts), ("asks for 25 registers", "cure: a multiple of 8"))


def too_many_registers(plan: Plan, lot: random.Random) -> Change:
    parts = tuple(replace(it, registers=256) for it in plan.partitions)
    return Change(
        Plan(partitions=parts, max_registers=128), ("registers, but a CTA with these warps has", "cure: fewer")
    )


def promoted_descriptor(plan: Plan, lot: random.Random) -> Change:
    """A way that a load cannot take: TMA in the place of pointers for what TMA loads as it is, and the reverse."""
    entry = next(it for it in plan.operands if it.ring is not None)
    other = "cp.async" if entry.path in ("host_descriptor", "kernel_descriptor") else "host_descriptor"
    return Change(
        Plan(operands=(OperandPlan(*entry.key, path=other),)), (str(entry.argument), entry.line, "cure: path=")
    )


def kept_too_far(plan: Plan, lot: random.Random) -> Change:
    loop = lot.choice(plan.loops)
    return Change(Plan(loops=(LoopPlan(loop.loop, kept=(9,)),)), (f"dot 9 of loop {loop.loop}", loop.line, "cure:"))


def tile_ahead(plan: Plan, lot: random.Random) -> Change:
    entry = next(it for it in plan.operands if it.ring is not None)
    wrong = (str(entry.argument), "cure: prefetched=false")
    return Change(Plan(operands=(OperandPlan(*entry.key, prefetched=True),)), wrong)


def crowd(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(ctas_per_sm=9), ("ctas_per_sm=9", "can share an SM", "cure:"))


def five_groups(plan: Plan, lot: random.Random) -> Change:
    return Change(Plan(groups=5), ("groups", "cure:"))


ILLEGAL: tuple[Callable[[Plan, random.Random], Change], ...] = (
    too_much_in_flight, no_such_ring, no_such_operand, no_such_loop, other_tiles, other_bytes, odd_registers,
    too_many_registers, promoted_descriptor, kept_too_far, tile_ahead, crowd, five_groups,
)  # fmt: skip


@simulated_once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", sample(NAMES, 3))
def test_a_legal_plan_is_carried_out_proved_and_gives_the_same_bits(name: str, seed: int) -> None:
    lot = random.Random(f"{name} {seed}")
    plan = Plan()
    for change in _together(lot.sample(LEGAL, lot.randint(1, 3))):
        plan = plan.over(change(own(name), lot).plan)
    again = Plan.from_json(json.dumps(plan.to_dict()))
    assert again == plan
    found, texts = planned(name, plan)
    assert isinstance(found, Specialised), (plan, found.remarks)
    assert passes(found.outcome.verdict), plan
    _check_pinned(plan, found.outcome.plan)
    module = parse_module(texts["barrier"])
    order = lot.choice(ORDERS)
    arrays, wanted = simulated(kernels()[name], module, order), bits(name)
    assert all(arrays[key].tobytes() == wanted[key].tobytes() for key in wanted), (order, plan)
    whole, again_texts = planned(name, found.outcome.plan)
    assert isinstance(whole, Specialised) and whole.outcome.plan == found.outcome.plan
    assert _without_places(again_texts["installed"]) == _without_places(texts["installed"])


def _without_places(text: str) -> str:
    return print_module(parse_module(text), locations=False)


def _together(changes: list[Any]) -> list[Any]:
    """Those of a sample that do not contradict each other: rings of our own are named for all operands of a ring."""
    others = {depth, by_consumer, through_pointers}
    return [it for it in changes if it not in others] if rings_apart in changes else changes


def _check_pinned(asked: Plan, made: Plan) -> None:
    """What was asked for is what was made."""
    for ring in asked.rings:
        assert ring.depth in (None, made.ring(ring.name).depth)
    for entry in asked.operands:
        own = made.operand(entry.key)
        assert entry.argument is None or entry.path in (None, own.path) or entry.path == "pointers"
        assert entry.ring in (None, own.ring)
    for name in ("early_puts", "ctas_per_sm", "slot_views"):
        assert getattr(asked, name) in (None, getattr(made, name)) or name == "slot_views"


@pytest.mark.parametrize("change", ILLEGAL, ids=lambda it: it.__name__)
@pytest.mark.parametrize("name", sample(NAMES, 4))
def test_an_illegal_plan_is_an_error_that_names_what_is_wrong(name: str, change: Any) -> None:
    lot = random.Random(f"{name} {change.__name__}")
    made = change(own(name), lot)
    with pytest.raises(PlanError) as caught:
        planned(name, made.plan)
    for words in made.wrong:
        assert words in str(caught.value), made.plan
