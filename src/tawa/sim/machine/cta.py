"""One CTA: partitions as coroutines, asynchronous work in flight, and the scheduler.

A partition runs until it waits. `order` determines when issued work lands:

    eager    immediately
    late     as late as possible: a wgmma, a TMA store or a cp.async at its wait; a TMA load, the arrival of cp.async
             copies on an mbarrier, or a commit of tcgen05 operations, when all partitions are blocked
    random   after any step, in seeded order (wgmmas of one partition stay in program order)

tcgen05 operations (mmas, copies to tensor memory) of one partition land in the order of issue, and a commit after all
that its partition issued before it. PTX promises this order for mmas with one accumulator; kernels and Triton rely on
it for all of a thread.

The scheduler is round robin under `eager`, where a partition runs until it blocks, and under `late`, where it runs one
protocol step; under `random` it picks a runnable partition at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tawa.dialects.memory.lifetimes import freed_behind
from tawa.ir import Block, Module, Operation, Value, source_of
from tawa.ir.locations import written_at
from tawa.remarks import SourceLocation
from tawa.sim.errors import Deadlock, DescriptorInUse, SimulationError
from tawa.sim.machine.addresses import AddressSpace
from tawa.sim.machine.named_barriers import NamedBarrier
from tawa.sim.machine.trace import Key, Place, Recorder, Trace
from tawa.sim.machine.values import Accumulator, SharedView, TensorDescriptor

Order = Literal["eager", "late", "random"]
Kind = Literal["load", "copy", "arrival", "wgmma", "store", "mma", "tensor copy", "commit"]
TCGEN05: frozenset[Kind] = frozenset({"mma", "tensor copy"})
"""Operations of tensor memory that complete at a commit."""
_LAND_BEFORE: dict[Kind, frozenset[Kind]] = {
    "wgmma": frozenset({"wgmma"}),
    "mma": TCGEN05,
    "tensor copy": TCGEN05,
    "commit": frozenset({*TCGEN05, "commit"}),
}
"""The kinds of earlier actions of the same threads that land before one of this kind."""


@dataclass(frozen=True, slots=True)
class Event:
    """One protocol step of a partition. target: the name of the barrier, ring or buffer.

    action: "issue" or "land" plus a `Kind`; "wait" (blocked) and "pass" at a barrier; "arrive", "expect", "fence",
    "local_store", "wgmma wait", "store wait", "tmem_load", "tmem_store"; "put", "get", "consumed" at the aref level.
    """

    program: tuple[int, int, int]
    partition: str
    action: str
    target: str = ""
    slot: int | None = None
    parity: int | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Yielded to the scheduler: the partition resumes when `ready` holds; `reason` describes what it waits for."""

    ready: Callable[[], bool]
    reason: Callable[[], str] = str


Run = Generator[Pause, None, list[Any]]
STEP = Pause(lambda: True)


@dataclass(slots=True, eq=False)
class Action:
    """An asynchronous operation. reads: memory that it may read until a wait covers it, or a tcgen05 one lands.

    after: actions that land before it. fills: the destination of a cp.async or of a tcgen05 operation. descriptors:
    tensor descriptors that a TMA copy reads until it lands.
    """

    kind: Kind
    owner: Partition
    op: Operation
    effect: Callable[[], None]
    reads: list[SharedView] = field(default_factory=list[SharedView])
    result: Accumulator | None = None
    target: str = ""
    landed: bool = False
    after: list[Action] = field(default_factory=list["Action"])
    fills: SharedView | None = None
    descriptors: tuple[TensorDescriptor, ...] = ()

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"the {self.kind} of {self.owner.name}"


@dataclass(slots=True, eq=False)
class Partition:
    """A coroutine of the CTA. agent: identifies writers of shared memory; a default region has its kernel's agent."""

    name: str
    agent: int
    cta: Cta
    env: dict[Value, Any]
    code: Run | None = None
    pause: Pause = STEP
    at: Operation | None = None
    outcome: list[Any] | None = None
    wgmmas: list[Action] = field(default_factory=list[Action])
    stores: list[Action] = field(default_factory=list[Action])
    copies: list[list[Action]] = field(default_factory=lambda: [[]])  # groups of cp.async; the last is uncommitted
    unfenced: list[SharedView] = field(default_factory=list[SharedView])
    fenced_copies: int = 0  # the number of cp.async of the CTA that had landed at the last fence
    recorder: Recorder | None = None

    @property
    def program(self) -> tuple[int, int, int]:
        """The index of the CTA in the grid."""
        return self.cta.program

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid."""
        return self.cta.grid

    @property
    def memory(self) -> AddressSpace:
        """The address space of global memory."""
        return self.cta.memory

    def log(
        self, op: Operation, action: str, target: str = "", slot: int | None = None, parity: int | None = None
    ) -> None:
        """Appends one event."""
        if self.recorder:
            self.recorder.name_target(target, slot)
        self.cta.note(self.name, op, action, target, slot, parity)

    def waits_for(self, key: Key) -> None:
        """Records for the clock that the current operation waits for `key`."""
        if self.recorder:
            self.recorder.wait(key)

    def contributes(self, key: Key) -> None:
        """Records for the clock that the current operation contributes to `key`."""
        if self.recorder:
            self.recorder.signal(key)

    def fork_and_join(self, op: Operation, members: list[Partition], reason: str) -> Run:
        """Waits for the end of the partitions that `op` starts."""
        start, end = (op, "start"), (op, "end")
        for member in (self, *members):
            if member.recorder and member is self:
                member.recorder.signal(start)
                member.recorder.step(op, self.cta.line(op))
            elif member.recorder:
                member.recorder.mark(waits=(start,))
        yield Pause(lambda: all(member.outcome is not None for member in members), lambda: reason)
        for member in members:
            if member.recorder:
                member.recorder.mark(signals=(end,))
        if self.recorder:
            self.recorder.mark(waits=(end,))
        return []

    def complete(self, queue: list[Action], left: int) -> None:
        """Waits until at most `left` actions of a queue are in flight; the oldest complete first."""
        while len(queue) > left:
            action = queue.pop(0)
            self.waits_for(action)
            self.cta.land(action)
            self.cta.release(action)
            if action.result is not None:
                action.result.waited = True


@dataclass(slots=True, eq=False)
class Cta:
    """The machine. `events`, `places` and `ends` (the ends of live ranges) are shared by all CTAs of a run."""

    module: Module
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    order: Order
    rng: random.Random
    events: list[Event]
    places: dict[Operation, SourceLocation | None]
    ends: dict[Block, dict[Operation, list[Operation]]]
    memory: AddressSpace
    timing: bool = False
    partitions: list[Partition] = field(default_factory=list[Partition])
    in_flight: list[Action] = field(default_factory=list[Action])
    reads: list[tuple[SharedView, str]] = field(default_factory=list[tuple[SharedView, str]])
    loaded: dict[tuple[int, int, str], SharedView] = field(default_factory=dict[tuple[int, int, str], SharedView])
    landed_copies: int = 0
    copies_visible: bool = False
    lines: dict[Operation, SourceLocation | None] = field(default_factory=dict[Operation, SourceLocation | None])
    last_mma: dict[int, Place] = field(default_factory=dict[int, Place])  # the last tcgen05 operation of an agent
    tensor_memory: dict[Operation, SharedView] = field(default_factory=dict[Operation, SharedView])  # by allocation
    named: dict[int, NamedBarrier] = field(default_factory=dict[int, NamedBarrier])

    def spawn(self, name: str, env: dict[Value, Any], agent: int | None = None) -> Partition:
        """A new partition; the caller sets its code."""
        agent = len(self.partitions) if agent is None else agent
        recorder = Recorder(name, agent) if self.timing else None
        partition = Partition(name, agent, self, env, recorder=recorder)
        self.partitions.append(partition)
        return partition

    def place(self, op: Operation) -> SourceLocation | None:
        """The source line of `op`."""
        if op not in self.places:
            self.places[op] = source_of(self.module, op)
        return self.places[op]

    def line(self, op: Operation) -> SourceLocation | None:
        """The innermost line of `op`: in a function that the kernel calls, that function's."""
        if op not in self.lines:
            self.lines[op] = written_at(self.module, op)
        return self.lines[op]

    def freed(self, block: Block) -> dict[Operation, list[Operation]]:
        """The allocations whose live ranges end in a block, by the last operation of the live range."""
        if block not in self.ends:
            self.ends[block] = freed_behind(block)
        return self.ends[block]

    def note(
        self, who: str, op: Operation, action: str, target: str = "", slot: int | None = None, parity: int | None = None
    ) -> None:
        """Appends an event."""
        event = Event(self.program, who, action, target, slot, parity, self.place(op))
        self.events.append(event)

    # -- asynchronous work ---------------------------------------------------------------------------------------

    def issue(self, action: Action) -> None:
        """Adds an action to those in flight; under `eager` it lands immediately."""
        self.in_flight.append(action)
        if action.owner.recorder and action.kind != "commit":
            action.owner.recorder.start(action)
        self.reads += [(view, action.name) for view in action.reads]
        action.owner.log(action.op, f"issue {action.kind}", action.target)
        if self.order == "eager":
            self.land(action)

    def land(self, action: Action) -> None:
        """Executes an action, after the older ones of the same threads that land before it."""
        if action.landed:
            return
        kinds, agent = _LAND_BEFORE.get(action.kind, ()), action.owner.agent
        older = self.in_flight[: self.in_flight.index(action)]
        batch = [*(it for it in older if it.kind in kinds and it.owner.agent == agent), action]
        for it in action.after:
            self.land(it)
        for it in batch:
            it.landed = True
            self.in_flight.remove(it)
            try:
                it.effect()
            except SimulationError as error:
                raise self.located(error, it.op, it.owner) from None
            self.note(it.owner.name, it.op, f"land {it.kind}", it.target)
            if it.kind in TCGEN05:
                self.release(it)

    def require_unused(self, maker: Operation) -> None:
        """Raises DescriptorInUse if an action in flight may still read the previous descriptor of `maker`."""
        for action in self.in_flight:
            if any(descriptor.maker is maker for descriptor in action.descriptors):
                name = maker.result.hint or "a descriptor"
                raise DescriptorInUse(f"{name} is overwritten while {action.name} at {action.target} may still read it")

    def release(self, action: Action) -> None:
        """Ends the reads of an action: its sources may be written again."""
        gone = {id(view) for view in action.reads}
        self.reads = [read for read in self.reads if id(read[0]) not in gone]

    def located(self, error: SimulationError, op: Operation, who: Partition) -> SimulationError:
        """Adds the location and the partition to an error that has none."""
        if not error.op:
            error.op, error.location = op.name, self.place(op)
            error.partition, error.program = who.name, self.program
        return error

    def trace(self) -> Trace:
        """The input of the clock; empty unless `timing`."""
        return Trace(self.program, tuple(it.recorder for it in self.partitions if it.recorder))

    # -- scheduler -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs all partitions to their end, then lands the remaining actions. Raises Deadlock."""
        for _ in self.rounds():
            pass

    def rounds(self) -> Iterator[None]:
        """As `run`, one round of the scheduler at a time, so that several CTAs can be interleaved."""
        while True:
            yield
            runnable = [it for it in self.partitions if it.outcome is None and it.pause.ready()]
            if self.order == "random":
                if self.in_flight and self.rng.random() < 0.5:
                    self.land(self.rng.choice(self.in_flight))
                    continue
                runnable = [self.rng.choice(runnable)] if runnable else []
            for partition in runnable:
                self._resume(partition)
            if not runnable and not self._land_one():
                break
        waiting = [it for it in self.partitions if it.outcome is None]
        if waiting:
            raise self._deadlock(waiting)
        while self.in_flight:
            self.land(self.in_flight[0])

    def _resume(self, partition: Partition) -> None:
        assert partition.code is not None
        while True:
            try:
                partition.pause = next(partition.code)
            except StopIteration as end:
                partition.outcome = end.value
                return
            if self.order != "eager" or not partition.pause.ready():
                return

    def _land_one(self) -> bool:
        """All partitions are blocked: lands one load, arrival or commit, the oldest or a random one; False if none."""
        loads = [it for it in self.in_flight if it.kind in ("load", "arrival", "commit")]
        if not loads:
            return False
        self.land(self.rng.choice(loads) if self.order == "random" else loads[0])
        return True

    def _deadlock(self, waiting: list[Partition]) -> Deadlock:
        lines: list[str] = []
        for partition in waiting:
            place = self.place(partition.at) if partition.at else None
            lines.append(f"\n  {partition.name} waits for {partition.pause.reason()}{f' at {place}' if place else ''}")
        return Deadlock(f"deadlock of program {self.program}:{''.join(lines)}")
