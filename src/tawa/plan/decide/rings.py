"""The decisions about a kernel with layouts: which loads move to the producer, and the rings.

Each function takes the fields that are pinned and decided so far and returns the additional ones. No function changes
the module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from tawa.analysis.legality import (
    ProducerInfo,
    check_loads,
    check_memory,
    check_module,
    check_producer,
    find_producer,
    taken_apart,
)
from tawa.analysis.loops.corrections import CorrectionInfo, find_correction
from tawa.analysis.memory.provenance import stores_must_not_wait
from tawa.analysis.names import name_of
from tawa.analysis.resources import shared_beside_rings, wgmma_registers
from tawa.analysis.rings.channels import channels_of_groups, find_channels, outer_channels
from tawa.analysis.rings.loads import DotLoadInfo, find_dot_loads
from tawa.analysis.rings.sent_numbers import NUMBER_PAYLOAD, SLOT_BYTES, SentInfo
from tawa.declines import no_space, not_expected
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tcgen05 import ACCUMULATOR
from tawa.errors import PlanError, ResourceError
from tawa.ir import Module, TensorType, parse_type, source_of
from tawa.ir.attributes import attribute_of, read_int
from tawa.machine.machines import SM_90, Machine
from tawa.machine.nvidia import SHARED_BYTES, WARP
from tawa.plan.cost.budget import Budget, Channels, StockCopies
from tawa.plan.cost.registers import consumer_registers, producer_registers
from tawa.plan.decide.loops import kept_dots, loops_with_dots
from tawa.plan.decide.operands import (
    check_carried,
    check_sharing,
    moved_loads,
    names_in,
    operands_of,
    rings_of,
    stores_of,
    with_depths,
)
from tawa.plan.decide.slices import WHY as WHY_SLICED
from tawa.plan.decide.slices import sliced
from tawa.plan.decide.transposed import transposed_loads
from tawa.plan.defaults import WORKING_REGISTERS
from tawa.plan.fields import FACTOR_RING, RingPlan, StorePlan
from tawa.plan.legality import (
    check_names,
    check_plan,
    check_rings,
    check_store_warp,
    check_stores,
    operand_text,
    too_few_registers,
    why_kept,
)
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.planner import Counts, complete, reasons
from tawa.plan.search.prediction import EXPECTED, anyway, why_not_expected
from tawa.plan.search.space import Space
from tawa.remarks import Remark

MAX_REGISTERS = "ttg.maxnreg"
NUMBER_SLOTS = 2
"""Slots of a ring of numbers: the producer may be one number ahead of those that the consumers use."""
WHY_TWO = "the producer may be one number ahead"
FACTOR_SLOTS = 2
"""Slots of a ring of vectors: the threads that compute one do not wait until the one before it has been used."""
WHY_TWO_FACTORS = "the consumer computes the next one while this one is used"
WOULD_DECLINE = "automatic mode would decline"
_NOTHING = Plan()


@dataclass(frozen=True, slots=True)
class Target:
    """The resources of one CTA. num_warps: of one consumer group. num_stages: of the launch.

    groups: the consumer groups that share the tile; the module is then the program of one group.
    stock_copies: how stock Triton loads the tiles.
    launch_warps: the warps of the launch if they are fewer than those of a consumer; else 0 or the same number.
    spills: whether stock Triton's kernel spills; it is only asked where there are no partitions.
    machine: that the kernel is compiled for.
    """

    num_warps: int
    num_stages: int
    shared_bytes: int = SHARED_BYTES
    groups: int = 1
    stock_copies: StockCopies = "tma"
    launch_warps: int = 0
    spills: bool = False
    machine: Machine = SM_90


@dataclass(frozen=True, slots=True)
class Facts:
    """The results of the analyses of a kernel with layouts.

    loads: all loads that feed dots. moved: the loads of the producer, with their fill. channels: the future rings.
    producer: of the moved loads.
    """

    loads: tuple[DotLoadInfo, ...]
    moved: tuple[DotLoadInfo, ...]
    channels: Channels
    producer: ProducerInfo


@dataclass(frozen=True, slots=True)
class Decided:
    """A Plan with its rings, the reasons by field, and notes for the user."""

    plan: Plan
    why: dict[str, str]
    notes: tuple[Remark, ...]


def find_facts(module: Module, target: Target, pins: Plan, options: PlanOptions | None = None) -> Facts | Remark:
    """Finds the loads to move and their channels. A Remark is the reason that the kernel is declined.

    Cheap and general checks come first.

    Raises PlanError if the pinned Plan asks for what a load cannot have.
    """
    refusal = next(iter(check_module(module, target.num_warps)), None)
    if refusal is not None:
        return refusal
    loads = find_dot_loads(module)
    moved = moved_loads(module, loads, pins)
    refusal = next(iter(check_loads(module, moved)), None)
    if refusal is not None:
        return refusal
    producer = find_producer(module, moved)
    refusal = next(iter(check_memory(producer)), None) or next(iter(check_producer(producer, target.num_warps)), None)
    if refusal is not None:
        return refusal
    moved = transposed_loads(module, moved, pins, options or PlanOptions(), target.groups)
    channels = tuple(find_channels(moved, rings_of(moved, pins), target.groups))
    check_sharing(module, channels)
    return Facts(tuple(loads), tuple(moved), channels, producer)


def decide_rings(
    module: Module,
    facts: Facts,
    options: PlanOptions,
    target: Target,
    pins: Plan,
    asked: Plan,
    pinned: bool,
    space: Space | None = None,
) -> Decided | Remark:
    """All decisions except those about partitioned loops, or the remark that declines the kernel.

    pins: the Plan so far. asked: the part of it that the user pinned. pinned: whether to raise PlanError or
    ResourceError instead of declining the kernel. space: of the kernel before layouts, if that is known.
    """
    pins, options = _with_usual_depth(pins, options)
    pins, asked = (with_depths(module, facts.channels, it) for it in (pins, replace(asked, rings=_named(asked.rings))))
    numbers, pins = _number_rings(facts.producer.sent, pins)
    asked = _without(asked, numbers)
    pins, asked = _of_loads(target, pins), _of_loads(target, asked)
    loads, channels = facts.moved, facts.channels
    check_carried(module, channels, asked)
    loops, stores = loops_with_dots(module), _handed(module, stores_of(module), pins)
    if asked.operands or asked.stores or asked.loops:
        named, stored = names_in(module)
        check_names(asked, named, stored, (it.loop for it in loops if it.loop is not None))
    correction = _correction(module, facts, target, pins)
    pins = replace(pins, correction=_corrected(module, target, pins, correction))
    correction = correction if pins.correction else None
    factors, pins = _factor_rings(correction, target.groups, pins)
    asked = _without(asked, factors)
    check_rings(pins, channels, module)
    waits = stores_must_not_wait(module)

    def available(plan: Plan) -> Budget:
        return budget_of(module, facts, target, plan, correction, factors)

    if not waits and options.aref_depth is None and not any(it.depth for it in pins.rings):
        pins = sliced(module, pins, channels, lambda plan: available(plan).deepest(channels))
    budget = available(pins)
    place = loads[0].load.op
    few = too_few_registers(budget, source_of(module, place))
    if few:
        if pinned or options.pinned:
            raise ResourceError(f"{few.reason}; cure: {few.cure}")
        return few
    try:
        plan = complete(pins, Counts(channels, budget, not waits, tuple(loops), tuple(stores)), options)
    except ResourceError as error:
        if any(ring.depth is not None for ring in asked.rings):
            who = "; ".join(operand_text(module, info) for info in loads)
            raise PlanError(f"the Plan does not fit, with rings for {who}: {error}") from error
        if pinned or options.pinned or options.aref_depth is not None:
            raise
        return no_space(str(error), source_of(module, place))
    check_stores(plan.stores, waits)
    check_store_warp(plan, module)
    why = reasons(plan, channels, budget, pins)
    why |= _why_deep(numbers, WHY_TWO) | _why_deep(factors, WHY_TWO_FACTORS)
    budget = replace(budget, fixed={ring.name: ring.slots for ring in plan.rings}, most_ctas=pins.ctas_per_sm)
    check_plan(plan, pins, channels, module, budget)
    plan = plan.over(operands_of(module, facts.loads, channels, pins))
    if any((it.slices or 1) > 1 and asked.store(it.key).slices is None for it in plan.stores):
        why["stores"] = f"{why['stores']}; {WHY_SLICED}"
    plan = replace(plan, rings=(*plan.rings, *numbers, *factors))
    notes = tuple(taken_apart(facts.producer, list(loads)))  # before the loads move
    if pinned and not options.pinned:
        return Decided(plan, why, notes)
    expectation = space.expected(plan) if space is not None else None
    reason = why_not_expected(module, plan, budget, expectation)
    if reason and not options.wherever_legal and not pinned:
        return not_expected(reason, source_of(module, place), anyway(expectation))
    if reason:
        notes = (Remark("note", f"{WOULD_DECLINE}: {reason}", source_of(module, place)), *notes)
    elif expectation is not None:
        notes = (Remark("note", f"{EXPECTED}{expectation}"), *notes)
    return Decided(plan, why, notes)


def _correction(module: Module, facts: Facts, target: Target, pins: Plan) -> CorrectionInfo | None:
    """The accumulators that a partition of its own may rewrite. Raises PlanError if it is pinned, and not possible."""
    if target.machine.dot.accumulator != "tensor memory":
        found = "accumulators of this machine are in registers"
    else:
        found = find_correction(module, [it.load.op for it in facts.moved])
    if not isinstance(found, str):
        return found
    if pins.correction:
        raise PlanError(f"the Plan has correction=True: {found}; cure: leave it out")
    return None


def _corrected(module: Module, target: Target, pins: Plan, correction: CorrectionInfo | None) -> bool | None:
    """Whether a partition of its own rewrites accumulators; None if the kernel has none that one could rewrite.

    The simulator's clock finds it faster (`bench/results/blackwell.json`), but knows of no spills: so each thread must
    have the registers for its part of an accumulator.
    """
    if correction is None or pins.correction is not None:
        return pins.correction
    threads = target.num_warps * WARP
    tiles = [parse_type(op.result.type) for op in module.walk() if ACCUMULATOR in op.attributes]
    held = max(math.prod(it.shape) // threads for it in tiles if isinstance(it, TensorType))
    return consumer_registers(2 * target.num_warps * target.groups) >= held + WORKING_REGISTERS


def _factor_rings(correction: CorrectionInfo | None, groups: int, pins: Plan) -> tuple[tuple[RingPlan, ...], Plan]:
    """The rings of the vectors that consumers send, and the pins for the other rings.

    Raises PlanError for a pinned value that such a ring cannot have.
    """
    slots = correction.slots() if correction is not None else []
    own = (
        RingPlan(f"{FACTOR_RING}{number}", (str(slot),), FACTOR_SLOTS, slot.bytes, groups, "threads")
        for number, slot in enumerate(slots)
    )
    rings = tuple(_pinned(ring, pins) for ring in own)
    return rings, _without(pins, rings)


def _handed(module: Module, stores: Iterable[StorePlan], pins: Plan) -> list[StorePlan]:
    """The stores, undecided but for those that a warp of its own had better issue.

    Groups that exchange tiles in a loop wait for each other: one that waits for its store stops the other one as well.
    """
    kept = why_kept(module) if pins.exchange else {}
    return [replace(it, store_warp=True) if it.loop is not None and kept.get(it.key) == "" else it for it in stores]


def _number_rings(sent: SentInfo, pins: Plan) -> tuple[tuple[RingPlan, ...], Plan]:
    """The rings of the numbers that the producer sends, and the pins for the other rings.

    Raises PlanError for a pinned value that such a ring cannot have.
    """
    own = (RingPlan(name, (NUMBER_PAYLOAD,), NUMBER_SLOTS, SLOT_BYTES, 1, "number") for name in sent.names)
    rings = tuple(_pinned(ring, pins) for ring in own)
    return rings, _without(pins, rings)


def _pinned(own: RingPlan, pins: Plan) -> RingPlan:
    """A ring of what partitions send each other, with D as pinned.

    Raises PlanError for a pinned value that it cannot have.
    """
    name, pinned = own.name, pins.ring(own.name)
    if pinned.depth == 0 or (pinned.depth or 0) * (own.slot_bytes or 0) > SHARED_BYTES:
        raise PlanError(f"D = {pinned.depth} in {name}; cure: D of at least 1, or {own.depth} as usual")
    ring = replace(own, depth=pinned.depth or own.depth)
    for it in fields(RingPlan):
        asked = getattr(pinned, it.name)
        if asked not in (None, (), getattr(ring, it.name)):
            expected = getattr(ring, it.name)
            raise PlanError(f"the Plan has {it.name}={asked!r} in {name}; cure: {it.name}={expected!r}")
    return ring


def _without(pins: Plan, rings: Iterable[RingPlan]) -> Plan:
    names = {it.name for it in rings}
    return replace(pins, rings=tuple(it for it in pins.rings if it.name not in names))


def _why_deep(rings: Iterable[RingPlan], why: str) -> dict[str, str]:
    return {f"rings.{it.name}.depth": why for it in rings}


def _of_loads(target: Target, pins: Plan) -> Plan:
    """The pins without those for rings in tensor memory, which are known only with the accumulators (`hand_over`)."""
    if target.machine.dot.accumulator != "tensor memory":
        return pins
    return replace(pins, rings=tuple(it for it in pins.rings if not it.is_exchanged))


def _with_usual_depth(pins: Plan, options: PlanOptions) -> tuple[Plan, PlanOptions]:
    """The pins without the default entry for rings, and options that ask for its D."""
    usual = pins.ring("").depth
    pins = replace(pins, rings=_named(pins.rings))
    return (pins, options) if usual is None else (pins, replace(options, aref_depth=usual))


def _named(rings: Iterable[RingPlan]) -> tuple[RingPlan, ...]:
    return tuple(ring for ring in rings if ring.name)


def budget_of(
    module: Module, facts: Facts, target: Target, pins: Plan = _NOTHING, correction: CorrectionInfo | None = None,
    factors: Iterable[RingPlan] = (),
) -> Budget:  # fmt: skip
    """The available resources. pins: the Plan so far, which may store tiles in slices.

    correction: what a partition of its own computes. factors: the rings of what it is sent.
    """
    loads, channels = list(facts.moved), facts.channels
    asked = attribute_of(module.op.attributes, MAX_REGISTERS)
    limit = read_int(asked) if asked else None
    return Budget(
        target.num_warps,
        target.num_stages,
        target.shared_bytes,
        shared_beside_rings(
            module,
            channels,
            target.groups,
            lambda op: pins.store(name_of(op)).of_slices,
            kept_dots(module.op, target.num_warps, pins),
            frozenset(correction.ops) if correction is not None else (),
        ).with_beside(sum(it.total_bytes for it in factors)),
        wgmma_registers(module, target.num_warps),
        limit,
        pins.max_registers,
        target.groups,
        frozenset(channels_of_groups(module, channels)),
        frozenset(outer_channels(channels)),
        producer_registers(loads, module, target.num_warps, target.groups, facts.producer.folded, limit),
        launch_warps=target.launch_warps,
        one_issues=any(ACCUMULATOR in op.attributes for op in module.walk()),
        corrected=correction is not None,
        producer_tiles=facts.producer.folded > 0,
        straight=not any(enclosing_loops(info.load.op)[1:] for info in loads),
    )
