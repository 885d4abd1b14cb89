"""One run of an unrolled program decides all its runs: happens-before over mbarriers, copies and wgmma groups.

The partitions take turns; every event gets the set of events that must have happened before it, in whatever order the
hardware runs the partitions and completes copies (a bit mask). Two things make one run stand for all:

    a contribution (arrival, expect, bytes) to phase k must follow the completion of phase k − 1
    a wait passes at the first phase that its parity allows after what its partition already knows; the barrier must
    not be able to go past that phase before the wait has seen it

Where either fails, another order of the same events behaves differently, and that order is the fault: too many
arrivals, an aliased parity, a phase overrun. Where both hold, all maximal runs have the same events in the same
partial order (one Mazurkiewicz trace), so a deadlock here is a deadlock everywhere, and two accesses that this order
leaves open do meet in some run. This is partial-order reduction taken to its end: one run a trip-count vector.

Longer than most files: barriers and memory share the one order of events that all of this is about.

Source: PTX ISA, "mbarrier" (phase, expect-tx, try_wait.parity), "Async proxy", "wgmma.wait_group",
"cp.async.bulk.wait_group"; Lamport's happens-before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tawa.verify.barrier_trace import BarrierProgram, Event, Memory, Segment, Trace
from tawa.verify.verdict import FaultKind


@dataclass(frozen=True, slots=True)
class Happening:
    """A step of a run: an event of a partition, or a completion (`event` is then what completes, or None)."""

    partition: str
    action: str
    event: Event | None = None
    target: Memory | None = None
    parity: int | None = None


class Fault(Exception):
    """The run goes wrong: `steps` lead there, the last one is the fault itself."""

    def __init__(self, kind: FaultKind, message: str, steps: tuple[Happening, ...]) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.steps = steps


@dataclass(slots=True, eq=False)
class _Access:
    """A read or write of shared memory. `start`, `end`: bits of the steps between which it lasts; end 0 is open."""

    start: int
    end: int
    event: Event
    partition: str
    asynchronous: bool
    begun: int  # what had happened when it began, itself included
    fence: int = 0  # a generic write: the bit of the proxy fence behind it


@dataclass(slots=True)
class _Region:
    """The last write of a piece of memory, and its reads since then."""

    write: _Access | None = None
    reads: list[_Access] = field(default_factory=list[_Access])


@dataclass(slots=True)
class _Barrier:
    """One mbarrier. `phases`: bits of the completions so far; `masks`: what each of them follows."""

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
        """Whether the completion of a phase lies in the past of somebody who knows `mask`: all it follows does."""
        return bool(mask & self.phases[phase]) or not self.masks[phase] & ~self.phases[phase] & ~mask


@dataclass(slots=True)
class _Thread:
    """One partition as it runs."""

    trace: Trace
    mask: int
    next: int = 0
    groups: deque[list[_Access]] = field(default_factory=deque[list[_Access]])
    stores: deque[list[_Access]] = field(default_factory=deque[list[_Access]])
    copies: deque[list[_Access]] = field(default_factory=deque[list[_Access]])
    uncommitted: list[_Access] = field(default_factory=list[_Access])
    unfenced: list[_Access] = field(default_factory=list[_Access])

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.next == len(self.trace.events)


class BarrierRun:
    """Executes one unrolled program. Raises Fault."""

    def __init__(self, program: BarrierProgram, segments: list[Segment]) -> None:
        self.program = program
        self.segments = segments
        self.history: list[Happening] = []
        self.barriers: dict[Memory, _Barrier] = {}
        self.dead: set[Memory] = set()
        self.memory: dict[int, dict[Memory, _Region]] = {}

    def execute(self) -> int:
        """Runs to the end; the number of steps."""
        mask = 0
        main: _Thread | None = None
        for segment in self.segments:
            threads = [_Thread(trace, mask) for trace in segment]
            if main is not None:
                main.trace, main.next = segment[0], 0
                threads[0] = main
            self._together(threads)
            main = threads[0]
            for thread in threads:
                mask |= thread.mask
                if thread is not main:
                    self._at_end(thread)
            main.mask = mask
        if main is not None:
            self._at_end(main)
            self._end_of_kernel(main.mask)
        return len(self.history)

    def _together(self, threads: list[_Thread]) -> None:
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

    def _step(self, thread: _Thread, event: Event) -> bool:
        """Executes one event; False when it has to wait."""
        match event.kind:
            case "wait":
                return self._wait(thread, event)
            case "arrive":
                mask = self._node(thread, event)
                self._contribute(thread, event, mask, arrivals=event.amount, tx=0)
            case "expect":
                mask = self._node(thread, event)
                self._contribute(thread, event, mask, arrivals=1, tx=event.amount)
            case "copy in":
                self._copy_in(thread, event)
            case "copy out":
                self._node(thread, event)
                accesses = [self._read(thread, event, memory, asynchronous=True) for memory in event.memory]
                thread.stores.append(accesses)
            case "store wait":
                self._node(thread, event)
                self._drain(thread, thread.stores, event.amount)
            case "dot":
                self._node(thread, event)
                thread.groups.append([self._read(thread, event, memory, asynchronous=True) for memory in event.memory])
            case "dot wait":
                self._node(thread, event)
                self._drain(thread, thread.groups, event.amount)
            case "write" | "free":
                self._node(thread, event)
                for memory in event.memory:
                    access = self._write(thread, event, memory, asynchronous=False)
                    access.end = access.start
                    thread.unfenced.append(access)
                    if event.kind == "free":
                        self.memory[memory.alloc] = {}
            case "read":
                self._node(thread, event)
                for memory in event.memory:
                    access = self._read(thread, event, memory, asynchronous=False)
                    access.end = access.start
            case "fence":
                self._node(thread, event)
                for access in thread.unfenced:
                    if access.end:
                        access.fence = self._bit()
                thread.unfenced = [access for access in thread.unfenced if not access.fence]
            case "cp.async":
                self._node(thread, event)
                access = self._write(thread, event, event.memory[0], asynchronous=False)
                thread.uncommitted.append(access)
                thread.unfenced.append(access)
            case "cp.async commit":
                self._node(thread, event)
                thread.copies.append(thread.uncommitted)
                thread.uncommitted = []
            case "cp.async wait":
                self._node(thread, event)
                self._drain(thread, thread.copies, event.amount)
            case "init" | "inval":
                self._lifecycle(thread, event)
            case _:
                self._node(thread, event)
                message = f"{event.op.name} uses an accumulator that a wgmma still writes"
                raise self._fault("accumulator in flight", message, thread.mask)
        return True

    # -- steps and their order ---------------------------------------------------------------------------------------

    def _bit(self) -> int:
        """The bit of the latest step."""
        return 1 << (len(self.history) - 1)

    def _node(self, thread: _Thread, event: Event) -> int:
        """Records a step of a partition; everything up to and including it."""
        target = event.barrier or (event.memory[0] if event.memory else None)
        parity = event.parity if event.kind == "wait" else None
        self.history.append(Happening(thread.trace.partition, event.kind, event, target, parity))
        thread.mask |= self._bit()
        return thread.mask

    def _fault(self, kind: FaultKind, message: str, mask: int, *last: Happening) -> Fault:
        """The shortest run that leads there: what must have happened, in the order in which it did."""
        steps = [step for number, step in enumerate(self.history) if mask >> number & 1]
        return Fault(kind, message, (*steps, *last))

    def _name(self, memory: Memory) -> str:
        slots = "".join(f"[{slot}]" for slot in memory.path)
        return f"{self.program.name_of(memory)}{slots}"

    # -- mbarriers ---------------------------------------------------------------------------------------------------

    def _lifecycle(self, thread: _Thread, event: Event) -> None:
        key = _place(event)
        mask = self._node(thread, event)
        known = self.barriers.get(key)
        if event.kind == "init":
            if known is not None:
                message = f"{self._name(key)} is initialised again without having been invalidated"
                raise self._fault("barrier lifecycle", message, mask)
            if event.amount < 1:
                raise self._fault("arrive count", f"{self._name(key)} expects {event.amount} arrivals", mask)
            self.barriers[key] = _Barrier(self._bit(), event.amount, event.amount, touched=self._bit())
            return
        if known is None:
            raise self._fault("barrier lifecycle", f"{self._name(key)} is invalidated but not initialised", mask)
        if known.touched & ~mask or known.tx:
            message = f"{self._name(key)} is invalidated while another partition may still use it"
            raise self._fault("barrier lifecycle", message, mask | known.touched)
        del self.barriers[key]
        self.dead.add(key)

    def _barrier(self, thread: _Thread, event: Event) -> _Barrier:
        key = _place(event)
        barrier = self.barriers.get(key)
        if barrier is None or not thread.mask & barrier.init:
            why = "has been invalidated" if key in self.dead else "is not initialised"
            last = Happening(thread.trace.partition, event.kind, event, key)
            raise self._fault("barrier lifecycle", f"{self._name(key)} {why}", thread.mask, last)
        return barrier

    def _contribute(self, thread: _Thread, event: Event, mask: int, arrivals: int, tx: int) -> None:
        """Adds arrivals and bytes to the phase that is open; completes it where nothing is left."""
        barrier, key = self._barrier(thread, event), _place(event)
        barrier.touched |= self._bit()
        if barrier.phases and not barrier.known(len(barrier.phases) - 1, mask):
            kind: FaultKind = "transaction bytes" if event.kind == "copy in" else "arrive count"
            phase = len(barrier.phases) - 1
            message = (
                f"{_spell(event)} on {self._name(key)} may come before phase {phase} is complete, and then counts "
                f"for that phase ({barrier.count} arrivals complete one)"
            )
            raise self._fault(kind, message, mask)
        barrier.pending -= arrivals
        barrier.tx += tx
        barrier.mask |= mask
        if barrier.pending < 0:
            message = f"{self._name(key)}: {-barrier.pending} arrivals more than the {barrier.count} of a phase"
            raise self._fault("arrive count", message, barrier.mask)
        if barrier.pending == 0 and barrier.tx < 0:
            message = f"{self._name(key)}: {-barrier.tx} bytes more arrive than were expected"
            raise self._fault("transaction bytes", message, barrier.mask)
        if barrier.pending == 0 and barrier.tx == 0:
            self._complete(barrier, key)

    def _complete(self, barrier: _Barrier, key: Memory) -> None:
        phase = len(barrier.phases)
        self.history.append(Happening("barrier", "phase completes", None, key, phase & 1))
        bit = self._bit()
        for wait, fresh in barrier.waits:
            if wait & ~barrier.mask:
                kind: FaultKind = "phase overrun" if fresh or phase == 0 else "parity alias"
                message = (
                    f"{self._name(key)} may complete phase {phase} before a wait for phase {phase - 1} has seen it: "
                    f"the parity is then that of an older phase"
                )
                late = self.history[wait.bit_length() - 1]
                raise self._fault(kind, message, barrier.mask | bit, late)
        barrier.phases.append(bit)
        barrier.masks.append(barrier.mask | bit)
        barrier.pending, barrier.mask = barrier.count, 0
        barrier.waits.clear()

    def _wait(self, thread: _Thread, event: Event) -> bool:
        barrier, key = self._barrier(thread, event), _place(event)
        completed = known = len(barrier.phases)
        while known and not barrier.known(known - 1, thread.mask):
            known -= 1
        fresh = known & 1 == event.parity
        passes = known + 1 if fresh else known
        if completed < passes:
            return False
        if completed > passes:
            last = Happening(thread.trace.partition, "wait", event, key, event.parity)
            mask = thread.mask | barrier.masks[passes]
            behind = "passes at once or" if not fresh else "may"
            message = (
                f"a wait on {self._name(key)} for parity {event.parity} {behind} find phase {passes} complete already, "
                f"and then waits for a phase of the same parity"
            )
            raise self._fault("phase overrun" if fresh else "parity alias", message, mask, last)
        if passes:
            thread.mask |= barrier.masks[passes - 1]
        self._node(thread, event)
        barrier.touched |= self._bit()
        barrier.waits.append((self._bit(), fresh))
        return True

    def _deadlock(self, blocked: list[_Thread]) -> None:
        mask, reasons, kind = 0, list[str](), "deadlock"
        last: list[Happening] = []
        for thread in blocked:
            event = thread.trace.events[thread.next]
            key = _place(event)
            barrier = self.barriers[key]
            mask |= thread.mask | barrier.mask
            reasons.append(
                f"{thread.trace.partition} waits for parity {event.parity} of {self._name(key)} "
                f"({barrier.pending} of {barrier.count} arrivals and {barrier.tx} bytes are missing)"
            )
            last.append(Happening(thread.trace.partition, "wait", event, key, event.parity))
            if barrier.tx:
                kind = "transaction bytes"
            elif barrier.pending < barrier.count and kind == "deadlock":
                kind = "arrive count"
        for barrier in self.barriers.values():
            if barrier.pending == 0 and barrier.tx:
                kind = "transaction bytes"
        raise self._fault(_fault_kind(kind), "deadlock: " + "; ".join(reasons), (1 << len(self.history)) - 1, *last)

    # -- shared memory -----------------------------------------------------------------------------------------------

    def _copy_in(self, thread: _Thread, event: Event) -> None:
        self._node(thread, event)
        accesses = [self._write(thread, event, memory, asynchronous=True) for memory in event.memory]
        self.history.append(Happening("TMA", "copy lands", event, event.memory[0]))
        for access in accesses:
            access.end = self._bit()
        self._contribute(thread, event, thread.mask | self._bit(), arrivals=0, tx=-event.amount)

    def _drain(self, thread: _Thread, queue: deque[list[_Access]], left: int) -> None:
        while len(queue) > left:
            for access in queue.popleft():
                access.end = self._bit()

    def _overlapping(self, memory: Memory) -> Iterable[tuple[Memory, _Region]]:
        regions = self.memory.setdefault(memory.alloc, {})
        return [(key, region) for key, region in regions.items() if _overlap(key, memory)]

    def _write(self, thread: _Thread, event: Event, memory: Memory, *, asynchronous: bool) -> _Access:
        memory = memory._replace(reshaped=False)
        for _, region in self._overlapping(memory):
            if region.write is not None:
                self._ordered(thread, region.write, event, memory, "write-write race")
            for read in region.reads:
                self._ordered(thread, read, event, memory, "write before release")
        access = _Access(self._bit(), 0, event, thread.trace.partition, asynchronous, thread.mask)
        self.memory[memory.alloc][memory] = _Region(access)
        return access

    def _read(self, thread: _Thread, event: Event, memory: Memory, *, asynchronous: bool) -> _Access:
        memory = memory._replace(reshaped=False)
        access = _Access(self._bit(), 0, event, thread.trace.partition, asynchronous, thread.mask)
        written = False
        for _, region in self._overlapping(memory):
            if region.write is not None:
                written = True
                self._ordered(thread, region.write, event, memory, "read before write")
                if asynchronous and not region.write.asynchronous:
                    self._fenced(thread, region.write, event, memory)
        if not written:
            message = f"{_spell(event)} reads {self._name(memory)}, which nobody has written"
            raise self._fault("read before write", message, thread.mask)
        self.memory[memory.alloc].setdefault(memory, _Region()).reads.append(access)
        return access

    def _ordered(self, thread: _Thread, earlier: _Access, event: Event, memory: Memory, kind: FaultKind) -> None:
        if earlier.end and thread.mask & earlier.end:
            return
        message = (
            f"{_spell(event)} of {thread.trace.partition} touches {self._name(memory)} while "
            f"{_spell(earlier.event)} of {earlier.partition} may still be at work there"
        )
        mine = self._bit()
        steps = earlier.begun | (thread.mask & ~mine)
        raise self._fault(kind, message, steps, self.history[mine.bit_length() - 1])

    def _fenced(self, thread: _Thread, write: _Access, event: Event, memory: Memory) -> None:
        if write.fence and thread.mask & write.fence:
            return
        if event.kind == "dot" and write.event.op.name == "ttg.local_alloc":
            return  # Triton's back end puts this fence in: an operand that was brought from registers for one dot
        message = (
            f"{_spell(event)} reads {self._name(memory)} through the async proxy; {_spell(write.event)} wrote it "
            f"through the generic proxy, and no fence_async_shared of the writer stands between"
        )
        raise self._fault("missing fence", message, thread.mask | write.start)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _at_end(self, thread: _Thread) -> None:
        if any(thread.stores):
            message = f"{thread.trace.partition} ends while a TMA store may still read shared memory"
            raise self._fault("leftover credit", message, thread.mask)

    def _end_of_kernel(self, mask: int) -> None:
        for key, barrier in self.barriers.items():
            if barrier.tx:
                message = f"the kernel ends with {barrier.tx} bytes of {self._name(key)} outstanding"
                raise self._fault("transaction bytes", message, (1 << len(self.history)) - 1)
        for regions in self.memory.values():
            for memory, region in regions.items():
                write = region.write
                if write is not None and write.asynchronous and not mask & write.end:
                    message = f"the kernel ends while a TMA copy may still write {self._name(memory)}"
                    raise self._fault("leftover credit", message, mask | write.start)


def _place(event: Event) -> Memory:
    assert event.barrier is not None
    return event.barrier._replace(reshaped=False)


def _fault_kind(kind: str) -> FaultKind:
    return "transaction bytes" if kind == "transaction bytes" else "arrive count" if kind != "deadlock" else "deadlock"


_SPELLED = {"dot": "a wgmma", "copy in": "a TMA copy", "copy out": "a TMA store", "cp.async": "a cp.async"}


def _spell(event: Event) -> str:
    return _SPELLED.get(event.kind, event.op.name)


def _overlap(one: Memory, other: Memory) -> bool:
    shared = min(len(one.path), len(other.path))
    if one.path[:shared] != other.path[:shared]:
        return False
    if len(one.path) != len(other.path) or one.box is None or other.box is None:
        return True
    return all(low < top and start < end for (low, end), (start, top) in zip(one.box, other.box, strict=True))
