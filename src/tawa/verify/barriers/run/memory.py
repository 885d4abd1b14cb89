"""Memory in a run: is every access ordered behind those that it must not meet, in whatever order things land?

    write     behind the last write of the same place and all reads since then; through the async proxy, with a fence
              where the generic proxy read
    read      behind the last write; through the async proxy, with a fence where the generic proxy wrote

An asynchronous access (TMA, wgmma, cp.async) lasts from its start until a wait of its partition, or a barrier, says
that it is over. Beside shared memory these are descriptors in global memory that the kernel writes more than once: a
TMA copy reads its own, from its start to its end.

Source: PTX ISA, "Async proxy", "wgmma.wait_group", "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tawa.dialects.ttg import LocalAllocOp
from tawa.verify.barriers.program.kernel import Memory
from tawa.verify.barriers.run.events import Event
from tawa.verify.barriers.run.history import Access, History, Thread, spell
from tawa.verify.verdict import FaultKind


@dataclass(slots=True)
class _Region:
    """The last write of a piece of memory, and its reads since then."""

    write: Access | None = None
    reads: list[Access] = field(default_factory=list[Access])


class SharedMemory:
    """All allocations, by number; each piece that was accessed as it was accessed."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.regions: dict[int, dict[Memory, _Region]] = {}

    def forget(self, memory: Memory) -> None:
        """The allocation is free."""
        self.regions[memory.alloc] = {}

    def fence_copies(self, thread: Thread) -> None:
        """A fence of somebody who knows that a cp.async has landed: his wgmmas and stores see what it wrote."""
        for regions in self.regions.values():
            for region in regions.values():
                write = region.write
                if write is not None and write.event.kind == "cp.async" and write.end & thread.mask:
                    write.fence |= self.history.bit

    def _overlapping(self, memory: Memory) -> Iterable[tuple[Memory, _Region]]:
        regions = self.regions.setdefault(memory.alloc, {})
        return [(key, region) for key, region in regions.items() if _overlap(key, memory)]

    def write(self, thread: Thread, event: Event, memory: Memory, *, asynchronous: bool) -> Access:
        """A write that begins at the latest step; raises Fault where it meets another access."""
        memory = memory._replace(reshaped=False) if memory.reshaped else memory
        for _, region in self._overlapping(memory):
            if region.write is not None:
                self._ordered(thread, region.write, event, memory, "write-write race")
            for read in region.reads:
                self._ordered(thread, read, event, memory, "write before release")
                if asynchronous and not read.asynchronous:
                    self._fenced_read(thread, read, event, memory)
        access = Access(self.history.bit, 0, event, thread.trace.partition, asynchronous, thread.mask)
        self.regions[memory.alloc][memory] = _Region(access)
        return access

    def read(self, thread: Thread, event: Event, memory: Memory, *, asynchronous: bool) -> Access:
        """A read that begins at the latest step; raises Fault where nothing was written or a write is under way."""
        memory = memory._replace(reshaped=False) if memory.reshaped else memory
        access = Access(self.history.bit, 0, event, thread.trace.partition, asynchronous, thread.mask)
        written = False
        for _, region in self._overlapping(memory):
            if region.write is not None:
                written = True
                self._ordered(thread, region.write, event, memory, "read before write")
                if asynchronous and not region.write.asynchronous:
                    self._fenced(thread, region.write, event, memory)
        if not written:
            message = f"{spell(event)} reads {self.history.name(memory)}, which nobody has written"
            raise self.history.fault("read before write", message, thread.mask)
        self.regions[memory.alloc].setdefault(memory, _Region()).reads.append(access)
        return access

    def _ordered(self, thread: Thread, earlier: Access, event: Event, memory: Memory, kind: FaultKind) -> None:
        if earlier.end and thread.mask & earlier.end:
            return
        name, still = self.history.name(memory), f"{spell(earlier.event)} of {earlier.partition}"
        message = (
            f"{name} is free for other tiles while {still} may still be at work there: it is used no more"
            if event.kind == "free"
            else f"{spell(event)} of {thread.trace.partition} touches {name} while {still} may still be at work there"
        )
        mine = self.history.bit
        steps = earlier.begun | (thread.mask & ~mine)
        raise self.history.fault(kind, message, steps, self.history.steps[mine.bit_length() - 1])

    def _fenced(self, thread: Thread, write: Access, event: Event, memory: Memory) -> None:
        if write.fence and thread.mask & write.fence:
            return
        if event.kind == "dot" and LocalAllocOp.matches(write.event.op):
            return  # Triton's back end puts this fence in: an operand that was brought from registers for one dot
        message = (
            f"{spell(event)} reads {self.history.name(memory)} through the async proxy; {spell(write.event)} wrote it "
            f"through the generic proxy, and no fence_async_shared of "
            f"{'somebody who knows that it landed' if write.event.kind == 'cp.async' else 'the writer'} stands between"
        )
        raise self.history.fault("missing fence", message, thread.mask | write.start)

    def _fenced_read(self, thread: Thread, read: Access, event: Event, memory: Memory) -> None:
        if read.fence and thread.mask & read.fence:
            return
        message = (
            f"{spell(event)} writes {self.history.name(memory)} through the async proxy; {spell(read.event)} of "
            f"{read.partition} read it through the generic proxy, and no fence_async_shared of the reader stands "
            "between"
        )
        raise self.history.fault("missing fence", message, thread.mask | read.start)

    def still_written(self, mask: int) -> tuple[Memory, Access] | None:
        """A place that a TMA copy may still write, for all that is known."""
        for regions in self.regions.values():
            for memory, region in regions.items():
                if region.write is not None and region.write.asynchronous and not mask & region.write.end:
                    return memory, region.write
        return None


def _overlap(one: Memory, other: Memory) -> bool:
    shared = min(len(one.path), len(other.path))
    if one.path[:shared] != other.path[:shared]:
        return False
    if len(one.path) != len(other.path) or one.box is None or other.box is None:
        return True
    return all(low < top and start < end for (low, end), (start, top) in zip(one.box, other.box, strict=True))
