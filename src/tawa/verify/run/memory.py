"""Memory in a run: every access must be ordered after all earlier accesses that it conflicts with.

    both      of slots that exist
    write     after the last write of the same memory and all reads since then; a write through the async proxy needs a
              fence after each access through the generic proxy
    read      after the last write; a read through the async proxy needs a fence after a write through the generic proxy

In the proof, a load of a number that crosses partitions must read the store of the same iterations (`OtherNumber`).

An asynchronous access (TMA, an asynchronous dot, cp.async) is in flight from its start until a wait of its partition,
or a barrier, implies its completion. The memory is shared memory, and descriptors in global memory that the kernel
writes: a TMA copy reads its descriptor while it is in flight.

Source: PTX ISA, "Async proxy", "wgmma.wait_group", "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tawa.dialects.tcgen05 import TMEMCopyOp, dot_of
from tawa.dialects.ttg import LocalAllocOp
from tawa.ir import MemDescType, Operation, parse_type
from tawa.verify.run.events import Event
from tawa.verify.run.history import History, event_name
from tawa.verify.run.places import Place, overlap
from tawa.verify.verdict import FaultKind

FENCES_FOLLOW = "Triton's pass that inserts proxy fences runs behind this level (operands stored for one dot)"
"""Assumed of an operand that ``ttg.local_alloc`` stores, immutable, for a dot: only Triton's own passes make those."""

COPIES_SEEN = (
    "a dot sees what cp.async of the same warps wrote and they have waited for (Triton's pipelines rely on it)"
)
IN_ORDER = ("adds", "tcgen05")
"""Events of tcgen05 operations in flight, which those of one thread begin in the order of issue."""
MMAS_IN_ORDER = (
    "tcgen05 operations of one thread are executed in the order of issue, whatever their accumulators (PTX promises it "
    "for one accumulator; FlashAttention-4 and Triton rely on it)"
)
COMMITS_IN_ORDER = (
    "commits of one thread arrive in the order of issue (PTX promises that what they track is complete, not that an "
    "earlier commit has arrived)"
)
TENSOR_FENCES = (
    "a wait on an mbarrier orders accesses of tensor memory (PTX asks for tcgen05.fence beside it, which Triton's back "
    "end does not emit)"
)
FENCED_READS = "Triton's back end inserts the proxy fence between a load and a TMA copy of one partition (since 3.6)"


class OtherNumber(Exception):
    """A load reads a number that was stored in another iteration."""


class Access:
    """A read or write of memory between the steps `start` and `end` (bits); it is in flight while end is 0.

    proxy: through the async proxy. begun: the causal past of `start`, itself included. fence: the bits of the proxy
    fences after an access through the generic proxy; one of them in the past of an access suffices.
    """

    __slots__ = ("begun", "end", "event", "fence", "partition", "proxy", "start")

    def __init__(self, start: int, event: Event, partition: int, proxy: bool, begun: int) -> None:
        self.start, self.end, self.event, self.partition = start, 0, event, partition
        self.proxy, self.begun, self.fence = proxy, begun, 0

    def copy(self) -> Access:
        """An independent copy."""
        made = Access(self.start, self.event, self.partition, self.proxy, self.begun)
        made.end, made.fence = self.end, self.fence
        return made


@dataclass(slots=True, eq=False)
class Region:
    """The last write of a region, and the reads since then: the last of each partition and kind.

    writes: the last write, by who issued it; in a state that stands for several runs, the last one of each run.
    unwritten: in one of these runs, it was not written yet.
    """

    writes: dict[tuple[Any, ...], Access] = field(default_factory=dict[tuple[Any, ...], Access])
    unwritten: bool = False
    reads: dict[tuple[int, str], Access] = field(default_factory=dict[tuple[int, str], Access])


@dataclass(slots=True, eq=False)
class Actor:
    """A partition in a run: its causal past (`mask`), and its accesses in flight.

    issued: the number of dots; done: the first that may be in flight. unfenced: accesses through the generic proxy.
    mmas: accesses of tcgen05 operations without a commit. committed: what its last commit knows when it arrives.
    """

    name: str
    number: int
    mask: int = 1
    groups: deque[list[Access]] = field(default_factory=deque[list[Access]])
    stores: deque[list[Access]] = field(default_factory=deque[list[Access]])
    copies: deque[list[Access]] = field(default_factory=deque[list[Access]])
    uncommitted: list[Access] = field(default_factory=list[Access])
    unfenced: list[Access] = field(default_factory=list[Access])
    mmas: list[Access] = field(default_factory=list[Access])
    committed: int = 0
    issued: int = 0
    done: int = 0

    def queues(self) -> tuple[deque[list[Access]], deque[list[Access]], deque[list[Access]]]:
        """The queues of accesses in flight."""
        return self.groups, self.stores, self.copies

    def copy(self, of: Callable[[Access], Access]) -> Actor:
        """A copy whose accesses are those that `of` gives."""
        made = Actor(self.name, self.number, self.mask, committed=self.committed, issued=self.issued, done=self.done)
        for mine, theirs in zip(made.queues(), self.queues(), strict=True):
            mine.extend([of(it) for it in group] for group in theirs)
        made.uncommitted = [of(it) for it in self.uncommitted]
        made.unfenced = [of(it) for it in self.unfenced]
        made.mmas = [of(it) for it in self.mmas]
        return made


class Memory:
    """All allocations, by number, each with the regions that were accessed.

    actors: all partitions, for messages. assumed: what was relied on.
    """

    def __init__(self, history: History, actors: list[Actor], assumed: dict[str, None]) -> None:
        self.history = history
        self.actors = actors
        self.assumed = assumed
        self.regions: dict[int, dict[Place, Region]] = {}

    def forget(self, memory: Place) -> None:
        """Drops the accesses of an allocation that is freed."""
        self.regions[memory.alloc] = {}

    def fence_copies(self, actor: Actor) -> None:
        """A proxy fence of a partition that has waited for a cp.async also covers the write of that cp.async."""
        for regions in self.regions.values():
            for region in regions.values():
                for write in region.writes.values():
                    if write.event.kind == "cp.async" and write.end & actor.mask:
                        write.fence |= self.history.bit

    def _at(self, actor: Actor, event: Event, memory: Place) -> tuple[Place, list[Region]]:
        """The region of an access, and those that it overlaps."""
        place = memory.place
        regions = self.regions.setdefault(place.alloc, {})
        if place not in regions:
            self.history.require_inside(event, place, actor.mask)
        return place, [region for other, region in regions.items() if overlap(other, place)]

    def write(self, actor: Actor, event: Event, memory: Place, *, proxy: bool) -> Access:
        """A write that starts at the latest step; raises Fault if it may overlap another access."""
        memory, overlapping = self._at(actor, event, memory)
        for region in overlapping:
            for write in region.writes.values():
                self._ordered(actor, write, event, memory, "write-write race")
                if proxy and not write.proxy:
                    self._fenced(actor, write, event, memory, "writes")
            for read in region.reads.values():
                self._ordered(actor, read, event, memory, "write before release")
                if proxy and not read.proxy:
                    self._fenced(actor, read, event, memory, "writes")
        access = Access(self.history.bit, event, actor.number, proxy, actor.mask)
        self.regions[memory.alloc][memory] = Region({_issuer(access): access})
        return access

    def read(self, actor: Actor, event: Event, memory: Place, *, proxy: bool) -> Access:
        """A read that starts at the latest step; raises Fault if nothing was written or a write may be in flight."""
        memory, overlapping = self._at(actor, event, memory)
        access = Access(self.history.bit, event, actor.number, proxy, actor.mask)
        written = False
        for region in overlapping:
            for write in region.writes.values():
                written = written or not region.unwritten
                self._ordered(actor, write, event, memory, "read before write")
                if event.number is not None and event.number != write.event.number:
                    raise OtherNumber
                if proxy and not write.proxy:
                    self._fenced(actor, write, event, memory, "reads")
        if not written:
            message = f"{event_name(event)} reads {self.history.name(memory)}, which was never written"
            raise self.history.fault("read before write", message, actor.mask)
        self.regions[memory.alloc].setdefault(memory, Region()).reads[actor.number, event.kind] = access
        return access

    def _ordered(self, actor: Actor, earlier: Access, event: Event, memory: Place, kind: FaultKind) -> None:
        apart = earlier.partition != actor.number
        if earlier.end and actor.mask & earlier.end:
            if apart and self.history.memories.in_tensor_memory(memory):
                self.assumed[TENSOR_FENCES] = None
            return
        if not apart and event.kind in IN_ORDER and earlier.event.kind in IN_ORDER:
            self.assumed |= {} if _is_pipelined(earlier.event, event) else {MMAS_IN_ORDER: None}
            return
        name = self.history.name(memory)
        still = f"{event_name(earlier.event)} of {self.actors[earlier.partition].name}"
        message = (
            f"{name} is freed while {still} may still access it: its memory may be reused for other tiles"
            if event.kind == "free"
            else f"{event_name(event)} of {actor.name} accesses {name} while {still} may still access it"
        )
        mine = self.history.bit
        raise self.history.fault(kind, message, earlier.begun | (actor.mask & ~mine), *self.history.at(mine))

    def _fenced(
        self, actor: Actor, earlier: Access, event: Event, memory: Place, act: Literal["reads", "writes"]
    ) -> None:
        if earlier.fence & actor.mask:
            return
        reliance = _relied_on(earlier, event, earlier.partition == actor.number)
        if reliance:
            self.assumed[reliance] = None
            return
        did, who = ("read", "the reader") if earlier.event.kind == "read" else ("wrote", "the writer")
        message = (
            f"{event_name(event)} {act} {self.history.name(memory)} through the async proxy; "
            f"{event_name(earlier.event)} of {self.actors[earlier.partition].name} {did} it through the generic proxy, "
            "without a fence_async_shared in between by "
            f"{'a partition that waited for it' if earlier.event.kind == 'cp.async' else who}"
        )
        raise self.history.fault("missing fence", message, actor.mask | earlier.start)

    def still_written(self, mask: int) -> tuple[Place, Access] | None:
        """Memory that a TMA copy may still write after the causal past `mask`, or None."""
        for regions in self.regions.values():
            for memory, region in regions.items():
                for write in region.writes.values():
                    if write.proxy and not mask & write.end:
                        return memory, write
        return None


def _issuer(access: Access) -> tuple[Any, ...]:
    """Who issued a tcgen05 operation, which his later ones follow in order, and of which types; () for other accesses.

    Whether PTX promises that order depends on the types alone, for operations that write the same memory.
    """
    return (access.partition, *types_of(access.event.op)) if access.event.kind in IN_ORDER else ()


def _is_pipelined(earlier: Event, event: Event) -> bool:
    """Whether PTX promises the order of two tcgen05 operations: dots of one accumulator, or a copy before a dot."""
    if earlier.op is event.op or TMEMCopyOp.matches(earlier.op):
        return True
    if earlier.memory[0].place != event.memory[0].place:
        return False
    return types_of(earlier.op) == types_of(event.op) != ()


def types_of(op: Operation) -> tuple[str, ...]:
    """The types of A, B and the accumulator of a tcgen05 dot; () for another operation."""
    dot = dot_of(op)
    return () if dot is None else (dot.a.type, dot.b.type, dot.d.type)


def _relied_on(earlier: Access, event: Event, same: bool) -> str:
    """What stands in for a fence, although PTX does not promise it; empty if nothing does. same: in one partition.

    Triton's own passes insert the fence for an operand that was stored from registers for one dot. Such an allocation
    is immutable; those of Gluon are mutable, and no pass of Gluon inserts a fence.
    """
    alloc = LocalAllocOp.of(earlier.event.op)
    kind = parse_type(alloc.op.result.type) if alloc else None
    if event.kind in ("dot", "tcgen05") and isinstance(kind, MemDescType) and not kind.mutable:
        return FENCES_FOLLOW
    if event.kind == "dot" and earlier.event.kind == "cp.async" and same:
        return COPIES_SEEN
    return FENCED_READS if event.kind == "copy in" and earlier.event.kind == "read" and same else ""
