"""Memory in a run: every access must be ordered after all earlier accesses that it conflicts with.

    both      of slots that exist
    write     after the last write of the same memory and all reads since then; a write through the async proxy needs a
              fence after each of them that went through the generic proxy
    read      after the last write; a read through the async proxy needs a fence after a write through the generic proxy

A load of a number that decides control flow must read the store that the unrolling took the number from; otherwise the
check does not understand the program.

An asynchronous access (TMA, wgmma, cp.async) is in flight from its start until a wait of its partition, or a barrier,
implies its completion. The memory is shared memory, and descriptors in global memory that the kernel writes more than
once: a TMA copy reads its descriptor while it is in flight.

Source: PTX ISA, "Async proxy", "wgmma.wait_group", "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from tawa.dialects.ttg import LocalAllocOp
from tawa.ir import MemDescType, parse_type
from tawa.verify.barriers.program.kernel import Memory, NotUnderstood
from tawa.verify.barriers.run.events import Event
from tawa.verify.barriers.run.history import Access, History, Thread, event_name
from tawa.verify.verdict import FaultKind


@dataclass(slots=True)
class _Region:
    """The last write of a region, and the reads since then."""

    write: Access | None = None
    reads: list[Access] = field(default_factory=list[Access])


class SharedMemory:
    """All allocations, by number, each with the regions that were accessed."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.regions: dict[int, dict[Memory, _Region]] = {}

    def forget(self, memory: Memory) -> None:
        """Drops the accesses of an allocation that is freed."""
        self.regions[memory.alloc] = {}

    def fence_copies(self, thread: Thread) -> None:
        """A proxy fence of a partition that has waited for a cp.async also covers the write of that cp.async."""
        for regions in self.regions.values():
            for region in regions.values():
                write = region.write
                if write is not None and write.event.kind == "cp.async" and write.end & thread.mask:
                    write.fence |= self.history.bit

    def _overlapping(self, memory: Memory) -> Iterable[tuple[Memory, _Region]]:
        regions = self.regions.setdefault(memory.alloc, {})
        return [(key, region) for key, region in regions.items() if _overlap(key, memory)]

    def _place(self, thread: Thread, event: Event, memory: Memory) -> Memory:
        place = memory.place
        if place not in self.regions.setdefault(place.alloc, {}):
            self.history.require_inside(event, place, thread.mask)
        return place

    def write(self, thread: Thread, event: Event, memory: Memory, *, asynchronous: bool) -> Access:
        """A write that starts at the latest step; raises Fault if it may overlap another access."""
        memory = self._place(thread, event, memory)
        for _, region in self._overlapping(memory):
            if region.write is not None:
                self._ordered(thread, region.write, event, memory, "write-write race")
                if asynchronous and not region.write.asynchronous:
                    self._fenced(thread, region.write, event, memory, "writes")
            for read in region.reads:
                self._ordered(thread, read, event, memory, "write before release")
                if asynchronous and not read.asynchronous:
                    self._fenced(thread, read, event, memory, "writes")
        access = Access(self.history.bit, 0, event, thread.trace.partition, asynchronous, thread.mask)
        self.regions[memory.alloc][memory] = _Region(access)
        return access

    def read(self, thread: Thread, event: Event, memory: Memory, *, asynchronous: bool) -> Access:
        """A read that starts at the latest step; raises Fault if nothing was written or a write may be in flight."""
        memory = self._place(thread, event, memory)
        access = Access(self.history.bit, 0, event, thread.trace.partition, asynchronous, thread.mask)
        written = False
        for _, region in self._overlapping(memory):
            if region.write is not None:
                written = True
                self._ordered(thread, region.write, event, memory, "read before write")
                if event.number >= 0 and event.number != region.write.event.number:
                    raise NotUnderstood(
                        "a number is read from a slot that holds another one than was expected", event.op
                    )
                if asynchronous and not region.write.asynchronous:
                    self._fenced(thread, region.write, event, memory, "reads")
        if not written:
            message = f"{event_name(event)} reads {self.history.name(memory)}, which was never written"
            raise self.history.fault("read before write", message, thread.mask)
        self.regions[memory.alloc].setdefault(memory, _Region()).reads.append(access)
        return access

    def _ordered(self, thread: Thread, earlier: Access, event: Event, memory: Memory, kind: FaultKind) -> None:
        if earlier.end and thread.mask & earlier.end:
            return
        name, still = self.history.name(memory), f"{event_name(earlier.event)} of {earlier.partition}"
        message = (
            f"{name} is freed while {still} may still access it: its memory may be reused for other tiles"
            if event.kind == "free"
            else f"{event_name(event)} of {thread.trace.partition} accesses {name} while {still} may still access it"
        )
        mine = self.history.bit
        steps = earlier.begun | (thread.mask & ~mine)
        raise self.history.fault(kind, message, steps, self.history.steps[mine.bit_length() - 1])

    def _fenced(
        self, thread: Thread, earlier: Access, event: Event, memory: Memory, act: Literal["reads", "writes"]
    ) -> None:
        if earlier.fence and thread.mask & earlier.fence:
            return
        if event.kind == "dot" and _fenced_by_triton(earlier.event):
            return
        did, who = ("read", "the reader") if earlier.event.kind == "read" else ("wrote", "the writer")
        message = (
            f"{event_name(event)} {act} {self.history.name(memory)} through the async proxy; "
            f"{event_name(earlier.event)} of {earlier.partition} {did} it through the generic proxy, without a "
            "fence_async_shared in between by "
            f"{'a partition that waited for it' if earlier.event.kind == 'cp.async' else who}"
        )
        raise self.history.fault("missing fence", message, thread.mask | earlier.start)

    def still_written(self, mask: int) -> tuple[Memory, Access] | None:
        """Memory that a TMA copy may still write after the causal past `mask`, or None."""
        for regions in self.regions.values():
            for memory, region in regions.items():
                if region.write is not None and region.write.asynchronous and not mask & region.write.end:
                    return memory, region.write
        return None


def _fenced_by_triton(write: Event) -> bool:
    """Whether Triton's back end inserts the fence between a write and a wgmma.

    It does for an operand that was stored from registers for one dot. Such an allocation is immutable. Those of Gluon
    are mutable, and no pass of Gluon inserts a fence.
    """
    alloc = LocalAllocOp.of(write.op)
    kind = parse_type(alloc.op.result.type) if alloc else None
    return isinstance(kind, MemDescType) and not kind.mutable


def _overlap(one: Memory, other: Memory) -> bool:
    shared = min(len(one.path), len(other.path))
    if one.path[:shared] != other.path[:shared]:
        return False
    if len(one.path) != len(other.path) or one.box is None or other.box is None:
        return True
    return all(low < top and start < end for (low, end), (start, top) in zip(one.box, other.box, strict=True))
