"""The planner: chooses a Plan for one kernel from what the analyses found, within what the user asked for.

D    as asked; else num_stages, and at least 3, more for small slots, where that costs no CTA on the SM; but no more
     slots than a program fills, where it is known to fill few. Where rings of one depth do not fit, those that are
     filled outside of the innermost loops have one slot.
P    as asked; else 1 where D allows it: one iteration of wgmmas in flight hides the release of a slot. Where several
     CTAs share an SM and have few slots, or compute operands, 0: the others keep the tensor cores busy meanwhile, and
     slots come back one iteration earlier (bench/results/ablation.json).
ping-pong  as asked; else off: groups that run freely drift apart by themselves.
producer  one warp where TMA fills all rings; four where it works on tiles of addresses.
registers  24 for a producer that only issues TMA copies, more for one that keeps tiles of addresses; `setmaxnreg` hands
     the rest to the consumer. A cap at kernel entry lets as many CTAs share an SM as shared memory allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tawa.analysis.channels import ChannelInfo
from tawa.analysis.producer_layouts import PRODUCER_WARPS
from tawa.analysis.resources import (
    PRODUCER_REGISTERS,
    RegisterInfo,
    SharedInfo,
    consumer_registers,
    register_cap,
    stock_ctas,
)
from tawa.errors import PlanError, ResourceError
from tawa.plan.options import PlanOptions
from tawa.plan.plan import PartitionPlan, Plan, RingPlan

DEFAULT_MMA_DEPTH = 1
DEFAULT_DEPTH = 3
DEEPEST = 32
# Bytes in flight that hide the latency of global memory, and the most slots worth their barriers: seen on an H200.
BYTES_IN_FLIGHT = 128 * 1024
MOST_SLOTS = 8
EARLY_PUTS = 2
# Slots from which on one more in the consumer's hands costs CTAs that share an SM nothing (bench/small.py).
AMPLE_SLOTS = 3
# Slots that a program fills at least, or else stock Triton loads them all ahead as well.
LEAST_FILLS = 3
# Several CTAs an SM with operands of at most 16 bits: 0.97 to 1.02 of stock, with tf32 1.04 to 1.39
# (bench/results/gemm_matrix.json).
SMALL_OPERANDS = 16
# Registers of the accumulator of a wgmma of 256 columns.
WIDE_INSTRUCTION = 128

_ALONE = (
    "groups of consumers take turns on the tensor cores, and this kernel has one group; "
    "cure: num_consumer_groups=2 with 8 warps, or ping_pong=False"
)

Channels = tuple[ChannelInfo, ...]
StockCopies = Literal["tma", "rows", "elements"]
"""How stock Triton brings the tiles: by TMA, by each thread's copies of some bytes of a row, or one element each."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the machine and the kernel leave.

    num_warps: of one consumer group. num_stages: of the launch. shared_bytes: the limit of one CTA. shared: what the
        kernel needs beside its rings.
    registers: what its wgmmas take. operand_bits: of the widest element a ring carries.
    producer_registers: what a thread of the producer needs. max_registers: a cap the user set, or None.
    groups: consumer groups. own: names of channels of which each group has its own ring.
    outer: names of channels that are filled outside of the innermost loops, as the queries of a persistent attention.
    """

    num_warps: int
    num_stages: int
    shared_bytes: int
    shared: SharedInfo
    registers: RegisterInfo
    operand_bits: int
    max_registers: int | None = None
    groups: int = 1
    own: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    producer_registers: int = PRODUCER_REGISTERS

    @property
    def consumer_warps(self) -> int:
        """Warps of all groups."""
        return self.num_warps * self.groups

    def copies(self, channel: ChannelInfo) -> int:
        """Rings that a channel becomes."""
        return self.groups if channel.name in self.own else 1

    def slot_bytes(self, channels: Channels) -> int:
        """Bytes of one slot of every ring."""
        return sum(channel.slot_bytes * self.copies(channel) for channel in channels)

    def depths(self, channels: Channels, depth: int) -> tuple[int, ...]:
        """Slots of each ring for a D of `depth`: of the outer ones 1, where that many would not fit."""
        if self._total(channels, [depth] * len(channels)) <= self.shared_bytes or not self.outer:
            return (depth,) * len(channels)
        return tuple(1 if channel.name in self.outer else depth for channel in channels)

    def needed(self, channels: Channels, depth: int) -> int:
        """Shared memory of one CTA for a D of `depth`."""
        return self._total(channels, self.depths(channels, depth))

    def _total(self, channels: Channels, depths: Sequence[int]) -> int:
        rings = zip(channels, depths, strict=True)
        return self.shared.total(sum(depth * channel.slot_bytes * self.copies(channel) for channel, depth in rings))

    def deepest(self, channels: Channels) -> int:
        """The largest D that fits; 0 when none does."""
        depths = range(DEEPEST, 0, -1)
        return next((depth for depth in depths if self.needed(channels, depth) <= self.shared_bytes), 0)

    def ctas(self, channels: Channels, depth: int) -> int:
        """CTAs on one SM with rings of `depth` slots."""
        return self.shared_by(channels, depth)[0]

    def shared_by(self, channels: Channels, depth: int) -> tuple[int, int | None]:
        """The same, and the cap on registers at kernel entry for it."""
        return register_cap(self.needed(channels, depth), self.consumer_warps, self.registers, self.producer_registers)

    def stock_ctas(self, channels: Channels) -> int:
        """CTAs on one SM when stock Triton pipelines the same loads `num_stages` deep."""
        loads = self.num_stages * self.slot_bytes(channels)
        shared = max(loads, self.shared.staging, self.shared.inside, self.shared.behind)  # never live together
        return stock_ctas(shared, self.consumer_warps, self.registers, chained=self.groups > 1)


def choose_plan(channels: Channels, options: PlanOptions, budget: Budget, staged_stores: bool) -> Plan:
    """A Plan that meets `options` and fits `budget`. Raises ResourceError if no depth, or not the pinned one, fits."""
    budget, depth, mma_depth = _choose_depths(channels, options, budget)
    depths = budget.depths(channels, depth)
    _, cap = budget.shared_by(channels, depth)
    if options.ping_pong and budget.groups < 2:
        raise PlanError(f"ping_pong=True: {_ALONE}")
    if mma_depth > min(depths) - 1:
        fits = budget.deepest(channels)
        raise PlanError(
            f"mma_depth={mma_depth} with {min(depths)} slots a ring: P iterations in flight need D >= P + 1; "
            f"cure: mma_depth={min(depths) - 1}" + (f" or aref_depth={mma_depth + 1}" if fits > mma_depth else "")
        )
    cap = budget.max_registers or cap
    registers = consumer_registers(budget.consumer_warps, cap, budget.producer_registers)
    by_tma = all(channel.fill == "tma" for channel in channels)
    producer_warps = 1 if by_tma else PRODUCER_WARPS
    names = [f"consumer{number}" for number in range(budget.groups)] if budget.groups > 1 else ["consumer"]
    return Plan(
        partitions=(
            PartitionPlan("producer", "producer", producer_warps, budget.producer_registers),
            *(PartitionPlan(name, "consumer", budget.num_warps, registers) for name in names),
        ),
        rings=tuple(
            RingPlan(channel.name, channel.payload, slots, channel.slot_bytes, budget.copies(channel), channel.fill)
            for channel, slots in zip(channels, depths, strict=True)
        ),
        mma_depth=mma_depth,
        staged_stores=staged_stores,
        max_registers=cap,
        early_puts=min(EARLY_PUTS, *depths) if by_tma else 0,
        ping_pong=options.ping_pong is True,
    )


def why_not_worth_it(
    plan: Plan,
    channels: Channels,
    budget: Budget,
    persistent: bool,
    chained: bool = False,
    stock_copies: StockCopies = "tma",
) -> str:
    """Why the Plan is not expected to beat stock Triton; empty when it is.

    persistent: whether the loads stand in a loop over tiles, so that one CTA an SM is what the kernel was written for.
    chained: whether a dot works on what another one gave.
    stock_copies: where instructions of all its warps bring the tiles, CTAs that share an SM are worth specialising too
        (1.04 to 1.14 of stock at 128 × 128, `bench/results/pointers.json`); where they do so one element at a time,
        whatever turns often enough is.
    """
    fills = _most_fills(channels)
    if fills < LEAST_FILLS and not persistent:
        trips = "once" if fills == 1 else f"{fills} times"
        return f"a program fills its rings {trips} only, which stock Triton does ahead just as well"
    turning = [ring.depth for ring in plan.rings if ring.name not in budget.outer]
    if turning == [1]:
        return "its ring has one slot only, so that nothing is loaded while the consumer computes"
    if persistent or stock_copies == "elements":
        return ""
    ours, stock = budget.ctas(channels, max(ring.depth for ring in plan.rings)), budget.stock_ctas(channels)
    groups = f" of {budget.groups} groups" if budget.groups > 1 else ""
    # Of stock kernels that load through pointers no more than two share an SM in truth: their addresses take the
    # registers. One alone keeps the tensor cores busy where each wgmma has 256 columns (1.01 to 1.36 from 2048³ on,
    # bench/results/small.json). Groups of one CTA are no CTAs: softmax of 64 keys at a time wants more warps.
    if stock_copies == "rows" and budget.groups == 1:
        stock = min(stock, 1 if budget.registers.instruction >= WIDE_INSTRUCTION and not chained else 2)
    if ours < stock:
        return (
            f"{ours} CTA{'s' * (ours > 1)}{groups} would share an SM instead of {stock}, "
            "which hide each other's epilogues"
        )
    if budget.groups == 1 and ours > 1 and budget.operand_bits <= SMALL_OPERANDS and stock_copies == "tma":
        return f"{ours} CTAs share an SM, so that one loads while another computes: specialisation adds little"
    return ""


def pointer_loads_worth(channels: Channels, chained: bool) -> bool:
    """Whether a producer that copies by pointers is expected to beat stock Triton, which copies ahead as well.

    chained: whether a dot works on what another one of the same iteration gave. Then the consumer computes while the
    tensor cores wait, and the copies no longer cost it instructions.
    """
    return chained or all(channel.fill == "tma" for channel in channels)


def check_plan(plan: Plan, channels: Channels, num_warps: int, *, stores_must_not_wait: bool, groups: int = 1) -> None:
    """Whether a pinned Plan is one for this kernel, its tile split among `groups`. Raises PlanError with what differs.

    num_warps: of one group.
    """
    if plan.staged_stores and stores_must_not_wait:
        raise PlanError(
            "the Plan has staged_stores, but this kernel's TMA stores may not be deferred: what stands behind one "
            "needs it done; cure: staged_stores=false in the Plan"
        )
    if len({ring.name for ring in plan.rings}) < len(plan.rings):
        raise PlanError("the Plan has two rings of one name; cure: one entry a ring")
    if plan.max_registers is not None and (plan.max_registers % 8 or not 24 <= plan.max_registers <= 256):
        raise PlanError(f"max_registers={plan.max_registers}; cure: a multiple of 8 from 24 to 256")
    expected = {channel.name: channel.payload for channel in channels}
    given = {ring.name: ring.payload for ring in plan.rings}
    if given != expected:
        raise PlanError(
            f"the Plan has rings {given}, the kernel has {expected}; cure: start from the kernel's own Plan"
        )
    for channel, ring in ((c, r) for c in channels for r in plan.rings if r.name == c.name and r.fill != c.fill):
        raise PlanError(
            f"the Plan fills {ring.name} by {ring.fill}, the kernel's loads go by {channel.fill}; "
            f"cure: fill={channel.fill!r}"
        )
    roles = sorted(part.role for part in plan.partitions)
    if roles != ["consumer"] * groups + ["producer"]:
        consumers = "one consumer" if groups == 1 else f"{groups} consumers"
        raise PlanError(f"the Plan has partitions {roles}; cure: one producer and {consumers}")
    for part in plan.partitions:
        if part.role == "consumer" and part.num_warps != num_warps:
            raise PlanError(
                f"consumer {part.name!r} has {part.num_warps} warps, the kernel num_warps={num_warps}; "
                f"cure: num_warps={num_warps} in the Plan, or launch with num_warps={part.num_warps}"
            )
        if part.role == "producer" and part.num_warps not in (1, 2, 4):
            raise PlanError(f"producer {part.name!r} has {part.num_warps} warps; cure: 1 (a TMA copy needs one thread)")
        if part.role == "producer" and part.num_warps != PRODUCER_WARPS and any(c.fill != "tma" for c in channels):
            raise PlanError(
                f"producer {part.name!r} has {part.num_warps} warps, and works on tiles of addresses; "
                f"cure: {PRODUCER_WARPS}"
            )
        if part.registers is not None and (part.registers % 8 or not 24 <= part.registers <= 256):
            raise PlanError(
                f"partition {part.name!r} asks for {part.registers} registers; cure: a multiple of 8 from 24 to 256"
            )
    if plan.ping_pong and groups < 2:
        raise PlanError(f"the Plan has ping_pong: {_ALONE}")
    for name in ("early_puts", "max_stages"):
        if getattr(plan, name) < 0:
            raise PlanError(f"{name}={getattr(plan, name)}; cure: 0 or more")
    shallow = min(ring.depth for ring in plan.rings)
    if shallow < 1 or plan.mma_depth < 0:
        raise PlanError(f"D = {shallow}, P = {plan.mma_depth}; cure: D of at least 1 and P of at least 0")
    if shallow < plan.mma_depth + 1:
        raise PlanError(
            f"P = {plan.mma_depth} with a ring of D = {shallow}: P iterations in flight need D >= P + 1; "
            f"cure: D = {plan.mma_depth + 1} or P = {shallow - 1}"
        )


def _choose_depths(channels: Channels, options: PlanOptions, budget: Budget) -> tuple[Budget, int, int]:
    """D and P, and the budget with the buffers that P asks for."""
    depth = _choose_depth(channels, options, budget)
    alone = budget.ctas(channels, depth) == 1
    usual = DEFAULT_MMA_DEPTH if alone or (depth >= AMPLE_SLOTS and not budget.shared.again) else 0
    mma_depth = options.mma_depth
    if mma_depth is None:
        mma_depth = min(usual, *(slots - 1 for slots in budget.depths(channels, depth)))
    if not mma_depth or not budget.shared.again:
        return budget, depth, mma_depth
    roomy = replace(budget, shared=budget.shared.with_in_flight(mma_depth))
    if options.mma_depth is None and roomy.deepest(channels) < (options.aref_depth or mma_depth + 1):
        return budget, depth, 0
    return roomy, _choose_depth(channels, options, roomy), mma_depth


def _choose_depth(channels: Channels, options: PlanOptions, budget: Budget) -> int:
    asked = options.aref_depth
    least = (options.mma_depth or 0) + 1
    fits = budget.deepest(channels)
    if asked is not None:
        if asked <= fits:
            return asked
        raise ResourceError(shared_memory_text(channels, asked, budget))
    if fits < least:
        raise ResourceError(shared_memory_text(channels, least, budget))
    fits = min(fits, max(least, _most_fills(channels)))
    tuned = min(max(budget.num_stages, 2, least), fits)
    hiding = min(-(-BYTES_IN_FLIGHT // budget.slot_bytes(channels)), MOST_SLOTS)
    deepest = max(tuned, min(max(DEFAULT_DEPTH, hiding), fits))
    ctas = budget.ctas(channels, tuned)
    if budget.groups > 1 and ctas < budget.stock_ctas(channels):  # fewer slots, if they let as many CTAs in
        more = [depth for depth in range(max(2, least), tuned) if budget.ctas(channels, depth) > ctas]
        tuned = max(more, key=lambda depth: (budget.ctas(channels, depth), depth), default=tuned)
        ctas = budget.ctas(channels, tuned)
    return max(depth for depth in range(tuned, deepest + 1) if budget.ctas(channels, depth) >= ctas)


def _most_fills(channels: Channels) -> int:
    """How many slots of its rings a program fills, at most; as many as there can be where that is not known."""
    fills = [channel.fills for channel in channels]
    return DEEPEST if None in fills else max(1, *(count or 0 for count in fills))


def shared_memory_text(channels: Channels, depth: int, budget: Budget) -> str:
    """Where the shared memory goes, ring by ring, and the largest D that fits."""
    slots = dict(zip(channels, budget.depths(channels, depth), strict=True))
    sizes = {channel: channel.slot_bytes * budget.copies(channel) for channel in channels}
    rings = "; ".join(f"{channel.name}: {slots[channel]} x {sizes[channel]} B" for channel in channels)
    rest = budget.needed(channels, depth) - sum(slots[channel] * sizes[channel] for channel in channels)
    fits = budget.deepest(channels)
    cure = f"aref_depth={fits}" if fits >= 1 else "use smaller blocks"
    return (
        f"aref_depth={depth} needs {budget.needed(channels, depth)} B of shared memory, the limit is "
        f"{budget.shared_bytes} B (227 KiB): {rings}; {rest} B beside the rings (staged stores, layout scratch, "
        f"barriers); the largest D that fits is {fits}; cure: {cure}"
    )
