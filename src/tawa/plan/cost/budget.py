"""The resources that are available to a Plan: shared memory, registers, and the CTAs that share an SM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from tawa.analysis.resources import RegisterInfo, SharedInfo
from tawa.analysis.rings.channels import ChannelInfo
from tawa.dialects.aref import Fill
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan.cost.registers import ctas_under, register_cap, stock_ctas
from tawa.plan.defaults import CONVERTED_SLOTS, PRODUCER_REGISTERS

DEEPEST = 32

Channels = tuple[ChannelInfo, ...]


class RingSize(Protocol):
    """What the depth of a future ring depends on: of a channel, or of what is expected before layouts."""

    @property
    def name(self) -> str:
        """The name of the ring."""
        ...

    @property
    def payload(self) -> tuple[str, ...]:
        """The types of the buffers of a slot, as far as known."""
        ...

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot."""
        ...

    @property
    def fill(self) -> Fill:
        """How the producer fills a slot."""
        ...

    @property
    def converted(self) -> bool:
        """Whether a converter fills the ring."""
        ...

    @property
    def fills(self) -> int | None:
        """How often a program fills a slot; None if unknown."""
        ...


Rings = Sequence[RingSize]


def by_tma_only(channels: Rings) -> bool:
    """Whether the producer's threads fill no slots."""
    return all(channel.fill == "tma" for channel in channels if not channel.converted)


StockCopies = Literal["tma", "rows", "elements"]
"""How stock Triton loads tiles: by TMA, by copies of several bytes of a row per thread, or element by element."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The available resources.

    num_warps: of one consumer group. num_stages: of the launch. shared_bytes: the limit of one CTA. shared: shared
        memory in addition to the rings.
    registers: of the wgmmas.
    producer_registers: per thread of the producer. max_registers: ``maxnreg`` of the launch, or None. cap: on registers
        at kernel entry, if a Plan pins it; 0 for none.
    groups: consumer groups. own: names of channels for which each group has a ring of its own.
    outer: names of channels that are filled outside the innermost loops, as the queries of a persistent attention.
    fixed: depths of rings that a Plan pins, by name. most_ctas: the most CTAs that may share an SM, or None.
    launch_warps: the warps of the launch if they are fewer than those of a consumer; else 0 or the same number.
    producer_tiles: whether the producer computes on tiles. converted_slots: of a ring that a converter fills, at most:
        such a ring hides no latency of global memory. one_issues: whether one thread issues the dots of all groups, in
        a partition of its own. corrected: whether each group has another one that rewrites its accumulators.
        straight: whether operands are loaded in no loop but that over tiles.
    """

    num_warps: int
    num_stages: int
    shared_bytes: int
    shared: SharedInfo
    registers: RegisterInfo
    max_registers: int | None = None
    cap: int | None = None
    groups: int = 1
    own: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    producer_registers: int = PRODUCER_REGISTERS
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    most_ctas: int | None = None
    launch_warps: int = 0
    producer_tiles: bool = False
    converted_slots: int = CONVERTED_SLOTS
    one_issues: bool = False
    corrected: bool = False
    straight: bool = False

    @property
    def consumer_warps(self) -> int:
        """Warps of all groups, and of those that rewrite their accumulators."""
        return self.num_warps * self.groups * (1 + self.corrected)

    @property
    def widened(self) -> bool:
        """Whether the consumer has more warps than the launch."""
        return 0 < self.launch_warps < WARP_GROUP

    @property
    def stock_warps(self) -> int:
        """Warps of the stock kernel."""
        return self.launch_warps if self.widened else self.num_warps * self.groups

    def with_in_flight(self, iterations: int) -> Budget:
        """The budget with the buffers for the dots of this many earlier iterations in flight."""
        return replace(self, shared=self.shared.with_in_flight(iterations))

    def copies(self, channel: RingSize) -> int:
        """The number of rings that a channel becomes."""
        return self.groups if channel.name in self.own else 1

    def slot_bytes(self, channels: Rings) -> int:
        """Bytes of one slot of every ring that the producer fills."""
        return sum(channel.slot_bytes * self.copies(channel) for channel in channels if not channel.converted)

    def depths(self, channels: Rings, depth: int) -> tuple[int, ...]:
        """The slots of each ring for D = `depth`; outer rings have one slot if `depth` slots do not fit.

        If one thread issues the dots, a ring has no more slots than a program fills, and so one outside of loops.
        """
        most = {channel.name: self._most(channel, depth) for channel in channels}
        same = [self.fixed.get(channel.name, most[channel.name]) for channel in channels]
        if self._total(channels, same) <= self.shared_bytes or not self.outer:
            return tuple(same)
        fewest = {name: 1 if name in self.outer else slots for name, slots in most.items()}
        return tuple(self.fixed.get(channel.name, fewest[channel.name]) for channel in channels)

    def _most(self, channel: RingSize, depth: int) -> int:
        """The slots of a ring for D = `depth`, if all fit."""
        filled = channel.fills if self.one_issues and channel.fills is not None else depth
        return max(1, min(depth, filled, self.converted_slots if channel.converted else depth))

    def refilled(self, channels: Rings) -> Rings:
        """The rings that may have several slots."""
        return [it for it in channels if self._most(it, DEEPEST) > 1]

    def needed(self, channels: Rings, depth: int) -> int:
        """Shared memory of one CTA for D = `depth`."""
        return self._total(channels, self.depths(channels, depth))

    def ring_bytes(self, channels: Rings, depths: Sequence[int]) -> int:
        """Shared memory of rings of these depths alone."""
        rings = zip(channels, depths, strict=True)
        return sum(depth * channel.slot_bytes * self.copies(channel) for channel, depth in rings)

    def _total(self, channels: Rings, depths: Sequence[int]) -> int:
        return self.shared.total(self.ring_bytes(channels, depths))

    def deepest(self, channels: Rings) -> int:
        """The largest D that fits; 0 if none does."""
        given = {*self.outer, *self.fixed}
        open_rings = [it for it in self.refilled(channels) if it.name not in given]
        most = min(DEEPEST, self.shared_bytes // max(1, self.slot_bytes(open_rings)))
        depths = range(most, 0, -1)
        return next((depth for depth in depths if self.needed(channels, depth) <= self.shared_bytes), 0)

    def ctas(self, channels: Rings, depth: int) -> int:
        """CTAs on one SM with rings of `depth` slots."""
        return self.shared_by(channels, depth)[0]

    def shared_by(self, channels: Rings, depth: int) -> tuple[int, int | None]:
        """CTAs on one SM with rings of `depth` slots, and the cap on registers at kernel entry that permits them."""
        needed, warps = self.needed(channels, depth), self.consumer_warps
        if self.cap is not None:
            return ctas_under(self.cap, needed, warps, self.most_ctas), self.cap or None
        limits = self.producer_registers, self.most_ctas, self.max_registers
        return register_cap(needed, warps, self.registers, *limits)

    def stock_ctas(self, channels: Rings) -> int:
        """CTAs on one SM when stock Triton pipelines the same loads `num_stages` deep."""
        loads = self.num_stages * self.slot_bytes(channels)
        shared = max(loads, self.shared.staging, self.shared.inside, self.shared.behind)  # never live together
        wider = (
            self.num_warps * self.groups // self.stock_warps
        )  # each of the fewer warps then has more of the accumulators
        registers = replace(self.registers, accumulators=self.registers.accumulators * wider)
        return stock_ctas(shared, self.stock_warps, registers, self.groups > 1, self.max_registers)
