"""The entries of a Plan: one class each for a partition, a load, a store, a ring, a loop, and for launches.

A field that is None is left to the planner. An entry with an impossible value raises PlanError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tawa.dialects.aref import EXCHANGES, Fill
from tawa.plan.decision import Flag, ListOf, OneOf, Slots, Text, Whole, check_values, decision, one_of, part
from tawa.plan.schedule import Schedule, Wanted

Path = Literal[
    "host_descriptor", "kernel_descriptor", "promoted", "promoted_in_kernel", "cp.async", "registers", "consumer",
    "pointers",
]  # fmt: skip
RowsOrder = Literal["in_order", "for_next_dot"]
PartitionRole = Literal["producer", "converter", "mma", "storer", "correction", "consumer"]
Transposer = Literal["registers", "converter"]
LaunchChoice = Literal["predicted", "specialised", "always"]

_LOADS = OneOf(("tma", "tma in kernel", "cp.async", "registers", "consumer", "pointers"))

UNCAPPED = 0
"""As a number of registers: Triton chooses."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition (warp group). `registers`: per thread; 0 means an even split by Triton.

    In a partial Plan, num_warps = 0 leaves the warps open, and an entry without name stands for all partitions of its
    role.
    """

    name: str
    role: PartitionRole = part(one_of(PartitionRole), "partitions.role")
    num_warps: int = part(Whole(), "partitions.warps", Whole(1))
    registers: int | None = decision(Whole(), "partitions", word="partitions.registers")

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """One load.

    path: how the tile reaches its users.
        host_descriptor, kernel_descriptor  by TMA, as the kernel is written
        promoted, promoted_in_kernel          by TMA in place of pointers; the launcher, or the kernel, creates the
                                            descriptor
        cp.async, registers                 through pointers: by cp.async of the producer's threads, or through their
                                            registers
        pointers                            cp.async if it is possible, else registers
        consumer                            the consumer's warps load it
    ring: the ring that carries the tile; None without a ring. Operands of one ring that are loaded together share a
        slot; other operands of the ring take separate slots. Without the Plan, those for the same dots have one ring.
    hoisted: the load moves up to the preceding load that feeds the same dots, or that the Plan puts into the same ring,
        so that both fill one slot.
    prefetched: a consumer issues the load one iteration before its use.
    rows: "for_next_dot": they stand in the order in which the result of the dot that reads them is the left operand of
        the next dot; "in_order": as in memory.
    transposed: how a tile is transposed that wgmma cannot read as it is stored: through the consumers' registers, or by
        a partition between two rings, the converter; None for other tiles.
    reordered: the converter writes the summed dimension in the order in which the accumulator that is the other operand
        has it; then no threads exchange values, but the sums may be rounded differently.
    depth: only in a partial Plan: D of the ring that carries the tile, whatever its name is.
    """

    argument: str | None = None
    loop: int | None = part(Whole(), default=None)
    ordinal: int = part(Whole(), default=0)
    path: Path | None = decision(one_of(Path), "paths", word="operands.path", spoken=_LOADS, option="pointer_loads")
    ring: str | None = decision(Text(), "rings", word="operands.ring", spoken=Slots())
    hoisted: bool | None = decision(Flag(), "paths", word="operands.hoisted")
    prefetched: bool | None = decision(Flag(), "paths", word="operands.prefetched")
    rows: RowsOrder | None = decision(
        one_of(RowsOrder), "paths", word="operands.rows", reorders=lambda it: it == "for_next_dot"
    )
    transposed: Transposer | None = decision(one_of(Transposer), "paths", word="operands.transposed")
    reordered: bool | None = decision(Flag(), "paths", word="operands.reordered", reorders=bool)
    line: str = field(default="", compare=False)
    depth: int | None = decision(Whole(), "rings")

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def key(self) -> tuple[str | None, int | None, int]:
        """The key that identifies the load."""
        return self.argument, self.loop, self.ordinal


@dataclass(frozen=True, slots=True)
class StorePlan:
    """One store of a tile.

    path: host_descriptor, kernel_descriptor (by TMA, as the kernel is written), promoted (by TMA in place of pointers),
    or pointers. staged: the store reads from a staging buffer, and the consumer waits for it only before it reuses that
    buffer. slices: a staged tile leaves in this many slices of its columns, one after the other, so that its buffers
    are smaller. buffers: of a slice each; with two, a slice is written while TMA reads the one before it. store_warp: a
    warp of its own issues the store; the buffers are the slots of a ring between the consumers and that warp.
    """

    argument: str | None = None
    loop: int | None = part(Whole(), default=None)
    ordinal: int = part(Whole(), default=0)
    path: Path | None = decision(one_of(Path), "paths", word="stores.path", spoken=OneOf(("tma", "pointers")))
    staged: bool | None = decision(Flag(), "stores", word="stores.staged")
    slices: int | None = decision(Whole(1, power=True), "stores", word="stores.slices")
    buffers: int | None = decision(Whole(1), "stores", word="stores.buffers")
    line: str = field(default="", compare=False)
    store_warp: bool | None = decision(Flag(), "stores", word="stores.store_warp")

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def key(self) -> tuple[str | None, int | None, int]:
        """The key that identifies the store."""
        return self.argument, self.loop, self.ordinal

    @property
    def of_slices(self) -> tuple[int, int]:
        """Slices and buffers. Without a number of buffers there are two if that saves memory, else one."""
        slices = self.slices or 1
        return slices, self.buffers or (2 if slices > 2 else 1)


TENSOR_RING, OPERAND_RING = "tensor", "operand"
"""The begins of the names of rings of what dots and threads access by turns: in tensor memory, in shared memory."""
FACTOR_RING = "factor"
"""The begin of the names of rings of vectors for the partition that rewrites accumulators."""


def tile_text(buffer: str) -> str:
    """``!ttg.memdesc<128x64xf16, #shared, …>`` → ``128x64xf16``."""
    found = re.search(r"(?:\d+x)+\w+", buffer)
    return found.group() if found else buffer


@dataclass(frozen=True, slots=True)
class RingPlan:
    """One ring. payload: the types of the buffers of a slot. depth: D. slot_bytes: the size of one slot.

    copies: the number of such rings: one per consumer group if its tiles are rows of the group, else 1.
    fill: what fills a slot: "tma", "cp.async", the "registers" of the producer, "stores" of a converter, or a "number"
        that only the producer computes. What is not loaded: a "commit" of one thread's dots, or "threads" that compute.
    A Plan that pins a ring may omit everything but the depth, because the rest follows from the operands. An entry
    without a name sets D for all rings that have no entry. As with the option `aref_depth`, rings that are filled
    outside the innermost loops have a smaller D if this one does not fit.
    """

    name: str = ""
    payload: tuple[str, ...] = ()
    depth: int | None = decision(Whole(), "rings", word="rings.slots", spoken=Whole(1), option="aref_depth")
    slot_bytes: int | None = part(Whole(), default=None)
    copies: int | None = part(Whole(), default=None)
    fill: Fill | None = part(one_of(Fill), default=None)

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def key(self) -> str:
        """The key that identifies the ring."""
        return self.name

    @property
    def tiles(self) -> tuple[str, ...]:
        """The payload, for people."""
        return tuple(map(tile_text, self.payload))

    @property
    def has_tiles(self) -> bool:
        """Whether a slot holds tiles, rather than one number."""
        return self.fill != "number"

    @property
    def is_exchanged(self) -> bool:
        """Whether the dots of one thread and the threads that compute access its slots by turns.

        The slots are in tensor memory; those with `slot_bytes` are in shared memory.
        """
        return not self.has_factors and (self.fill in EXCHANGES or (self.fill is None and self._is(*_EXCHANGED)))

    @property
    def has_factors(self) -> bool:
        """Whether a consumer sends vectors through it to the partition that rewrites accumulators."""
        return self.fill in ("threads", None) and self._is(FACTOR_RING)

    @property
    def is_loaded(self) -> bool:
        """Whether a producer loads its tiles."""
        return self.has_tiles and not self.is_exchanged and not self.has_factors

    def _is(self, *begins: str) -> bool:
        return self.name.rstrip("0123456789") in begins

    @property
    def slots(self) -> int:
        """D, in a complete Plan."""
        assert self.depth is not None
        return self.depth

    @property
    def total_bytes(self) -> int:
        """Shared memory of all slots, without barriers."""
        return self.slots * (self.slot_bytes or 0) * (self.copies or 1)


_EXCHANGED = (TENSOR_RING, OPERAND_RING)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """One loop that is the innermost loop of some dot.

    mma_depth: P, iterations whose wgmmas stay in flight. stages: the most stages that its schedule may have; 1 changes
    only the order, 0 leaves the loop unscheduled. schedule: the schedule, if the loop is pipelined by stages. kept:
    dots, by their number in the loop, whose loop-invariant left operand stays in registers. joined: the first iteration
    overlaps with the last one of the loop before it. behind: dots whose results are only stored or added up in memory,
    and that read what consumer groups exchange, run one iteration behind. chain: iterations of which each issues its
    dots before the results of the one before it are used; 1 for none. wanted: only in a partial Plan: what the schedule
    must have.
    others: where groups own different dots, the schedules of the groups behind the first one.
    """

    loop: int | None = part(Whole(), default=None)
    mma_depth: int | None = decision(Whole(), "loops", word="loops.in_flight", option="mma_depth")
    stages: int | None = decision(Whole(), "loops", word="loops.stages")
    schedule: Schedule | None = None
    kept: tuple[int, ...] | None = decision(ListOf(Whole()), "loops", word="loops.kept")
    joined: bool | None = decision(Flag(), "loops", word="loops.joined")
    line: str = field(default="", compare=False)
    wanted: Wanted | None = None
    behind: bool | None = decision(Flag(), "loops", word="loops.behind")
    chain: int | None = decision(Whole(1), "loops", word="loops.chain")
    others: tuple[Schedule, ...] | None = None

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def key(self) -> int | None:
        """The key that identifies the loop."""
        return self.loop

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of all groups: one for all of them, or one for each."""
        return (*((self.schedule,) if self.schedule is not None else ()), *(self.others or ()))

    def schedule_of(self, group: int) -> Schedule | None:
        """The schedule of the loop in one consumer group."""
        return self.others[group - 1] if group and self.others else self.schedule


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Which launches get the kernel.

    conditions: the conditions on a launch, in words; other launches get another kernel, or the stock kernel
        (`tawa.bridge.launch.instead`). They follow from operands and stores.
    choice: "predicted": the form that the model of time predicts to be the fastest for the launch: this kernel, another
        form of it, or the stock kernel. "specialised": the same without the stock kernel. "always": this kernel.
    """

    conditions: tuple[str, ...] | None = None
    choice: LaunchChoice | None = decision(one_of(LaunchChoice), "launches", word="kernel.launches")

    def __post_init__(self) -> None:
        check_values(self)
