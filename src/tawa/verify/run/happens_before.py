"""One run of a program covers all its runs: happens-before over mbarriers, copies and asynchronous dots.

The partitions are interleaved in some order. Every event gets the set of events (a bit mask) that precede it in every
interleaving of the partitions and every completion order of the copies. One run represents all if two conditions hold:

    a contribution (arrival, expect, bytes) to phase k happens after the completion of phase k − 1
    a wait returns at the first phase of its parity after the phases in its partition's past; the barrier must not be
    able to complete the next phase before the wait has returned

If either is violated, another order of the same events behaves differently, and that is the fault: too many arrivals,
an aliased parity, a phase overrun. If both hold, all maximal runs have the same events in the same partial order (one
Mazurkiewicz trace). So a deadlock here is a deadlock in every run, and two accesses that this order leaves unordered
overlap in some run. This is full partial-order reduction: one run for each way in which the partitions decide.

A barrier on which no partition waits orders nothing: the run is the same, whichever arrivals share a phase. They need
no order if all are of one size that divides the count, so that none can exceed what is pending.

The same holds for named barriers (`run.named_barriers`). `run.memory` checks accesses. `run.recurrence` finds the
state that all continuations depend on: what is settled for every partition that may still ask is left out, hence it
recurs.

Source: PTX ISA, "mbarrier" (phase, expect-tx, try_wait.parity); Lamport's happens-before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from tawa.verify.run.events import Event
from tawa.verify.run.history import History, HistoryStep, Memories, event_name
from tawa.verify.run.memory import COMMITS_IN_ORDER, Access, Actor, Memory, Region
from tawa.verify.run.named_barriers import NamedBarriers
from tawa.verify.run.places import Place
from tawa.verify.verdict import FaultKind


@dataclass(slots=True, eq=False)
class Barrier:
    """One mbarrier. complete: how many phases are; recent: of the last of them the bit, the past and the contributions.

    parts, mask: the contributions to the current phase, and their past. waits: by partition, the wait that returned in
    this phase, and whether it waited for it. touched: by partition, its last access.
    """

    init: int
    count: int
    pending: int
    tx: int = 0
    parts: int = 0
    mask: int = 0
    complete: int = 0
    recent: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    waits: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])
    touched: dict[int, int] = field(default_factory=dict[int, int])

    def known(self, mask: int) -> int:
        """How many phases are complete in the causal past `mask`: their completion is, or all contributions are."""
        known = self.complete
        for bit, _, parts in reversed(self.recent):
            if mask & bit or not parts & ~mask:
                break
            known -= 1
        return known

    def past(self, phase: int) -> int:
        """The causal past of a phase that is complete; 0 if every partition knows it."""
        place = phase - self.complete
        return self.recent[place][1] if -len(self.recent) <= place < 0 else 0

    def copy(self) -> Barrier:
        """An independent copy."""
        made = Barrier(self.init, self.count, self.pending, self.tx, self.parts, self.mask, self.complete)
        made.recent = list(self.recent)
        made.waits, made.touched = dict(self.waits), dict(self.touched)
        return made


class Order:
    """The state of a run: barriers, memory, and the causal past of each partition."""

    def __init__(self, memories: Memories, names: Sequence[str], *, records: bool) -> None:
        self.memories = memories
        self.history = History(memories, records)
        self.name, self.fault = self.history.name, self.history.fault
        self.actors = [Actor(name, number) for number, name in enumerate(names)]
        self.assumed: dict[str, None] = {}
        self.memory = Memory(self.history, self.actors, self.assumed)
        self.barriers: dict[Place, Barrier] = {}
        self.dead: set[Place] = set()
        self.named = NamedBarriers(self.history)
        self.joined = 1

    def copy(self) -> Order:
        """An independent copy; `assumed` is shared."""
        made: Order = object.__new__(Order)
        copies: dict[Access, Access] = {}

        def of(access: Access) -> Access:
            found = copies.get(access)
            if found is None:
                found = copies[access] = access.copy()
            return found

        made.memories, made.assumed, made.joined = self.memories, self.assumed, self.joined
        made.history = History(self.memories, records=False)
        made.history.count = self.history.count
        made.name, made.fault = made.history.name, made.history.fault
        made.actors = [actor.copy(of) for actor in self.actors]
        made.memory = Memory(made.history, made.actors, self.assumed)
        for alloc, regions in self.memory.regions.items():
            own = made.memory.regions[alloc] = {}
            for place, region in regions.items():
                own[place] = Region(
                    {it: of(write) for it, write in region.writes.items()},
                    region.unwritten,
                    {it: of(read) for it, read in region.reads.items()},
                )
        made.barriers = {key: barrier.copy() for key, barrier in self.barriers.items()}
        made.dead = set(self.dead)
        made.named = self.named.copy(made.history)
        return made

    # -- partitions --------------------------------------------------------------------------------------------------

    def fork(self) -> None:
        """All partitions start: their past is that of the first."""
        for actor in self.actors[1:]:
            actor.mask = self.actors[0].mask

    def end(self, actor: Actor) -> None:
        """A partition ends."""
        self.joined |= actor.mask
        read = next((access for group in actor.stores for access in group), None)
        if read is not None:
            target = read.event.memory[0]
            message = f"{actor.name} ends while a TMA store may still read {self.name(target)}"
            last = HistoryStep(actor.name, "still reads", read.event, target)
            raise self.fault("leftover credit", message, actor.mask, last)

    def join(self) -> None:
        """The first partition has waited for the end of the others."""
        self.actors[0].mask |= self.joined

    def finish(self) -> None:
        """The kernel ends."""
        main = self.actors[0]
        self.end(main)
        for key, barrier in self.barriers.items():
            if barrier.tx:
                message = f"the kernel ends with {barrier.tx} bytes of {self.name(key)} outstanding"
                raise self.fault("transaction bytes", message, self.history.everything)
        late = self.memory.still_written(main.mask)
        if late is not None:
            memory, write = late
            message = f"the kernel ends while {event_name(write.event)} may still write {self.name(memory)}"
            last = HistoryStep(
                "TMA" if write.event.kind == "copy in" else "tensor cores", "still writes", write.event, memory
            )
            raise self.fault("leftover credit", message, main.mask | write.start, last)

    def _add(self, actor: Actor, event: Event) -> int:
        """Records a step of a partition; returns its causal past, including itself."""
        target = event.memory[0] if event.memory else event.barrier
        parity = event.parity if event.kind == "wait" else None
        actor.mask |= self.history.note(actor.name, event.kind, event, target, parity)
        return actor.mask

    def step(self, actor: Actor, event: Event) -> bool:
        """Executes one event; returns False if it blocks."""
        kind = event.kind
        if kind == "wait":
            return self._wait(actor, event)
        if kind == "wait at":
            if not self.named.wait(actor, event):
                return False
            self._add(actor, event)
            return True
        mask = self._add(actor, event)
        bit, memory = self.history.bit, self.memory
        match kind:
            case "arrive":
                self._contribute(actor, event, mask, arrivals=event.amount, tx=0)
            case "expect":
                self._contribute(actor, event, mask, arrivals=1, tx=event.amount)
            case "copy in":
                self._copy_in(actor, event)
            case "copy out":
                read = (*event.memory, event.descriptor) if event.descriptor is not None else event.memory
                actor.stores.append([memory.read(actor, event, place, proxy=True) for place in read])
            case "store wait":
                self._drain(actor.stores, event.amount)
            case "dot":
                actor.groups.append([memory.read(actor, event, place, proxy=True) for place in event.memory])
            case "dot wait":
                self._drain(actor.groups, event.amount)
            case "adds":
                actor.mmas.append(memory.read(actor, event, event.memory[0], proxy=True))
            case "tcgen05":
                target, *sources = event.memory
                actor.mmas += [memory.read(actor, event, place, proxy=True) for place in sources]
                actor.mmas.append(memory.write(actor, event, target, proxy=True))
            case "tcgen05 wait":
                actor.mask |= self._complete_mmas(actor, bit)
            case "commit":
                self._commit(actor, event, mask)
            case "write" | "free" | "read":
                self._access(actor, event)
            case "describe":  # what writes a descriptor makes it visible to TMA, too
                access = memory.write(actor, event, event.memory[0], proxy=False)
                access.end = access.fence = bit
            case "descriptor":
                access = memory.write(actor, event, event.memory[0], proxy=False)
                access.end = bit
                actor.unfenced.append(access)
            case "fence" | "descriptor fence":
                self._fence(actor, event, mask)
            case "cp.async":
                access = memory.write(actor, event, event.memory[0], proxy=False)
                actor.uncommitted.append(access)
                actor.unfenced.append(access)
            case "cp.async commit":
                actor.copies.append(actor.uncommitted)
                actor.uncommitted = []
            case "cp.async wait":
                for group in list(actor.copies)[: max(len(actor.copies) - event.amount, 0)]:
                    for access in group:  # copies covered by an arrival ended earlier: now that is in the past
                        actor.mask |= access.end
                self._drain(actor.copies, event.amount)
            case "copies arrive":
                self._copies_arrive(actor, event, mask)
            case "init" | "inval":
                self._lifecycle(actor, event, mask)
            case "arrive at":
                self.named.arrive(actor, event, mask)
            case _:
                self._refuse(event, mask)
        return True

    def _access(self, actor: Actor, event: Event) -> None:
        """An access through the generic proxy, which is complete at once."""
        for place in event.memory:
            start = self.memory.read if event.kind == "read" else self.memory.write
            proxies = not self.memories.in_tensor_memory(place)
            access = start(actor, event, place, proxy=not proxies)
            access.end = self.history.bit
            actor.unfenced += [access] if proxies else []
            if event.kind == "free":
                self.memory.forget(place)

    def _fence(self, actor: Actor, event: Event, mask: int) -> None:
        for access in actor.unfenced:
            if access.end & mask and (event.kind == "fence" or access.event.kind == "descriptor"):
                access.fence |= self.history.bit
        actor.unfenced = [access for access in actor.unfenced if not access.fence]
        self.memory.fence_copies(actor)

    def _refuse(self, event: Event, mask: int) -> NoReturn:
        """Raises the fault of an event that is one in itself."""
        if event.kind == "reserved":
            reason = "starts and ends the partitions in Triton's code"
            message = f"{self.name(event.key)} {reason}: {self.memories.free_barriers}"
            raise self.fault("reserved barrier", message, mask)
        message = (
            f"{event.op.name} uses the result of a wgmma past its wait: only results of the wait are complete"
            if event.amount
            else f"{event.op.name} uses an accumulator that a wgmma still writes"
        )
        raise self.fault("accumulator in flight", message, mask)

    # -- mbarriers ---------------------------------------------------------------------------------------------------

    def _lifecycle(self, actor: Actor, event: Event, mask: int) -> None:
        key = event.key
        known = self.barriers.get(key)
        if event.kind == "init":
            self.history.require_inside(event, key, mask)
            if known is not None:
                message = f"{self.name(key)} is initialised again without an invalidation"
                raise self.fault("barrier lifecycle", message, mask)
            if event.amount < 1:
                raise self.fault("arrive count", f"{self.name(key)} expects {event.amount} arrivals", mask)
            self.barriers[key] = Barrier(self.history.bit, event.amount, event.amount)
            self._touch(self.barriers[key], actor)
            return
        if known is None:
            raise self.fault("barrier lifecycle", f"{self.name(key)} is invalidated but not initialised", mask)
        if any(bit & ~mask for bit in known.touched.values()) or known.tx:
            message = f"{self.name(key)} is invalidated while another partition may still use it"
            raise self.fault("barrier lifecycle", message, mask | sum(known.touched.values()))
        del self.barriers[key]
        self.dead.add(key)

    def _touch(self, barrier: Barrier, actor: Actor) -> None:
        if self.memories.invalidated:
            barrier.touched[actor.number] = self.history.bit

    def _barrier(self, actor: Actor, event: Event) -> Barrier:
        key = event.key
        barrier = self.barriers.get(key)
        if barrier is None or not actor.mask & barrier.init:
            why = "has been invalidated" if key in self.dead else "is not initialised"
            last = HistoryStep(actor.name, event.kind, event, key)
            self.history.require_inside(event, key, actor.mask, last)
            raise self.fault("barrier lifecycle", f"{self.name(key)} {why}", actor.mask, last)
        return barrier

    def _contribute(self, actor: Actor, event: Event, mask: int, arrivals: int, tx: int) -> None:
        """Adds arrivals and bytes to the current phase; completes the phase if nothing is pending."""
        barrier, key = self._barrier(actor, event), event.key
        self._touch(barrier, actor)
        if self._is_unobserved(key, barrier):
            return
        if barrier.recent and barrier.known(mask) < barrier.complete:
            kind: FaultKind = "transaction bytes" if event.kind == "copy in" else "arrive count"
            message = (
                f"{event_name(event)} on {self.name(key)} may happen before phase {barrier.complete - 1} completes, "
                f"and then counts for that phase (arrival count {barrier.count})"
            )
            raise self.fault(kind, message, mask)
        barrier.pending -= arrivals
        barrier.tx += tx
        barrier.parts |= self.history.bit
        barrier.mask |= mask
        if barrier.pending < 0:
            message = f"{self.name(key)}: {-barrier.pending} more arrivals than its arrival count of {barrier.count}"
            raise self.fault("arrive count", message, barrier.mask)
        if barrier.pending == 0 and barrier.tx < 0:
            message = f"{self.name(key)}: {-barrier.tx} more transaction bytes arrive than expected"
            raise self.fault("transaction bytes", message, barrier.mask)
        if barrier.pending == 0 and barrier.tx == 0:
            self._complete(barrier, key)

    def _is_unobserved(self, key: Place, barrier: Barrier) -> bool:
        """Whether no partition waits on a barrier, no bytes arrive on it, and no arrival can exceed what is pending."""
        size = self.memories.unobserved.get(key.alloc)
        return size is not None and barrier.count % size == 0

    def _complete(self, barrier: Barrier, key: Place) -> None:
        phase = barrier.complete
        bit = self.history.note("barrier", "phase completes", None, key, phase & 1)
        for wait, fresh in barrier.waits.values():
            if wait & ~barrier.mask:
                kind: FaultKind = "phase overrun" if fresh or phase == 0 else "parity alias"
                message = (
                    f"{self.name(key)} may complete phase {phase} before a wait for phase {phase - 1} returns: "
                    f"the wait then sees the parity of an older phase"
                    if phase
                    else f"{self.name(key)} may complete phase 0 before a wait with parity 1, which a new barrier "
                    "passes, returns: it then waits for phase 1"
                )
                raise self.fault(kind, message, barrier.mask | bit, *self.history.at(wait))
        barrier.complete += 1
        barrier.recent.append((bit, barrier.mask | bit, barrier.parts))
        barrier.pending, barrier.mask, barrier.parts = barrier.count, 0, 0
        barrier.waits.clear()

    def _wait(self, actor: Actor, event: Event) -> bool:
        barrier, key = self._barrier(actor, event), event.key
        completed, known = barrier.complete, barrier.known(actor.mask)
        fresh = known & 1 == event.parity
        passes = known + 1 if fresh else known
        if completed < passes:
            return False
        if completed > passes:
            last = HistoryStep(actor.name, "wait", event, key, event.parity)
            if fresh:
                how = f"may find phase {passes} already complete, and then waits for phase {passes + 1}"
            else:
                how = f"passes at once, or waits for phase {passes + 1} if phase {passes} is already complete"
            message = f"a wait on {self.name(key)} for parity {event.parity} {how}: it depends on timing"
            kind: FaultKind = "phase overrun" if fresh else "parity alias"
            raise self.fault(kind, message, actor.mask | barrier.past(passes), last)
        if passes:
            actor.mask |= barrier.past(passes - 1)
        self._add(actor, event)
        self._touch(barrier, actor)
        barrier.waits[actor.number] = self.history.bit, fresh
        return True

    def deadlock(self, blocked: Sequence[tuple[Actor, Event]]) -> Exception:
        """The fault of a run that cannot go on: each partition with the event that blocks it."""
        reasons, kind = list[str](), "deadlock"
        last: list[HistoryStep] = []
        for actor, event in blocked:
            key = event.key
            if event.kind == "wait at":
                reasons.append(f"{actor.name} waits at {self.named.lacks(key)}")
                last.append(HistoryStep(actor.name, event.kind, event, key))
                continue
            barrier = self.barriers[key]
            missing = [f"{barrier.pending} of {barrier.count} arrivals"] if barrier.pending else []
            missing += [f"{barrier.tx} bytes"] if barrier.tx else []
            phase = f"phase {barrier.complete} (parity {event.parity}) of {self.name(key)}"
            lacks = f", which lacks {' and '.join(missing)}" if missing else ""
            reasons.append(f"{actor.name} waits for {phase}{lacks}")
            last.append(HistoryStep(actor.name, "wait", event, key, event.parity))
            if barrier.tx:
                kind = "transaction bytes"
            elif barrier.pending < barrier.count and kind == "deadlock":
                kind = "arrive count"
        for barrier in self.barriers.values():
            if barrier.pending == 0 and barrier.tx:
                kind = "transaction bytes"
        return self.fault(_fault_kind(kind), "deadlock: " + "; ".join(reasons), self.history.everything, *last)

    def _copy_in(self, actor: Actor, event: Event) -> None:
        accesses = [self.memory.write(actor, event, memory, proxy=True) for memory in event.memory]
        if event.descriptor is not None:
            accesses.append(self.memory.read(actor, event, event.descriptor, proxy=True))
        landed = self.history.note("TMA", "copy lands", event, event.memory[0], None)
        for access in accesses:
            access.end = landed
        self._contribute(actor, event, actor.mask | landed, arrivals=0, tx=-event.amount)

    def _copies_arrive(self, actor: Actor, event: Event, mask: int) -> None:
        """The earlier copies land, then all threads of the partition arrive. Asynchronous: the partition goes on."""
        issued = [access for group in (*actor.copies, actor.uncommitted) for access in group if not access.end]
        if issued:
            landed = self.history.note("cp.async", "copies land", event, issued[0].event.memory[0], None)
            mask |= landed
            for access in issued:
                access.end = landed
        self._contribute(actor, event, mask, arrivals=event.amount, tx=0)

    def _commit(self, actor: Actor, event: Event, mask: int) -> None:
        """The earlier tcgen05 operations of the thread complete, then it arrives. Its commits arrive in order."""
        landed = self.history.note("tensor cores", "arrive", event, event.key, None)
        mask |= landed | self._complete_mmas(actor, landed)
        if actor.committed & ~mask:
            self.assumed[COMMITS_IN_ORDER] = None
        actor.committed |= mask
        self._contribute(actor, event, actor.committed, arrivals=event.amount, tx=0)
        actor.committed |= self.history.bit

    def _complete_mmas(self, actor: Actor, bit: int) -> int:
        """Ends the accesses of tcgen05 operations in flight at a step; returns the bits of their ends."""
        ends = 0
        for access in actor.mmas:
            access.end = self.history.part(bit)
            ends |= access.end
        actor.mmas.clear()
        return ends

    def _drain(self, queue: deque[list[Access]], left: int) -> None:
        while len(queue) > left:
            for access in queue.popleft():
                access.end = access.end or self.history.bit


def _fault_kind(kind: str) -> FaultKind:
    return "transaction bytes" if kind == "transaction bytes" else "arrive count" if kind != "deadlock" else "deadlock"
