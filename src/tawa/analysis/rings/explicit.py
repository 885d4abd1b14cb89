"""What an explicit program consists of: partitions, rings and signals, recognised by how its barriers are used.

    partition0   wait E, expect F, copy to T with F        ring T: written by partition0, read by default,
    default      wait F, dot of T, arrive on E             full barriers F, empty barriers E

The full barriers of a ring are those on which the TMA copies into its buffers arrive; or threads that have stored to a
buffer, which those who wait read. On its empty barriers, as many, the writers wait and the readers arrive; of several
candidates, those with the nearest wait before the copy, or with the same slot. All other barriers are signals.

Nothing here is a proof: `tawa.verify` decides if the protocol is right, without these facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from tawa.analysis.rings.barrier_uses import Partition, Use, partition_blocks, partition_of, partitions_of, uses_of
from tawa.dialects import ttg, ttng
from tawa.ir import MemDescType, Module, Operation, Value, parse_type
from tawa.ir.attributes import read_int
from tawa.ir.locations import source_of
from tawa.remarks import SourceLocation

WaitKind = Literal["full", "empty", "signal", "wgmma", "stores", "cp.async"]


@dataclass(frozen=True, slots=True)
class BarrierInfo:
    """An array of mbarriers.

    slots: how many. arrivals: by threads that complete a phase. bytes: of the copies of a phase, as it expects them; 0
    without copies. arrivers: partitions whose threads arrive. waiters: partitions that wait.
    """

    slots: int
    arrivals: int
    bytes: int
    arrivers: tuple[str, ...]
    waiters: tuple[str, ...]
    location: SourceLocation | None


@dataclass(frozen=True, slots=True)
class RingInfo:
    """Slots of buffers between writers and readers. payload: the tiles of a slot. empty: None if no writer waits."""

    name: str
    slots: int
    payload: tuple[str, ...]
    slot_bytes: int
    by_copies: bool
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    full: BarrierInfo
    empty: BarrierInfo | None
    location: SourceLocation | None


@dataclass(frozen=True, slots=True)
class SignalInfo:
    """Barriers without a payload."""

    name: str
    barrier: BarrierInfo


@dataclass(frozen=True, slots=True)
class WaitInfo:
    """A wait: for a slot of a ring, or a signal (`target`), or until at most `pending` operations are in flight."""

    kind: WaitKind
    target: str
    pending: int
    location: SourceLocation | None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition, its waits in program order, and where its operations come from: places in the source."""

    name: str
    warps: int
    registers: int | None
    waits: tuple[WaitInfo, ...]
    places: tuple[SourceLocation, ...]


@dataclass(frozen=True, slots=True)
class ExplicitProgram:
    """An explicit program. buffer_bytes: shared memory of buffers that are not in a ring."""

    partitions: tuple[PartitionInfo, ...]
    rings: tuple[RingInfo, ...]
    signals: tuple[SignalInfo, ...]
    buffer_bytes: int


def explicit_program(module: Module) -> ExplicitProgram:
    """The partitions, rings and signals of a program with layouts."""
    return _Reader(module).program()


@dataclass(frozen=True, slots=True, eq=False)
class RingAllocations:
    """The allocations of a ring: of its tiles, and of its full and empty barriers; empty: None if no writer waits."""

    payload: tuple[Operation, ...]
    full: Operation
    empty: Operation | None


def ring_allocations(module: Module) -> tuple[RingAllocations, ...]:
    """The allocations of each ring of `explicit_program`."""
    reader = _Reader(module)
    return tuple(
        RingAllocations(tuple(payload), full, reader.empties.get(full)) for full, payload in reader.payloads.items()
    )


_PENDING: dict[str, WaitKind] = {
    ttng.WarpGroupDotWaitOp.NAME: "wgmma",
    ttng.AsyncTMAStoreWaitOp.NAME: "stores",
    ttg.AsyncWaitOp.NAME: "cp.async",
}


class _Reader:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.uses = uses_of(module)
        self.blocks = partition_blocks(module)
        self.of_allocation: dict[Operation, list[Use]] = {}
        self.waited_by: dict[Operation, list[Operation]] = {}
        for use in self.uses:
            self.of_allocation.setdefault(use.allocation, []).append(use)
            if use.kind == "wait":
                self.waited_by.setdefault(use.op, []).append(use.allocation)
        self.barriers = list(dict.fromkeys(it.allocation for it in self.uses if it.kind == "init"))
        self.payloads: dict[Operation, list[Operation]] = {}
        for barrier in self.barriers:
            found = self._copied_with(barrier) or self._stored_before(barrier)
            if found:
                self.payloads[barrier] = found
        self.empties = self._empties()

    def program(self) -> ExplicitProgram:
        full = [it for it in self.barriers if it in self.payloads]
        rings = tuple(self._ring(number, it) for number, it in enumerate(full))
        rest = [it for it in self.barriers if it not in self.payloads and it not in self.empties.values()]
        signals = tuple(SignalInfo(f"signal{number}", self._info(it)) for number, it in enumerate(rest))
        roles: dict[Operation, tuple[WaitKind, str]] = {}
        for it, ring in zip(full, rings, strict=True):
            roles[it] = "full", ring.name
            if it in self.empties:
                roles[self.empties[it]] = "empty", ring.name
        roles |= {it: ("signal", signal.name) for it, signal in zip(rest, signals, strict=True)}
        partitions = tuple(self._partition(it, roles) for it in partitions_of(self.module))
        ours = {it for found in self.payloads.values() for it in found} | set(self.barriers)
        allocations = [op for op in self.module.walk() if op.name == ttg.LocalAllocOp.NAME and op not in ours]
        return ExplicitProgram(partitions, rings, signals, sum(_type(it).bytes for it in allocations))

    # -- uses ----------------------------------------------------------------------------------------------------------

    def _of(self, allocation: Operation, *kinds: str) -> list[Use]:
        return [it for it in self.of_allocation.get(allocation, ()) if it.kind in kinds]

    def _who(self, allocation: Operation, *kinds: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(it.partition for it in self._of(allocation, *kinds)))

    def _copied_with(self, barrier: Operation) -> list[Operation]:
        """The buffers of the TMA copies that arrive on a barrier."""
        copies = {it.op for it in self._of(barrier, "copy")}
        return list(dict.fromkeys(it.allocation for it in self.uses if it.op in copies and it.kind == "write"))

    def _stored_before(self, barrier: Operation) -> list[Operation]:
        """The buffers that threads fill before they arrive on a barrier, and that those who wait for it read."""
        found: list[Operation] = []
        waiters = set(self._who(barrier, "wait"))
        for use in self.uses:
            if use.kind not in ("store", "write") or use.allocation in found:
                continue
            readers = {it.partition for it in self._of(use.allocation, "read")} & waiters
            if not readers - {use.partition} or not _holds(_type(use.allocation), _slots(barrier)):
                continue
            following = [
                it
                for it in self.uses
                if it.kind == "arrive" and it.partition == use.partition and it.order > use.order
                and readers & set(self._who(it.allocation, "wait"))
            ]  # fmt: skip
            if following and following[0].allocation is barrier:
                found.append(use.allocation)
        return found

    def _fills(self, barrier: Operation) -> list[Use]:
        """The uses of full barriers by the writers of their ring."""
        return self._of(barrier, "copy") or self._of(barrier, "arrive")

    # -- rings ---------------------------------------------------------------------------------------------------------

    def _readers(self, barrier: Operation) -> tuple[str, ...]:
        waiting = self._who(barrier, "wait")
        reading = {name for buffer in self.payloads[barrier] for name in self._who(buffer, "read")}
        return tuple(it for it in waiting if it in reading) or waiting

    def _empties(self) -> dict[Operation, Operation]:
        """The empty barriers of each full one: the best pairs first."""
        pairs: list[tuple[int, int, int, Operation, Operation]] = []
        for number, full in enumerate(self.payloads):
            for place, empty in enumerate(self.barriers):
                score = self._fit(full, empty) if empty not in self.payloads else 0
                if score:
                    pairs.append((-score, number, place, full, empty))
        found: dict[Operation, Operation] = {}
        for *_, full, empty in sorted(pairs, key=lambda it: it[:3]):
            if full not in found and empty not in found.values():
                found[full] = empty
        return found

    def _fit(self, full: Operation, empty: Operation) -> int:
        """0 if a barrier cannot be the empty one; else more for the same slot, and for the nearest wait."""
        fills = self._fills(full)
        writers = {it.partition for it in fills}
        waits = [it for it in self._of(empty, "wait") if it.partition in writers]
        arriving = set(self._who(empty, "arrive"))
        if not waits or not arriving & set(self._readers(full)) or _slots(full) != _slots(empty):
            return 0
        same = any(_same(wait.slot, fill.slot) for wait in waits for fill in fills if wait.partition == fill.partition)
        nearest = any(self._wait_before(fill) is empty for fill in fills)
        return 1 + 2 * same + 4 * nearest

    def _wait_before(self, fill: Use) -> Operation | None:
        """The barrier of the last wait before a use, in its partition."""
        before = [
            it for it in self.uses if it.kind == "wait" and it.partition == fill.partition and it.order < fill.order
        ]
        return before[-1].allocation if before else None

    def _ring(self, number: int, full: Operation) -> RingInfo:
        buffers, slots = self.payloads[full], _slots(full)
        types = [_type(it) for it in buffers]
        empty = self.empties.get(full)
        return RingInfo(
            name=f"ring{number}",
            slots=slots,
            payload=tuple(_tile(it, slots) for it in types),
            slot_bytes=sum(it.bytes for it in types) // slots,
            by_copies=bool(self._of(full, "copy")),
            writers=tuple(dict.fromkeys(it.partition for it in self._fills(full))),
            readers=self._readers(full),
            full=self._info(full),
            empty=self._info(empty) if empty is not None else None,
            location=source_of(self.module, buffers[0]),
        )

    def _info(self, barrier: Operation) -> BarrierInfo:
        counts = [ttng.InitBarrierOp(it.op).count for it in self._of(barrier, "init")]
        sizes = [ttng.BarrierExpectOp(it.op).size for it in self._of(barrier, "expect")]
        return BarrierInfo(
            slots=_slots(barrier),
            arrivals=max(counts, default=1),
            bytes=max(sizes, default=0),
            arrivers=self._who(barrier, "arrive", "expect"),
            waiters=self._who(barrier, "wait"),
            location=source_of(self.module, barrier),
        )

    # -- partitions ----------------------------------------------------------------------------------------------------

    def _partition(self, partition: Partition, roles: dict[Operation, tuple[WaitKind, str]]) -> PartitionInfo:
        forks = [it for op in self.module.walk() if (it := ttg.WarpSpecializeOp.of(op))]
        inside = [op for op in self.module.walk() if not op.regions and partition_of(op, self.blocks) == partition.name]
        waits = [wait for op in inside for wait in self._waits(op, roles)]
        if forks and partition.name == "default":  # what comes before and after the fork does not tell its function
            inside = [op for fork in forks for op in fork.default.ops if not op.regions] + [
                inner for fork in forks for op in fork.default.ops if op.regions for inner in op.walk()
            ]
        places = [source_of(self.module, op) for op in inside if "unknown" not in self.module.locs.get(op.loc, op.loc)]
        return PartitionInfo(
            partition.name,
            partition.warps,
            partition.registers,
            tuple(dict.fromkeys(waits)),
            tuple(place for place in places if place is not None),
        )

    def _waits(self, op: Operation, roles: dict[Operation, tuple[WaitKind, str]]) -> list[WaitInfo]:
        if op.name not in _PENDING and op not in self.waited_by:
            return []
        place = source_of(self.module, op)
        if op.name in _PENDING:
            name = "num" if op.name == ttg.AsyncWaitOp.NAME else "pendings"
            return [WaitInfo(_PENDING[op.name], "", read_int(op.properties[name]), place)]
        return [WaitInfo(*roles[it], 0, place) for it in self.waited_by.get(op, ()) if it in roles]


def _type(allocation: Operation) -> MemDescType:
    found = parse_type(allocation.result.type)
    assert isinstance(found, MemDescType)
    return found


def _slots(barrier: Operation) -> int:
    return prod(_type(barrier).shape)


def _holds(buffer: MemDescType, slots: int) -> bool:
    """Whether a buffer may be the payload of that many slots."""
    return slots == 1 or (len(buffer.shape) > 1 and buffer.shape[0] % slots == 0)


def _tile(buffer: MemDescType, slots: int) -> str:
    """The part of a buffer that one slot has: ``128x64xf16``."""
    shape = buffer.shape
    if len(shape) > 1 and shape[0] % slots == 0 and (slots > 1 or shape[0] == 1):
        shape = shape[1:] if shape[0] == slots else (shape[0] // slots, *shape[1:])
    return "x".join((*map(str, shape), buffer.element))


def _same(first: Value | None, second: Value | None) -> bool:
    """Whether two indices are one value, or none."""
    return first is second
