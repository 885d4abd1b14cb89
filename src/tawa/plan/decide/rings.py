"""The decisions about a kernel with layouts: which loads move to the producer, and the rings.

Each function takes the fields that are pinned and decided so far and returns the additional ones. No function changes
the module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tawa.analysis.legality import (
    check_loads,
    check_memory,
    check_module,
    check_producer,
    declined,
    folded_elements,
    taken_apart,
)
from tawa.analysis.memory.provenance import stores_must_not_wait
from tawa.analysis.resources import shared_beside_rings, wgmma_registers
from tawa.analysis.rings.channels import channels_of_groups, find_channels, outer_channels
from tawa.analysis.rings.loads import DotLoadInfo, find_dot_loads, operand_bits
from tawa.dialects.tt import FuncOp
from tawa.errors import PlanError, ResourceError
from tawa.ir import Module, source_of
from tawa.ir.attributes import attribute_of, read_int
from tawa.machine.hopper import SHARED_BYTES
from tawa.plan.cost.budget import Budget, Channels, StockCopies
from tawa.plan.cost.registers import producer_registers
from tawa.plan.decide.loops import loops_with_dots
from tawa.plan.decide.operands import check_sharing, moved_loads, names_in, operands_of, rings_of, stores_of
from tawa.plan.entries import RingPlan
from tawa.plan.legality import check_names, check_plan, check_rings, operand_text
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.planner import choose_plan, reasons
from tawa.plan.profitability import ANYWAY, NOT_EXPECTED, why_not_expected
from tawa.plan.prospect import Prospect
from tawa.remarks import Remark

MAX_REGISTERS = "ttg.maxnreg"
WOULD_DECLINE = "automatic mode would decline"


@dataclass(frozen=True, slots=True)
class Target:
    """The resources of one CTA. num_warps: of one consumer group. num_stages: of the launch.

    groups: the consumer groups that share the tile; the module is then the program of one group.
    stock_copies: how stock Triton loads the tiles.
    launch_warps: the warps of the launch if they are fewer than those of a consumer; else 0 or the same number.
    """

    num_warps: int
    num_stages: int
    shared_bytes: int = SHARED_BYTES
    groups: int = 1
    stock_copies: StockCopies = "tma"
    launch_warps: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """The results of the analyses of a kernel with layouts.

    loads: all loads that feed dots. moved: the loads of the producer, with their fill. channels: the future rings.
    folded: elements of the largest tile that the producer folds.
    """

    loads: tuple[DotLoadInfo, ...]
    moved: tuple[DotLoadInfo, ...]
    channels: Channels
    folded: int = 0


@dataclass(frozen=True, slots=True)
class Decided:
    """A Plan with its rings, the reasons by field, and notes for the user."""

    plan: Plan
    why: dict[str, str]
    notes: tuple[Remark, ...]


def find_facts(module: Module, target: Target, pins: Plan) -> Facts | Remark:
    """The loads to move and their channels, or why the kernel is declined; cheap and general checks come first."""
    refusal = next(iter(check_module(module, target.num_warps)), None)
    if refusal is not None:
        return refusal
    loads = find_dot_loads(module)
    moved = moved_loads(module, loads, pins)
    refusal = next(iter(check_loads(module, moved)), None)
    if refusal is None:
        function = next(op for op in module.body.ops if FuncOp.of(op))
        refusal = next(iter(check_memory(module, moved)), None)
        refusal = refusal or next(iter(check_producer(module, moved, function, target.num_warps)), None)
    if refusal is not None:
        return refusal
    channels = tuple(find_channels(moved, rings_of(moved, pins)))
    check_sharing(module, channels)
    return Facts(tuple(loads), tuple(moved), channels, folded_elements(module, moved))


def decide_rings(
    module: Module,
    facts: Facts,
    options: PlanOptions,
    target: Target,
    pins: Plan,
    asked: Plan,
    pinned: bool,
    prospect: Prospect | None = None,
) -> Decided | Remark:
    """All decisions except those about partitioned loops, or the remark that declines the kernel.

    pins: the Plan so far. asked: the part of it that the user pinned. pinned: whether to raise PlanError or
    ResourceError instead of declining the kernel. prospect: of the kernel before layouts, if that is known.
    """
    pins, options = _with_usual_depth(pins, options)
    asked = replace(asked, rings=_named(asked.rings))
    loads, channels = facts.moved, facts.channels
    loops, stores = loops_with_dots(module), stores_of(module)
    if asked.operands or asked.stores or asked.loops:
        named, stored = names_in(module)
        check_names(asked, named, stored, (it.loop for it in loops if it.loop is not None))
    check_rings(pins, channels, module)
    waits = stores_must_not_wait(module)
    budget = budget_of(module, facts, target)
    place = loads[0].load.op
    try:
        plan = choose_plan(channels, options, budget, not waits, pins, loops, stores)
    except ResourceError as error:
        if any(ring.depth is not None for ring in asked.rings):
            who = "; ".join(operand_text(module, info) for info in loads)
            raise PlanError(f"the Plan does not fit, with rings for {who}: {error}") from error
        if pinned or options.pinned or options.aref_depth is not None:
            raise
        return declined(module, place, str(error))
    for store in plan.stores:
        if store.staged and waits:
            raise PlanError(
                f"the Plan has staged stores ({store.argument}, {store.line}), but this kernel's TMA stores may not be "
                "deferred, because later operations need the completed store; cure: staged=false in the Plan"
            )
    budget = replace(budget, fixed={ring.name: ring.slots for ring in plan.rings}, most_ctas=pins.ctas_per_sm)
    check_plan(plan, pins, channels, module, budget)
    plan = plan.over(operands_of(module, facts.loads, channels, pins))
    notes = tuple(taken_apart(module, list(loads)))  # before the loads move
    if pinned and not options.pinned:
        return Decided(plan, reasons(plan, channels, budget), notes)
    expectation = prospect.expected(plan) if prospect is not None else None
    reason = why_not_expected(module, plan, budget, expectation)
    if reason and not options.wherever_legal and not pinned:
        return declined(module, place, NOT_EXPECTED.format(reason), ANYWAY)
    if reason:
        notes = (Remark("note", f"{WOULD_DECLINE}: {reason}", source_of(module, place)), *notes)
    elif expectation is not None:
        notes = (Remark("note", f"expected to pay: {expectation}"), *notes)
    return Decided(plan, reasons(plan, channels, budget), notes)


def _with_usual_depth(pins: Plan, options: PlanOptions) -> tuple[Plan, PlanOptions]:
    """The pins without the default entry for rings, and options that ask for its D."""
    usual = pins.ring("").depth
    pins = replace(pins, rings=_named(pins.rings))
    return (pins, options) if usual is None else (pins, replace(options, aref_depth=usual))


def _named(rings: Iterable[RingPlan]) -> tuple[RingPlan, ...]:
    return tuple(ring for ring in rings if ring.name)


def budget_of(module: Module, facts: Facts, target: Target) -> Budget:
    """The available resources."""
    loads, channels = list(facts.moved), facts.channels
    limit = attribute_of(module.op.attributes, MAX_REGISTERS)
    return Budget(
        target.num_warps,
        target.num_stages,
        target.shared_bytes,
        shared_beside_rings(module, channels, target.groups),
        wgmma_registers(module, target.num_warps),
        operand_bits(loads),
        read_int(limit) if limit else None,
        target.groups,
        frozenset(channels_of_groups(module, channels)),
        frozenset(outer_channels(channels)),
        producer_registers(loads, module, target.num_warps, target.groups, facts.folded),
        launch_warps=target.launch_warps,
        producer_tiles=facts.folded > 0,
    )


__all__ = ["MAX_REGISTERS", "WOULD_DECLINE", "Decided", "Facts", "Target", "budget_of", "decide_rings", "find_facts"]
