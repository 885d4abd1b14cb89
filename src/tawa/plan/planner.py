"""The planner: makes the decisions that a Plan leaves open, from the analyses and the user's options.

D    as requested; else num_stages, at least 3, and more for small slots, unless that reduces the CTAs per SM. Never
     more slots than a program fills, if that is known. If rings of equal depth do not fit, the rings that are filled
     outside the innermost loops have one slot.
P    as requested; else 1 if D allows it: one iteration of wgmmas in flight hides the latency of releasing a slot. 0 if
     several CTAs share an SM and have few slots or computed operands: the other CTAs keep the tensor cores busy, and
     slots are released one iteration earlier (bench/results/ablation.json).
ping-pong  as requested; else off: groups without ping-pong drift apart on their own.
producer  one warp if TMA fills all rings; four if it computes on tiles of addresses.
converter two warps beside the producer's, if a Plan asks for a tile that is transposed between two rings.
CTAs per SM  as many as fit; one of a persistent kernel, unless its dots are in no loop but that over tiles: each of its
     programs waits for every dot, and others use the SM meanwhile.
registers  24 for a producer that only issues TMA copies, more for one with tiles of addresses; `setmaxnreg` gives the
     rest to the consumer. A cap at kernel entry lets as many CTAs share an SM as shared memory allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tawa.analysis.layout.producer_layouts import PRODUCER_WARPS
from tawa.errors import PlanError, ResourceError
from tawa.plan.cost.budget import DEEPEST, Budget, Rings, by_tma_only
from tawa.plan.cost.registers import consumer_registers, entry_registers
from tawa.plan.defaults import (
    AMPLE_SLOTS,
    BYTES_IN_FLIGHT,
    CONVERTED_SLOTS,
    CONVERTER_WARPS,
    DEFAULT_DEPTH,
    DEFAULT_MMA_DEPTH,
    EARLY_PUTS,
    MOST_CTAS,
    MOST_SLOTS,
)
from tawa.plan.fields import UNCAPPED, LoopPlan, PartitionPlan, PartitionRole, RingPlan, StorePlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan

IN_FLIGHT = "one iteration of wgmmas in flight hides the release of a slot"

ALONE = (
    "ping-pong needs two consumer groups that alternate on the tensor cores, and this kernel has one; "
    "cure: num_consumer_groups=2 with 8 warps, or ping_pong=False"
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a Plan is completed from: known exactly of a kernel with layouts, estimated before.

    rings: the future rings. budget: the resources for them. may_wait: whether stores may complete later. loops, stores:
    the kernel's loops and stores, undecided.
    """

    rings: Rings
    budget: Budget
    may_wait: bool = True
    loops: tuple[LoopPlan, ...] = (LoopPlan(0),)
    stores: tuple[StorePlan, ...] = ()


def complete(pins: Plan, counts: Counts, options: PlanOptions) -> Plan:
    """A Plan that has the fields of `pins`, meets `options`, and fits the budget.

    Raises ResourceError if no depth, or not the pinned depth, fits; PlanError if a request is impossible.
    """
    channels = counts.rings
    budget = _pinned(counts.budget, pins)
    asked = [it.mma_depth for it in pins.loops if it.mma_depth is not None]
    budget, depth, usual = _choose_depths(channels, options, budget, max(asked, default=None))
    depths = budget.depths(channels, depth)
    ctas, cap = budget.shared_by(channels, depth)
    ping_pong = options.ping_pong is True if pins.ping_pong is None else pins.ping_pong
    if ping_pong and budget.groups < 2:
        raise PlanError(f"{'ping_pong=True' if options.ping_pong else 'the Plan has ping_pong'}: {ALONE}")
    if usual > min(depths) - 1 and not asked and not budget.one_issues:  # else no partition waits for a count of dots
        fits = budget.deepest(channels)
        raise PlanError(
            f"mma_depth={usual} with {min(depths)} slots a ring: P iterations in flight need D >= P + 1; "
            f"cure: mma_depth={min(depths) - 1}" + (f" or aref_depth={usual + 1}" if fits > usual else "")
        )
    if pins.early_puts and _chained(pins):
        why = "loops that take several iterations at a time begin with the partitions"
        raise PlanError(f"the Plan has early_puts, and a chain: {why}; cure: early_puts=0")
    by_tma = by_tma_only(channels) and not budget.producer_tiles
    converts = any(channel.converted for channel in channels)
    stores = tuple(_store(pins, it, counts.may_wait) for it in counts.stores)
    decided = Plan(
        form="as_written",
        groups=budget.groups,
        partitions=_partitions(budget, cap, by_tma, converts, stores, pins.partitions),
        max_registers=UNCAPPED if cap is None else cap,
        ctas_per_sm=ctas,
        loops=tuple(_loop(pins, it, usual) for it in counts.loops),
        stores=stores,
        rings=tuple(
            RingPlan(channel.name, channel.payload, slots, channel.slot_bytes, budget.copies(channel), channel.fill)
            for channel, slots in zip(channels, depths, strict=True)
        ),
        early_puts=min(EARLY_PUTS, *depths) if by_tma and not budget.one_issues and not _chained(pins) else 0,
        ping_pong=ping_pong,
    )
    return replace(pins, partitions=(), loops=(), stores=()).over(decided)


def _pinned(budget: Budget, pins: Plan) -> Budget:
    """The budget with the pinned depths, and the CTAs that are wanted."""
    fixed = {ring.name: ring.depth for ring in pins.rings if ring.depth is not None}
    usual = budget.most_ctas
    if pins.form == "persistent":  # a loop with dots in flight keeps the SM busy alone
        usual = MOST_CTAS if budget.straight else 1
    return replace(budget, fixed=fixed, most_ctas=pins.ctas_per_sm or usual)


def reasons(plan: Plan, channels: Rings, budget: Budget, pins: Plan | None = None) -> dict[str, str]:
    """The reasons for the planner's decisions, by field. budget, pins: those of `complete`."""
    found: dict[str, str] = {}
    budget = _pinned(budget, pins or Plan()).with_in_flight(plan.mma_depth)
    for ring, channel in zip(plan.rings, channels, strict=True):
        fills = channel.fills
        if channel.converted:
            found[f"rings.{ring.name}.depth"] = "one slot is read while the converter fills the other"
        elif ring.name in budget.outer:
            found[f"rings.{ring.name}.depth"] = "filled once per tile, outside the innermost loops"
        elif fills is not None and ring.depth == fills:
            found[f"rings.{ring.name}.depth"] = f"a program fills only {fills} slot{'s' * (fills != 1)}"
        else:
            found[f"rings.{ring.name}.depth"] = _why_deep(ring.slots, channels, budget)
    found["max_registers"] = _why_capped(plan, budget)
    found["ctas_per_sm"] = "as many as shared memory and registers allow"
    by_tma = by_tma_only(channels)
    found["partitions.converter"] = "it transposes tiles between two rings, in the producer's warp group"
    alone = "it computes numbers from tiles" if budget.producer_tiles else "one thread issues TMA copies"
    found["partitions.producer"] = alone if by_tma else "it computes on tiles of addresses"
    warps = "the fewest for wgmma" if budget.widened else "num_warps of the launch"
    found["partitions.consumer"] = warps if budget.groups == 1 else f"{warps}, in {budget.groups} groups"
    found["partitions.mma"] = "one thread issues the dots"
    found["partitions.correction"] = "it rewrites accumulators while the consumer computes the next factors"
    found["partitions.storer"] = (
        "one thread issues the stores of what the consumers stage, in the producer's warp group"
    )
    found["loops.mma_depth"] = _why_in_flight(plan, budget)
    staged = any(store.staged for store in plan.stores)
    found["stores"] = "the next tile does not wait for it" if staged else "later operations need the completed store"
    found["early_puts"] = _why_early(plan, budget)
    found["ping_pong"] = (
        "groups without ping-pong drift apart on their own" if budget.groups > 1 else "there is only one consumer group"
    )
    return found


def _chained(plan: Plan) -> bool:
    """Whether loops take several iterations at a time."""
    return any((it.chain or 1) > 1 for it in plan.loops)


def _why_early(plan: Plan, budget: Budget) -> str:
    if plan.early_puts:
        return "the first loads run while the partitions start"
    if _chained(plan):
        return "the first loop takes several iterations at a time"
    if budget.one_issues:
        return "the partition of the dots starts sooner without them, by the simulator's clock"
    return "the producer's threads fill slots"


def _why_deep(depth: int, channels: Rings, budget: Budget) -> str:
    """The reason for D of the rings that the innermost loops fill."""
    if depth >= budget.deepest(channels):
        return "the largest D that fits"
    if budget.ctas(channels, depth + 1) < budget.ctas(channels, depth):
        return "with one more slot, fewer CTAs share an SM"
    return "enough to hide the latency of global memory"


def _why_capped(plan: Plan, budget: Budget) -> str:
    limit = budget.max_registers
    if limit is not None and plan.max_registers == entry_registers(budget.consumer_warps, limit):
        return f"maxnreg={limit} of the launch"
    return f"{plan.ctas_per_sm} CTAs share an SM" if plan.max_registers else "one CTA occupies the SM"


def _why_in_flight(plan: Plan, budget: Budget) -> str:
    """The reason for P of loops without a schedule."""
    if plan.mma_depth:
        return IN_FLIGHT
    if min(ring.slots for ring in plan.rings) == 1:
        return "with one slot, a ring cannot keep a slot for wgmmas in flight"
    if (plan.ctas_per_sm or 1) > 1:
        return "CTAs that share the SM keep the tensor cores busy, and slots are released one iteration earlier"
    return "the additional buffers for wgmmas in flight do not fit"


def _loop(pins: Plan, loop: LoopPlan, mma_depth: int) -> LoopPlan:
    """The entry of a loop: the pinned P, or this one. Its schedule is decided later, on the final loop."""
    asked = pins.loop(loop.loop)
    own = asked.mma_depth if asked.mma_depth is not None else mma_depth
    return replace(asked, loop=loop.loop, mma_depth=own, line=loop.line)


def _store(pins: Plan, store: StorePlan, may_wait: bool) -> StorePlan:
    """The entry of a store. It is staged if it may complete later: it then reads from a buffer of its own."""
    asked = pins.store(store.key)
    slices, buffers = asked.of_slices
    staged = may_wait if asked.staged is None else asked.staged
    warp = asked.store_warp
    if warp is None and store.store_warp and staged and slices == 1:
        warp = True
    return replace(store, staged=staged, slices=slices, buffers=buffers, store_warp=warp)


def _partitions(
    budget: Budget, cap: int | None, by_tma: bool, converts: bool, stores: Sequence[StorePlan],
    pinned: tuple[PartitionPlan, ...],
) -> tuple[PartitionPlan, ...]:  # fmt: skip
    """Warps and registers of each partition; pinned partitions are completed."""
    warps = 1 if by_tma else PRODUCER_WARPS
    beside = [it.registers for it in pinned if it.role not in ("consumer", "correction") and it.registers]
    given = max(beside, default=budget.producer_registers)  # they share a warp group
    groups = 2 if budget.one_issues and warps == PRODUCER_WARPS else 1  # beside the consumers
    registers = consumer_registers(budget.consumer_warps, cap, given, groups)
    numbers = range(budget.groups) if budget.groups > 1 else ("",)
    computing: tuple[PartitionRole, ...] = ("correction", "consumer") if budget.corrected else ("consumer",)
    own = (
        PartitionPlan("producer", "producer", warps, budget.producer_registers),
        *([PartitionPlan("converter", "converter", CONVERTER_WARPS, budget.producer_registers)] if converts else []),
        *([PartitionPlan("mma", "mma", 1, budget.producer_registers)] if budget.one_issues else []),
        *([PartitionPlan("storer", "storer", 1, budget.producer_registers)] if _handed(stores) else []),
        *(
            PartitionPlan(f"{role}{number}", role, budget.num_warps, None if pinned else registers)
            for role in computing
            for number in numbers
        ),
    )
    if not pinned:
        return own
    return _completed(
        pinned,
        own,
        {"producer": given, "converter": given, "mma": given, "storer": given, **dict.fromkeys(computing, registers)},
    )


def _handed(stores: Iterable[StorePlan]) -> bool:
    return any(it.store_warp for it in stores)


def _completed(
    pinned: tuple[PartitionPlan, ...], own: tuple[PartitionPlan, ...], registers: dict[PartitionRole, int]
) -> tuple[PartitionPlan, ...]:
    """The pinned partitions, completed. Without an entry for a role, they are all that there are.

    own: the partitions without pins. registers: of each role, where nothing is pinned.
    """
    named, rest = [it for it in pinned if it.name], {it.role: it for it in pinned if not it.name}
    parts = named if not rest else _named_over(named, own)
    found: list[PartitionPlan] = []
    for part in parts:
        given = [part, *([rest[part.role]] if part.role in rest else [])]
        usual = [it.num_warps for it in own if it.role == part.role] if rest else []
        warps = next(filter(None, (*(it.num_warps for it in given), *usual)), 0)
        asked = next((it.registers for it in given if it.registers is not None), None)
        found.append(replace(part, num_warps=warps, registers=registers[part.role] if asked is None else asked))
    for role in rest:
        if role not in {it.role for it in own}:
            raise PlanError(f"the Plan names a {role}, which the kernel does not have; cure: leave it out")
    return tuple(found)


def _named_over(named: list[PartitionPlan], own: tuple[PartitionPlan, ...]) -> list[PartitionPlan]:
    """The partitions of a kernel, with those that are pinned by name; another name renames the only one of its role."""
    found = {it.name: replace(it, num_warps=0, registers=None) for it in own}
    for part in named:
        of_role = [it.name for it in own if it.role == part.role]
        renames = len(of_role) == 1 and not part.name.startswith(part.role)
        at = part.name if part.name in of_role else of_role[0] if renames else None
        if at is None:
            known = ", ".join(it.name for it in own)
            raise PlanError(f"the Plan names the partition {part.name!r}; the kernel has {known}; cure: one of these")
        found[at] = part
    return list(found.values())


def _choose_depths(
    channels: Rings, options: PlanOptions, budget: Budget, pinned: int | None
) -> tuple[Budget, int, int]:
    """The budget with the buffers that P requires, D, and P. pinned: the largest P of a Plan's loops."""
    asked = options.mma_depth if pinned is None else pinned
    budget = replace(budget, converted_slots=max(CONVERTED_SLOTS, (asked or 0) + 1))
    depth = _choose_depth(channels, options, budget, asked)
    alone = budget.ctas(channels, depth) == 1
    usual = DEFAULT_MMA_DEPTH if alone or (depth >= AMPLE_SLOTS and not budget.shared.again) else 0
    mma_depth = asked
    if mma_depth is None:
        mma_depth = min(usual, *(slots - 1 for slots in budget.depths(channels, depth)))
    if not mma_depth or not budget.shared.again:
        return budget, depth, mma_depth
    roomy = budget.with_in_flight(mma_depth)
    if asked is None and roomy.deepest(channels) < (options.aref_depth or mma_depth + 1):
        return budget, depth, 0
    return roomy, _choose_depth(channels, options, roomy, asked), mma_depth


def _choose_depth(channels: Rings, options: PlanOptions, budget: Budget, mma_depth: int | None) -> int:
    asked = options.aref_depth
    if all(channel.name in budget.fixed for channel in channels):
        fixed = [budget.fixed[channel.name] for channel in channels]
        if max(fixed) > DEEPEST and budget.ring_bytes(channels, fixed) > budget.shared_bytes:
            raise ResourceError(shared_memory_text(channels, max(fixed), budget))  # other depths the back end counts
        return max(fixed)
    least = (mma_depth or 0) + 1
    fits = budget.deepest(channels)
    if asked is not None:
        if asked <= fits:
            return asked
        raise ResourceError(shared_memory_text(channels, asked, budget))
    if fits < least:
        raise ResourceError(shared_memory_text(channels, least, budget))
    fits = min(fits, max(least, most_fills(channels)))
    tuned = min(max(budget.num_stages, 2, least), fits)
    hiding = min(-(-BYTES_IN_FLIGHT // budget.slot_bytes(budget.refilled(channels) or channels)), MOST_SLOTS)
    deepest = max(tuned, min(max(DEFAULT_DEPTH, hiding), fits))
    ctas = budget.ctas(channels, tuned)
    few = budget.groups > 1 and ctas < budget.stock_ctas(channels)
    if few or ctas < (budget.most_ctas or 1):  # fewer slots, if more CTAs fit with them
        more = [depth for depth in range(max(2, least), tuned) if budget.ctas(channels, depth) > ctas]
        tuned = max(more, key=lambda depth: (budget.ctas(channels, depth), depth), default=tuned)
        ctas = budget.ctas(channels, tuned)
    return max(depth for depth in range(tuned, deepest + 1) if budget.ctas(channels, depth) >= ctas)


def most_fills(channels: Rings) -> int:
    """The most slots that a program fills in one ring; `DEEPEST` if that is unknown."""
    fills = [channel.fills for channel in channels]
    return DEEPEST if None in fills else max(1, *(count or 0 for count in fills))


def shared_memory_text(channels: Rings, depth: int, budget: Budget) -> str:
    """The use of shared memory by ring, and the largest D that fits."""
    slots = dict(zip(channels, budget.depths(channels, depth), strict=True))
    sizes = {channel: channel.slot_bytes * budget.copies(channel) for channel in channels}
    rings = "; ".join(f"{channel.name}: {slots[channel]} x {sizes[channel]} B" for channel in channels)
    rest = budget.needed(channels, depth) - sum(slots[channel] * sizes[channel] for channel in channels)
    return (
        f"aref_depth={depth} needs {budget.needed(channels, depth)} B of shared memory, the limit is "
        f"{budget.shared_bytes} B (227 KiB): {rings}; {rest} B beside the rings (staged stores, layout scratch, "
        f"barriers); {_what_fits(channels, budget)}"
    )


def _what_fits(channels: Rings, budget: Budget) -> str:
    """The largest D that fits, and the cure; without one, how far to reduce D of the pinned rings."""
    fits = budget.deepest(channels)
    if fits >= 1:
        return f"the largest D that fits is {fits}; cure: aref_depth={fits}"
    for most in range(min(max(budget.fixed.values(), default=1), DEEPEST) - 1, 0, -1):
        fixed = {name: min(slots, most) for name, slots in budget.fixed.items()}
        if replace(budget, fixed=fixed).deepest(channels) >= 1:
            cure = "; ".join(f"D = {most} of {name}" for name in fixed if budget.fixed[name] > most)
            return f"beside the pinned rings, not one slot of the others fits; cure: {cure}"
    return "not one slot of each ring fits; cure: use smaller blocks"
