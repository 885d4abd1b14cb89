"""One CTA: partitions as coroutines, asynchronous work in flight, and the scheduler.

A partition runs until it waits. What was issued lands by `order`:

    eager    at once
    late     at the last legal moment: a wgmma, a TMA store or a cp.async when it is waited for; a TMA load, or an
             arrival behind cp.async, when nobody can go on
    random   after any step, in seeded order (wgmmas of one partition stay in order)

Turns are taken round robin: whole runs under `eager`, single protocol steps under `late`; by lot under `random`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal

from tawa.dialects.lifetimes import freed_behind
from tawa.ir import Block, Module, Operation, Value, source_of
from tawa.remarks import SourceLocation
from tawa.sim.errors import Deadlock, DescriptorInUse, SimulationError
from tawa.sim.machine.addresses import AddressSpace
from tawa.sim.machine.trace import Key, Recorder, Trace
from tawa.sim.machine.values import Accumulator, SharedView, TensorDescriptor

Order = Literal["eager", "late", "random"]
Kind = Literal["load", "copy", "arrival", "wgmma", "store"]


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a partition. `tick` counts the events of the run; `target` names the barrier, ring or buffer.

    action: "issue", "land" with load, copy, arrival, wgmma or store; "wait" (blocked) and "pass" at a barrier;
    "arrive", "expect", "fence", "local_store", "wgmma wait", "store wait"; "put", "get", "consumed" at the aref level.
    """

    tick: int
    program: tuple[int, int, int]
    partition: str
    action: str
    target: str = ""
    slot: int | None = None
    parity: int | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """What a partition hands the scheduler: it goes on when `ready`; `reason` says, when asked, what is missing."""

    ready: Callable[[], bool]
    reason: Callable[[], str] = str


Run = Generator[Pause, None, list[Any]]
STEP = Pause(lambda: True)


@dataclass(slots=True, eq=False)
class Action:
    """Something asynchronous. `reads`: the shared memory it reads until it is waited for.

    behind: what lands first. fills: what a cp.async writes. descriptors: what a TMA copy reads until it has landed.
    """

    kind: Kind
    owner: Partition
    op: Operation
    effect: Callable[[], None]
    reads: list[SharedView] = field(default_factory=list[SharedView])
    result: Accumulator | None = None
    target: str = ""
    landed: bool = False
    behind: list[Action] = field(default_factory=list["Action"])
    fills: SharedView | None = None
    descriptors: tuple[TensorDescriptor, ...] = ()


@dataclass(slots=True, eq=False)
class Partition:
    """A coroutine of the CTA. `agent` tells writers of shared memory apart; a default region is its kernel's agent."""

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
    copies: list[list[Action]] = field(default_factory=lambda: [[]])  # groups of cp.async; the last one is open
    unfenced: list[SharedView] = field(default_factory=list[SharedView])
    fenced_copies: int = 0  # how many cp.async of the CTA had landed at the last fence
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
        """Where arrays lie in global memory."""
        return self.cta.memory

    def log(
        self, op: Operation, action: str, target: str = "", slot: int | None = None, parity: int | None = None
    ) -> None:
        """Notes one event."""
        if self.recorder:
            self.recorder.name_target(target, slot)
        self.cta.note(self.name, op, action, target, slot, parity)

    def waits_for(self, key: Key) -> None:
        """For the clock: the operation under way waits for `key`."""
        if self.recorder:
            self.recorder.wait(key)

    def contributes(self, key: Key) -> None:
        """For the clock: the operation under way contributes to `key`."""
        if self.recorder:
            self.recorder.signal(key)

    def fork_and_join(self, op: Operation, members: list[Partition], reason: str) -> Run:
        """Waits until the partitions that `op` starts have ended."""
        start, end = (op, "start"), (op, "end")
        for member in (self, *members):
            if member.recorder and member is self:
                member.recorder.signal(start)
                member.recorder.step(op, self.cta.place(op))
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
        """Waits until at most `left` actions of a queue are in flight; the oldest go first."""
        while len(queue) > left:
            action = queue.pop(0)
            self.waits_for(action)
            self.cta.land(action)
            self.cta.release(action)
            if action.result is not None:
                action.result.waited = True


@dataclass(slots=True, eq=False)
class Cta:
    """The machine. `events`, `places` and `ends` are shared by all CTAs of a run."""

    module: Module
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    order: Order
    lot: random.Random
    events: list[Event]
    places: dict[Operation, SourceLocation | None]
    ends: dict[Block, dict[Operation, list[Operation]]]
    memory: AddressSpace
    timing: bool = False
    partitions: list[Partition] = field(default_factory=list[Partition])
    flying: list[Action] = field(default_factory=list[Action])
    reads: list[tuple[SharedView, str]] = field(default_factory=list[tuple[SharedView, str]])
    loaded: dict[tuple[int, int, str], SharedView] = field(default_factory=dict[tuple[int, int, str], SharedView])
    landed_copies: int = 0

    def spawn(self, name: str, env: dict[Value, Any], agent: int | None = None) -> Partition:
        """A new partition; whoever calls gives it its code."""
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

    def freed(self, block: Block) -> dict[Operation, list[Operation]]:
        """The allocations that are free again behind the operations of a block."""
        if block not in self.ends:
            self.ends[block] = freed_behind(block)
        return self.ends[block]

    def note(
        self, who: str, op: Operation, action: str, target: str = "", slot: int | None = None, parity: int | None = None
    ) -> None:
        """Appends an event."""
        event = Event(len(self.events), self.program, who, action, target, slot, parity, self.place(op))
        self.events.append(event)

    # -- asynchronous work ---------------------------------------------------------------------------------------

    def issue(self, action: Action) -> None:
        """Puts work in flight; under `eager` it lands at once."""
        self.flying.append(action)
        if action.owner.recorder:
            action.owner.recorder.start(action)
        self.reads += [(view, f"the {action.kind} of {action.owner.name}") for view in action.reads]
        action.owner.log(action.op, f"issue {action.kind}", action.target)
        if self.order == "eager":
            self.land(action)

    def land(self, action: Action) -> None:
        """Lets work happen, and before it the older wgmmas of the same partition."""
        if action.landed:
            return
        older = [it for it in self.flying if it.kind == "wgmma" and it.owner is action.owner]
        batch = [*older[: older.index(action)], action] if action.kind == "wgmma" else [action]
        for it in action.behind:
            self.land(it)
        for it in batch:
            it.landed = True
            self.flying.remove(it)
            try:
                it.effect()
            except SimulationError as error:
                raise self.located(error, it.op, it.owner) from None
            self.note(it.owner.name, it.op, f"land {it.kind}", it.target)

    def require_unused(self, maker: Operation) -> None:
        """Raises DescriptorInUse where something in flight may still read what `maker` made before."""
        for action in self.flying:
            if any(descriptor.maker is maker for descriptor in action.descriptors):
                name, what = maker.result.hint or "a descriptor", f"the {action.kind} of {action.owner.name}"
                raise DescriptorInUse(f"{name} is made anew while {what} at {action.target} may still read it")

    def release(self, action: Action) -> None:
        """What the action read may be written again."""
        gone = {id(view) for view in action.reads}
        self.reads = [read for read in self.reads if id(read[0]) not in gone]

    def located(self, error: SimulationError, op: Operation, who: Partition) -> SimulationError:
        """Adds place and partition to an error that has none."""
        if not error.op:
            error.op, error.location = op.name, self.place(op)
            error.partition, error.program = who.name, self.program
        return error

    def trace(self) -> Trace:
        """What the clock needs; empty unless `timing`."""
        return Trace(self.program, tuple(it.recorder for it in self.partitions if it.recorder))

    # -- scheduler -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs all partitions to their end, then lets the rest land. Raises Deadlock."""
        while True:
            runnable = [it for it in self.partitions if it.outcome is None and it.pause.ready()]
            if self.order == "random":
                if self.flying and self.lot.random() < 0.5:
                    self.land(self.lot.choice(self.flying))
                    continue
                runnable = [self.lot.choice(runnable)] if runnable else []
            for partition in runnable:
                self._turn(partition)
            if not runnable and not self._land_one():
                break
        waiting = [it for it in self.partitions if it.outcome is None]
        if waiting:
            raise self._deadlock(waiting)
        while self.flying:
            self.land(self.flying[0])

    def _turn(self, partition: Partition) -> None:
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
        """Nobody can go on: a load must land, or what arrives behind copies. The oldest does, or one by lot."""
        loads = [it for it in self.flying if it.kind in ("load", "arrival")]
        if not loads:
            return False
        self.land(self.lot.choice(loads) if self.order == "random" else loads[0])
        return True

    def _deadlock(self, waiting: list[Partition]) -> Deadlock:
        lines: list[str] = []
        for partition in waiting:
            place = self.place(partition.at) if partition.at else None
            lines.append(f"\n  {partition.name} waits for {partition.pause.reason()}{f' at {place}' if place else ''}")
        return Deadlock(f"deadlock of program {self.program}:{''.join(lines)}")
