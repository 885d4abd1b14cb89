"""One run of an unrolled program covers all its runs: happens-before over mbarriers, copies and wgmma groups.

The partitions are interleaved in some order. Every event gets the set of events (a bit mask) that precede it in every
interleaving of the partitions and every completion order of the copies. One run represents all if two conditions hold:

    a contribution (arrival, expect, bytes) to phase k happens after the completion of phase k − 1
    a wait returns at the first phase of its parity after the phases in its partition's past; the barrier must not be
    able to complete the next phase before the wait has returned

If either is violated, another order of the same events behaves differently, and that is the fault: too many arrivals,
an aliased parity, a phase overrun. If both hold, all maximal runs have the same events in the same partial order (one
Mazurkiewicz trace). So a deadlock here is a deadlock in every run, and two accesses that this order leaves unordered
overlap in some run. This is full partial-order reduction: one run per vector of trip counts.

A barrier on which no partition waits orders nothing: the run is the same, whichever arrivals share a phase. They need
no order if all are of one size that divides the count, so that none can exceed what is pending.

The same holds for named barriers (`run.named_barriers`). This module executes events and mbarriers; `run.memory` checks
accesses, `run.history` records the order of steps.

Source: PTX ISA, "mbarrier" (phase, expect-tx, try_wait.parity); Lamport's happens-before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tawa.verify.barriers.program.assembly import forks_of, free_barriers, most_partitions
from tawa.verify.barriers.program.kernel import BarrierProgram, Memory
from tawa.verify.barriers.run.events import Event, Segment
from tawa.verify.barriers.run.history import Access, History, HistoryStep, Thread, event_name
from tawa.verify.barriers.run.memory import SharedMemory
from tawa.verify.barriers.run.named_barriers import NamedBarriers
from tawa.verify.verdict import FaultKind


@dataclass(slots=True)
class _Barrier:
    """One mbarrier. `phases`: bits of the completions so far; `masks`: the causal past of each."""

    init: int
    count: int
    pending: int
    tx: int = 0
    mask: int = 0
    phases: list[int] = field(default_factory=list[int])
    masks: list[int] = field(default_factory=list[int])
    waits: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    touched: int = 0

    def known(self, phase: int, mask: int) -> bool:
        """Whether the completion of a phase is in the causal past `mask`: itself, or all that it depends on."""
        return bool(mask & self.phases[phase]) or not self.masks[phase] & ~self.phases[phase] & ~mask


class BarrierRun:
    """Executes one unrolled program; raises Fault on a violation."""

    def __init__(self, program: BarrierProgram, segments: list[Segment]) -> None:
        self.program = program
        self.segments = segments
        self.history = History(program)
        self.name, self.fault = self.history.name, self.history.fault
        self.memory = SharedMemory(self.history)
        self.barriers: dict[Memory, _Barrier] = {}
        self.dead: set[Memory] = set()
        self.named = NamedBarriers(self.history)

    def execute(self) -> int:
        """Runs to the end; returns the number of steps."""
        mask = 0
        main: Thread | None = None
        for segment in self.segments:
            threads = [Thread(trace, mask) for trace in segment]
            if main is not None:
                main.trace, main.next = segment[0], 0
                threads[0] = main
            self._run_segment(threads)
            main = threads[0]
            for thread in threads:
                mask |= thread.mask
                if thread is not main:
                    self._end_of_partition(thread)
            main.mask = mask
        if main is not None:
            self._end_of_partition(main)
            self._end_of_kernel(main.mask)
        return len(self.history.steps)

    def _run_segment(self, threads: list[Thread]) -> None:
        moved = True
        while moved:
            moved = False
            for thread in threads:
                while not thread.finished and self._step(thread, thread.trace.events[thread.next]):
                    thread.next += 1
                    moved = True
        blocked = [thread for thread in threads if not thread.finished]
        if blocked:
            self._deadlock(blocked)

    def _step(self, thread: Thread, event: Event) -> bool:
        """Executes one event; returns False if it blocks."""
        match event.kind:
            case "wait":
                return self._wait(thread, event)
            case "arrive":
                mask = self.history.add(thread, event)
                self._contribute(thread, event, mask, arrivals=event.amount, tx=0)
            case "expect":
                mask = self.history.add(thread, event)
                self._contribute(thread, event, mask, arrivals=1, tx=event.amount)
            case "copy in":
                self._copy_in(thread, event)
            case "copy out":
                self.history.add(thread, event)
                read = (*event.memory, event.descriptor) if event.descriptor is not None else event.memory
                thread.stores.append([self.memory.read(thread, event, memory, asynchronous=True) for memory in read])
            case "store wait":
                self.history.add(thread, event)
                self._drain(thread, thread.stores, event.amount)
            case "dot":
                self.history.add(thread, event)
                thread.groups.append(
                    [self.memory.read(thread, event, memory, asynchronous=True) for memory in event.memory]
                )
            case "dot wait":
                self.history.add(thread, event)
                self._drain(thread, thread.groups, event.amount)
            case "write" | "free":
                self.history.add(thread, event)
                for memory in event.memory:
                    access = self.memory.write(thread, event, memory, asynchronous=False)
                    access.end = access.start
                    thread.unfenced.append(access)
                    if event.kind == "free":
                        self.memory.forget(memory)
            case "read":
                self.history.add(thread, event)
                for memory in event.memory:
                    access = self.memory.read(thread, event, memory, asynchronous=False)
                    access.end = access.start
                    thread.unfenced.append(access)
            case "describe":
                self.history.add(thread, event)
                access = self.memory.write(thread, event, event.memory[0], asynchronous=False)
                access.end = access.fence = access.start  # Triton's back end emits the fence for TMA
            case "fence":
                self.history.add(thread, event)
                for access in thread.unfenced:
                    if access.end & thread.mask:
                        access.fence |= self.history.bit
                thread.unfenced = [access for access in thread.unfenced if not access.fence]
                self.memory.fence_copies(thread)
            case "cp.async":
                self.history.add(thread, event)
                access = self.memory.write(thread, event, event.memory[0], asynchronous=False)
                thread.uncommitted.append(access)
                thread.unfenced.append(access)
            case "cp.async commit":
                self.history.add(thread, event)
                thread.copies.append(thread.uncommitted)
                thread.uncommitted = []
            case "cp.async wait":
                self.history.add(thread, event)
                for group in list(thread.copies)[: len(thread.copies) - event.amount]:
                    for access in group:  # copies covered by an arrival ended earlier: now that is in the past
                        thread.mask |= access.end
                self._drain(thread, thread.copies, event.amount)
            case "copies arrive":
                self._copies_arrive(thread, event)
            case "init" | "inval":
                self._lifecycle(thread, event)
            case "arrive at":
                self.named.arrive(thread, event)
            case "wait at":
                return self.named.wait(thread, event)
            case "reserved":
                self.history.add(thread, event)
                free = free_barriers(most_partitions(forks_of(self.program)))
                message = f"{self.name(_barrier_memory(event))} starts and ends the partitions in Triton's code: {free}"
                raise self.fault("reserved barrier", message, thread.mask)
            case _:
                self.history.add(thread, event)
                message = (
                    f"{event.op.name} uses the result of a wgmma past its wait: only results of the wait are complete"
                    if event.amount
                    else f"{event.op.name} uses an accumulator that a wgmma still writes"
                )
                raise self.fault("accumulator in flight", message, thread.mask)
        return True

    # -- mbarriers ---------------------------------------------------------------------------------------------------

    def _lifecycle(self, thread: Thread, event: Event) -> None:
        key = _barrier_memory(event)
        mask = self.history.add(thread, event)
        known = self.barriers.get(key)
        if event.kind == "init":
            self.history.require_inside(event, key, mask)
            if known is not None:
                message = f"{self.name(key)} is initialised again without an invalidation"
                raise self.fault("barrier lifecycle", message, mask)
            if event.amount < 1:
                raise self.fault("arrive count", f"{self.name(key)} expects {event.amount} arrivals", mask)
            self.barriers[key] = _Barrier(self.history.bit, event.amount, event.amount, touched=self.history.bit)
            return
        if known is None:
            raise self.fault("barrier lifecycle", f"{self.name(key)} is invalidated but not initialised", mask)
        if known.touched & ~mask or known.tx:
            message = f"{self.name(key)} is invalidated while another partition may still use it"
            raise self.fault("barrier lifecycle", message, mask | known.touched)
        del self.barriers[key]
        self.dead.add(key)

    def _barrier(self, thread: Thread, event: Event) -> _Barrier:
        key = _barrier_memory(event)
        barrier = self.barriers.get(key)
        if barrier is None or not thread.mask & barrier.init:
            why = "has been invalidated" if key in self.dead else "is not initialised"
            last = HistoryStep(thread.trace.partition, event.kind, event, key)
            self.history.require_inside(event, key, thread.mask, last)
            raise self.fault("barrier lifecycle", f"{self.name(key)} {why}", thread.mask, last)
        return barrier

    def _contribute(self, thread: Thread, event: Event, mask: int, arrivals: int, tx: int) -> None:
        """Adds arrivals and bytes to the current phase; completes the phase if nothing is pending."""
        barrier, key = self._barrier(thread, event), _barrier_memory(event)
        barrier.touched |= self.history.bit
        if barrier.phases and not barrier.known(len(barrier.phases) - 1, mask):
            if self._is_unobserved(key, barrier):
                return
            kind: FaultKind = "transaction bytes" if event.kind == "copy in" else "arrive count"
            phase = len(barrier.phases) - 1
            message = (
                f"{event_name(event)} on {self.name(key)} may happen before phase {phase} completes, and then counts "
                f"for that phase (arrival count {barrier.count})"
            )
            raise self.fault(kind, message, mask)
        barrier.pending -= arrivals
        barrier.tx += tx
        barrier.mask |= mask
        if barrier.pending < 0:
            if self._is_unobserved(key, barrier):
                return
            message = f"{self.name(key)}: {-barrier.pending} more arrivals than its arrival count of {barrier.count}"
            raise self.fault("arrive count", message, barrier.mask)
        if barrier.pending == 0 and barrier.tx < 0:
            message = f"{self.name(key)}: {-barrier.tx} more transaction bytes arrive than expected"
            raise self.fault("transaction bytes", message, barrier.mask)
        if barrier.pending == 0 and barrier.tx == 0:
            self._complete(barrier, key)

    def _is_unobserved(self, key: Memory, barrier: _Barrier) -> bool:
        """Whether no partition waits on a barrier, no bytes arrive on it, and no arrival can exceed what is pending."""
        traces = (trace for segment in self.segments for trace in segment)
        events = [it for trace in traces for it in trace.events if it.barrier is not None and it.barrier.place == key]
        sizes = {it.amount if it.kind == "arrive" else 1 for it in events if it.kind in ("arrive", "copies arrive")}
        silent = not any(it.kind in ("wait", "expect", "copy in") for it in events)
        return silent and len(sizes) == 1 and barrier.count % sizes.pop() == 0

    def _complete(self, barrier: _Barrier, key: Memory) -> None:
        phase = len(barrier.phases)
        self.history.steps.append(HistoryStep("barrier", "phase completes", None, key, phase & 1))
        bit = self.history.bit
        for wait, fresh in barrier.waits:
            if wait & ~barrier.mask:
                kind: FaultKind = "phase overrun" if fresh or phase == 0 else "parity alias"
                message = (
                    f"{self.name(key)} may complete phase {phase} before a wait for phase {phase - 1} returns: "
                    f"the wait then sees the parity of an older phase"
                    if phase
                    else f"{self.name(key)} may complete phase 0 before a wait with parity 1, which a new barrier "
                    "passes, returns: it then waits for phase 1"
                )
                late = self.history.steps[wait.bit_length() - 1]
                raise self.fault(kind, message, barrier.mask | bit, late)
        barrier.phases.append(bit)
        barrier.masks.append(barrier.mask | bit)
        barrier.pending, barrier.mask = barrier.count, 0
        barrier.waits.clear()

    def _wait(self, thread: Thread, event: Event) -> bool:
        barrier, key = self._barrier(thread, event), _barrier_memory(event)
        completed = known = len(barrier.phases)
        while known and not barrier.known(known - 1, thread.mask):
            known -= 1
        fresh = known & 1 == event.parity
        passes = known + 1 if fresh else known
        if completed < passes:
            return False
        if completed > passes:
            last = HistoryStep(thread.trace.partition, "wait", event, key, event.parity)
            mask = thread.mask | barrier.masks[passes]
            if fresh:
                how = f"may find phase {passes} already complete, and then waits for phase {passes + 1}"
            else:
                how = f"passes at once, or waits for phase {passes + 1} if phase {passes} is already complete"
            message = f"a wait on {self.name(key)} for parity {event.parity} {how}: it depends on timing"
            raise self.fault("phase overrun" if fresh else "parity alias", message, mask, last)
        if passes:
            thread.mask |= barrier.masks[passes - 1]
        self.history.add(thread, event)
        barrier.touched |= self.history.bit
        barrier.waits.append((self.history.bit, fresh))
        return True

    def _deadlock(self, blocked: list[Thread]) -> None:
        mask, reasons, kind = 0, list[str](), "deadlock"
        last: list[HistoryStep] = []
        for thread in blocked:
            event = thread.trace.events[thread.next]
            key = _barrier_memory(event)
            if event.kind == "wait at":
                mask |= thread.mask | self.named.past(key)
                reasons.append(f"{thread.trace.partition} waits at {self.named.lacks(key)}")
                last.append(HistoryStep(thread.trace.partition, event.kind, event, key))
                continue
            barrier = self.barriers[key]
            mask |= thread.mask | barrier.mask
            missing = [f"{barrier.pending} of {barrier.count} arrivals"] if barrier.pending else []
            missing += [f"{barrier.tx} bytes"] if barrier.tx else []
            phase = f"phase {len(barrier.phases)} (parity {event.parity}) of {self.name(key)}"
            lacks = f", which lacks {' and '.join(missing)}" if missing else ""
            reasons.append(f"{thread.trace.partition} waits for {phase}{lacks}")
            last.append(HistoryStep(thread.trace.partition, "wait", event, key, event.parity))
            if barrier.tx:
                kind = "transaction bytes"
            elif barrier.pending < barrier.count and kind == "deadlock":
                kind = "arrive count"
        for barrier in self.barriers.values():
            if barrier.pending == 0 and barrier.tx:
                kind = "transaction bytes"
        raise self.fault(
            _fault_kind(kind), "deadlock: " + "; ".join(reasons), (1 << len(self.history.steps)) - 1, *last
        )

    def _copy_in(self, thread: Thread, event: Event) -> None:
        self.history.add(thread, event)
        accesses = [self.memory.write(thread, event, memory, asynchronous=True) for memory in event.memory]
        if event.descriptor is not None:
            accesses.append(self.memory.read(thread, event, event.descriptor, asynchronous=True))
        self.history.steps.append(HistoryStep("TMA", "copy lands", event, event.memory[0]))
        for access in accesses:
            access.end = self.history.bit
        self._contribute(thread, event, thread.mask | self.history.bit, arrivals=0, tx=-event.amount)

    def _copies_arrive(self, thread: Thread, event: Event) -> None:
        """The earlier copies land, then all threads of the partition arrive. Asynchronous: the partition goes on."""
        mask = self.history.add(thread, event)
        issued = [access for group in (*thread.copies, thread.uncommitted) for access in group if not access.end]
        if issued:
            self.history.steps.append(HistoryStep("cp.async", "copies land", event, issued[0].event.memory[0]))
            mask |= self.history.bit
        for access in issued:
            access.end = self.history.bit
        self._contribute(thread, event, mask, arrivals=event.amount, tx=0)

    def _drain(self, thread: Thread, queue: deque[list[Access]], left: int) -> None:
        while len(queue) > left:
            for access in queue.popleft():
                access.end = access.end or self.history.bit

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end_of_partition(self, thread: Thread) -> None:
        read = next((access for group in thread.stores for access in group), None)
        if read is not None:
            target = read.event.memory[0]
            message = f"{thread.trace.partition} ends while a TMA store may still read {self.name(target)}"
            last = HistoryStep(thread.trace.partition, "still reads", read.event, target)
            raise self.fault("leftover credit", message, thread.mask, last)

    def _end_of_kernel(self, mask: int) -> None:
        for key, barrier in self.barriers.items():
            if barrier.tx:
                message = f"the kernel ends with {barrier.tx} bytes of {self.name(key)} outstanding"
                raise self.fault("transaction bytes", message, (1 << len(self.history.steps)) - 1)
        late = self.memory.still_written(mask)
        if late is not None:
            memory, write = late
            message = f"the kernel ends while a TMA copy may still write {self.name(memory)}"
            last = HistoryStep("TMA", "still writes", write.event, memory)
            raise self.fault("leftover credit", message, mask | write.start, last)


def _barrier_memory(event: Event) -> Memory:
    assert event.barrier is not None
    return event.barrier.place


def _fault_kind(kind: str) -> FaultKind:
    return "transaction bytes" if kind == "transaction bytes" else "arrive count" if kind != "deadlock" else "deadlock"
