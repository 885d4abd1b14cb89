"""Legality: whether a pinned Plan fits this kernel. A mismatch is a `PlanError` with operand, line and cure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tawa.analysis.layout.producer_layouts import PRODUCER_WARPS
from tawa.analysis.names import Name, name_of, name_text
from tawa.analysis.rings.channels import ChannelInfo
from tawa.analysis.rings.handed_stores import why_not_handed
from tawa.analysis.rings.loads import DotLoadInfo
from tawa.declines import FEW_REGISTERS
from tawa.dialects.tt import FuncOp, tma_store
from tawa.errors import PlanError
from tawa.ir import Module, source_of
from tawa.machine.nvidia import LEAST_REGISTERS, MAX_REGISTERS, REGISTER_STEP, REGISTERS, WARP, WARP_GROUP
from tawa.plan.cost.budget import Budget, by_tma_only
from tawa.plan.cost.registers import consumer_registers, entry_registers, registers_of_an_sm
from tawa.plan.decision import declared
from tawa.plan.defaults import CONVERTER_WARPS
from tawa.plan.fields import LaunchPlan, LoopPlan, OperandPlan, StorePlan
from tawa.plan.plan import Plan
from tawa.remarks import Remark, SourceLocation

_OWN = "start from the kernel's own Plan"
_REGISTERS = "a multiple of 8 from 24 to 256"


def operand_text(module: Module, load: DotLoadInfo) -> str:
    """An operand in words: argument, loop, and the line of the load."""
    where = source_of(module, load.load.op)
    return f"{name_text(name_of(load.load.op))}" + (f" ({where})" if where else "")


def check_stores(stores: Iterable[StorePlan], waits: bool) -> None:
    """Raises PlanError unless every store can be staged, and sliced, as it says.

    waits: whether later operations of the kernel need the completed stores.
    """
    for store in stores:
        who, (slices, buffers) = f"{name_text(store.key)} ({store.line})", store.of_slices
        if store.staged and waits:
            raise PlanError(
                f"the Plan has staged stores ({store.argument}, {store.line}), but this kernel's TMA stores may not be "
                "deferred, because later operations need the completed store; cure: staged=false in the Plan"
            )
        if slices > 1 and not store.staged:
            raise PlanError(f"the Plan stores {who} in {slices} slices, but it is not staged; cure: slices=1")
        if store.store_warp and (slices > 1 or not store.staged):
            raise PlanError(f"the Plan gives {who} to a store warp, but not in one staged piece; cure: slices=1")
        if buffers > slices and not store.store_warp:
            raise PlanError(f"the Plan has {buffers} buffers for {slices} slices of {who}; cure: buffers={slices}")


def why_kept(module: Module) -> dict[Name, str]:
    """By TMA store, why a warp of its own cannot issue it; empty if it can."""
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    stores = [view for op in module.walk() if (view := tma_store(op))]
    return {name_of(view.op): why_not_handed(function, view) for view in stores}


def check_store_warp(plan: Plan, module: Module) -> None:
    """Raises PlanError if the Plan gives a store to a warp of its own that cannot issue it."""
    for name, reason in why_kept(module).items():
        store = plan.store(name)
        if store.store_warp and reason:
            where = f"{name_text(name)} ({store.line})"
            raise PlanError(f"the Plan gives {where} to a store warp, but {reason}; cure: store_warp=false")


def check_rings(pins: Plan, channels: Sequence[ChannelInfo], module: Module) -> None:
    """Raises PlanError unless the pinned rings are rings of this kernel with the same payload."""
    found = {channel.name: channel for channel in channels}
    expected = {channel.name: channel.payload for channel in channels}
    given = {ring.name: ring.payload for ring in pins.rings}
    if any(name not in expected or (payload and payload != expected[name]) for name, payload in given.items()):
        raise PlanError(f"the Plan has rings {given}, the kernel has {expected}; cure: {_OWN}")
    for ring in pins.rings:
        channel = found[ring.name]
        who = "; ".join(operand_text(module, info) for site in channel.sites for info in site.loads)
        if ring.fill is not None and ring.fill != channel.fill:
            raise PlanError(
                f"the Plan fills {ring.name} by {ring.fill}, but the kernel's loads use {channel.fill}: {who}; "
                f"cure: fill={channel.fill!r}"
            )
        if ring.slot_bytes is not None and ring.slot_bytes != channel.slot_bytes:
            raise PlanError(
                f"the Plan has slots of {ring.slot_bytes} bytes in {ring.name}, the kernel has {channel.slot_bytes}: "
                f"{who}; cure: slot_bytes={channel.slot_bytes}"
            )
        if ring.depth == 0:
            raise PlanError(f"D = 0 in {ring.name}: {who}; cure: D of at least 1")


_OF_ANY_LOAD = ("loop", "ordinal", "prefetched")
_OF_NO_PARTITION = ("form", "groups", "unrolled", "num_warps")


def check_unpartitioned(plan: Plan) -> None:
    """Raises PlanError if a Plan of a kernel without partitions has decisions about partitions."""
    found = {it.name: getattr(plan, it.name) for it in declared(Plan) if it.name not in _OF_NO_PARTITION}
    said = [f"{name}={value!r}" for name, value in found.items() if value is not None]
    said += [f"groups={plan.groups}"] if (plan.groups or 1) > 1 else []
    said += [name for name in ("partitions", "stores", "rings") if getattr(plan, name)]
    for load in plan.operands:
        known = {it.name: getattr(load, it.name) for it in declared(OperandPlan) if it.name not in _OF_ANY_LOAD}
        known["path"] = load.path if load.path != "consumer" else None
        said += [f"{name}={value!r} of {load.argument}" for name, value in known.items() if value is not None]
    for loop in plan.loops:
        known = {it.name: getattr(loop, it.name) for it in declared(LoopPlan) if it.name != "loop"}
        said += [f"{name}={value!r} of loop {loop.loop}" for name, value in known.items() if value is not None]
    if said:
        raise PlanError(
            f"the Plan has {said[0]}, which a kernel with form='unpartitioned' has no use for; cure: leave it out"
        )


def check_plan(plan: Plan, pins: Plan, channels: Sequence[ChannelInfo], module: Module, budget: Budget) -> None:
    """Raises PlanError unless the complete Plan, pinned fields included, can be carried out for this kernel."""
    groups, num_warps = budget.groups, budget.num_warps
    if plan.unrolled:
        raise PlanError("unrolled=True in a Plan with partitions; cure: form='unpartitioned', or leave it out")
    if plan.num_warps is not None:
        raise PlanError(
            f"num_warps={plan.num_warps} in a Plan with partitions, which have warps each; "
            "cure: form='unpartitioned', or leave it out"
        )
    if plan.form == "stock":
        raise PlanError("form='stock' in a Plan of a specialised kernel; cure: 'as_written' or 'persistent'")
    if plan.groups != groups:
        raise PlanError(
            f"the Plan has {plan.groups} consumer groups, the kernel is compiled for {groups}; cure: groups={groups}"
        )
    if plan.max_registers and (plan.max_registers % 8 or not 24 <= plan.max_registers <= 256):
        raise PlanError(f"max_registers={plan.max_registers}; cure: {_REGISTERS}, or 0 for no cap")
    _check_cap(plan, budget)
    _check_partitions(plan, channels, groups, num_warps, budget.producer_tiles)
    if plan.ctas_per_sm != budget.ctas(tuple(channels), max(ring.slots for ring in plan.rings)) and pins.ctas_per_sm:
        fits = budget.ctas(tuple(channels), max(ring.slots for ring in plan.rings))
        raise PlanError(
            f"ctas_per_sm={plan.ctas_per_sm}: with these rings and accumulators {fits} can share an SM; "
            f"cure: fewer slots, or ctas_per_sm={fits}"
        )
    own = {ring.name: budget.copies(channel) for ring, channel in zip(plan.rings, channels, strict=True)}
    for ring in plan.rings:
        if ring.copies != own[ring.name]:
            raise PlanError(f"the Plan has {ring.copies} copies of {ring.name}; cure: copies={own[ring.name]}")
    _check_depths(plan, channels, module)


def too_few_registers(budget: Budget, place: SourceLocation | None) -> Remark | None:
    """Declines a kernel if ``maxnreg`` of its launch leaves too few registers to a partition; None if it does not."""
    limit, warps, producer = budget.max_registers, budget.consumer_warps, budget.producer_registers

    def suffices(most: int) -> bool:
        return min(entry_registers(warps, most), consumer_registers(warps, most, producer)) >= LEAST_REGISTERS

    if limit is None or (limit >= LEAST_REGISTERS and suffices(limit)):
        return None
    least = next(most for most in range(LEAST_REGISTERS, MAX_REGISTERS + 1, REGISTER_STEP) if suffices(most))
    return FEW_REGISTERS.remark(place, limit=limit, least=LEAST_REGISTERS, enough=least)


def _check_cap(plan: Plan, budget: Budget) -> None:
    """Raises PlanError if no GPU can launch a CTA with the Plan's cap, or the launch allows fewer registers."""
    warps, limit = budget.consumer_warps, budget.max_registers
    cap, most = plan.max_registers or entry_registers(warps), entry_registers(warps, limit)
    if cap <= most:
        return
    if limit is not None and cap > limit:
        raise PlanError(
            f"max_registers={plan.max_registers} in the Plan is {cap} registers per thread at kernel entry, but the "
            f"launch has maxnreg={limit}; cure: max_registers={most} in the Plan, or a launch without maxnreg"
        )
    threads = (warps + WARP_GROUP) * WARP
    raise PlanError(
        f"max_registers={plan.max_registers}: {threads} threads, the producer's included, need {cap * threads} "
        f"registers, and an SM has {REGISTERS}; cure: max_registers={most} or less"
    )


def _check_partitions(plan: Plan, channels: Sequence[ChannelInfo], groups: int, num_warps: int, tiles: bool) -> None:
    roles = sorted(part.role for part in plan.partitions)
    converters = ["converter"] if any(channel.converted for channel in channels) else []
    issues = [part.role for part in plan.partitions if part.role == "mma"][:1]
    issues += ["storer"] if any(it.store_warp for it in plan.stores) else []
    issues += ["correction"] * groups if plan.correction else []
    if roles != sorted(["consumer"] * groups + converters + issues + ["producer"]):
        consumers = "one consumer" if groups == 1 else f"{groups} consumers"
        others = "one producer, one converter" if converters else "one producer"
        raise PlanError(f"the Plan has partitions {roles}; cure: {others} and {consumers}")
    names = [part.name for part in plan.partitions]
    if len(set(names)) < len(names):
        raise PlanError(f"the Plan has partitions named {', '.join(names)}; cure: a different name for each")
    for part in plan.partitions:
        if part.role in ("consumer", "correction") and part.num_warps != num_warps:
            raise PlanError(
                f"{part.role} {part.name!r} has {part.num_warps} warps, the kernel num_warps={num_warps}; "
                f"cure: num_warps={num_warps} in the Plan, or launch with num_warps={part.num_warps}"
            )
        if part.role == "producer" and part.num_warps not in (1, 2, 4):
            raise PlanError(f"producer {part.name!r} has {part.num_warps} warps; cure: 1 (a TMA copy needs one thread)")
        if part.role == "producer" and part.num_warps != PRODUCER_WARPS and (tiles or not by_tma_only(tuple(channels))):
            raise PlanError(
                f"producer {part.name!r} has {part.num_warps} warps, but computes on tiles; cure: {PRODUCER_WARPS}"
            )
        if part.role == "storer" and part.num_warps != 1:
            raise PlanError(f"storer {part.name!r} has {part.num_warps} warps; cure: 1 (a TMA store needs one thread)")
        if "storer" in roles and part.role == "producer" and part.num_warps == PRODUCER_WARPS:
            raise PlanError(
                f"producer {part.name!r} has {PRODUCER_WARPS} warps and leaves none of its warp group to a storer; "
                "cure: store_warp=false, or one warp if TMA fills all rings"
            )
        if converters and part.role == "producer" and part.num_warps == PRODUCER_WARPS:
            raise PlanError(
                f"producer {part.name!r} has {PRODUCER_WARPS} warps and leaves none of its warp group to a converter; "
                "cure: transposed='registers', or one warp if TMA fills all rings"
            )
        if part.role == "converter" and part.num_warps != CONVERTER_WARPS:
            raise PlanError(f"converter {part.name!r} has {part.num_warps} warps; cure: {CONVERTER_WARPS}")
        if part.registers and (part.registers % 8 or not 24 <= part.registers <= 256):
            raise PlanError(f"partition {part.name!r} asks for {part.registers} registers; cure: {_REGISTERS}")
    asked = [(part.num_warps, part.registers) for part in plan.partitions if part.registers]
    needed, room = registers_of_an_sm(asked, plan.max_registers or None)
    if len(asked) == len(plan.partitions) and needed > room:
        raise PlanError(
            f"the partitions ask for {needed} registers, but a CTA with these warps has {room}; "
            "cure: fewer registers for a partition"
        )


def _check_depths(plan: Plan, channels: Sequence[ChannelInfo], module: Module) -> None:
    shallow, channel = min(zip(plan.rings, channels, strict=True), key=lambda it: it[0].slots)
    who = "; ".join(operand_text(module, info) for site in channel.sites for info in site.loads)
    for loop in plan.loops:
        if loop.mma_depth and shallow.slots < loop.mma_depth + 1:
            where = f" ({loop.line})" if loop.line else ""
            raise PlanError(
                f"P = {loop.mma_depth} with a ring of D = {shallow.slots}: P iterations in flight need D >= P + 1; "
                f"loop {loop.loop}{where}, {shallow.name}: {who}; "
                f"cure: D = {loop.mma_depth + 1} or P = {shallow.slots - 1}"
            )


def check_names(pins: Plan, loads: Iterable[Name], stores: Iterable[Name], loops: Iterable[int]) -> None:
    """Raises PlanError unless the kernel has the loads, stores and loops that the Plan names."""
    for what, given, known in (
        ("load", [it.key for it in pins.operands], list(loads)),
        ("store", [it.key for it in pins.stores], list(stores)),
    ):
        for name in given:
            if name[0] is not None and name not in known:
                has = "; ".join(name_text(it) for it in known) or "none"
                raise PlanError(
                    f"the Plan names a {what} that the kernel does not have: {name_text(name)}; cure: one of {has}"
                )
    numbers = sorted(loops)
    for loop in pins.loops:
        if loop.loop is not None and loop.loop not in numbers:
            raise PlanError(f"the Plan names loop {loop.loop}; the kernel has loops with dots {numbers}; cure: {_OWN}")


def check_met(plan: Plan, pins: Plan, launched: bool = True) -> None:
    """Raises PlanError if the final Plan does not have a pinned value that could not be checked earlier.

    launched: whether Triton launches the kernel; otherwise the fields of `launches` have no effect.
    """
    for loop in pins.loops:
        got = plan.loop(loop.loop).mma_depth
        if loop.loop is not None and loop.schedule is None and loop.mma_depth not in (None, got):
            where = f" ({line})" if (line := plan.loop(loop.loop).line) else ""
            raise PlanError(
                f"the Plan has P = {loop.mma_depth} in loop {loop.loop}{where}, but no wgmma of this loop can stay "
                f"in flight across iterations; cure: mma_depth={got}"
            )
    asked, found = pins.launches or LaunchPlan(), plan.launches or LaunchPlan()
    for name, why in _LAUNCHES.items() if launched else ():
        want, has = getattr(asked, name), getattr(found, name)
        if want not in (None, has):
            raise PlanError(f"the Plan has {name}={want!r} in launches: {why}; cure: {name}={has!r}")


_LAUNCHES = {"choice": "there is no other form of this kernel that launches may get"}
