"""An independent check of small programs: explores every interleaving, without happens-before.

`recorded` runs a program with chosen numbers and records the events of each partition; no event blocks there, as
control flow depends on numbers only. `goes_wrong` explores their states exhaustively: partitions take steps in any
order, each TMA copy in flight may land at any time. It names a fault of some run: deadlock, too many arrivals, an
access that meets another one in flight, or a read that finds different contents in different runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from tawa.verify.run.events import Event
from tawa.verify.run.machine import Machine
from tawa.verify.run.memory import Actor
from tawa.verify.run.places import Place
from tawa.verify.run.state import NeedError
from tawa.verify.skeleton.program import Program, Term

Segment = list[list[Event]]
"""The events of each partition, in its order."""


class _Recorder:
    """Stands for the order of events in a run: records each event, and lets none block."""

    def __init__(self, names: list[str]) -> None:
        self.actors = [Actor(name, number) for number, name in enumerate(names)]
        self.segments: list[Segment] = [[[]]]
        self.memory = SimpleNamespace(regions={})

    def step(self, actor: Actor, event: Event) -> bool:
        self.segments[-1][actor.number].append(event)
        return True

    def fork(self) -> None:
        self.segments.append([[] for _ in self.actors])

    def join(self) -> None:
        self.segments.append([[]])

    def end(self, actor: Actor) -> None:
        """Nothing is checked here."""

    def finish(self) -> None:
        """Nothing is checked here."""


def recorded(program: Program, arguments: Mapping[str, int], trips: int = 0) -> list[Segment]:
    """The events ahead of the partitions, of the partitions, and behind them. trips: every number that has no name."""
    numbers: dict[Term, int] = {term: arguments[name] for name, term in program.arguments.items() if name in arguments}
    while True:
        machine = Machine(program, numbers, program.leader)
        recorder: Any = _Recorder([part.name for part in program.parts])
        machine.order = recorder
        try:
            machine.run()
        except NeedError as need:
            numbers[need.term] = trips
            continue
        return recorder.segments


class TooManyStates(Exception):
    """The program is too large to explore."""


@dataclass(frozen=True, slots=True)
class State:
    """`places`: events done by partition. `barriers`: (key, count, pending, bytes, phases). `flying`: copies under way.

    `contents`: (memory, which event wrote it last). `groups`, `stores`: open reads by partition, oldest first.
    """

    places: tuple[int, ...]
    barriers: tuple[tuple[Place, int, int, int, int], ...] = ()
    flying: tuple[tuple[int, int], ...] = ()
    contents: tuple[tuple[Place, tuple[int, int]], ...] = ()
    groups: tuple[tuple[tuple[Place, ...], ...], ...] = ()
    stores: tuple[tuple[tuple[Place, ...], ...], ...] = ()
    unfenced: tuple[tuple[Place, int], ...] = ()
    named: tuple[tuple[Place, int, int, int], ...] = ()  # (key, threads wanted, threads there, rendezvous complete)
    meeting: tuple[tuple[int, Place, int], ...] = ()  # the rendezvous at which a partition arrived last


class Wrong(Exception):
    """Some run has a fault."""


def goes_wrong(segments: list[Segment], most_states: int = 60_000) -> str:
    """The fault of some run; empty if none has one."""
    explorer = _Explorer(most_states)
    start = {State((0,))}
    try:
        for number, segment in enumerate(segments):
            lines = segment
            begins = {
                replace(
                    state,
                    places=(0,) * len(lines),
                    groups=_spread(state.groups, len(lines)),
                    stores=_spread(state.stores, len(lines)),
                )
                for state in start
            }
            start = explorer.run(number, lines, begins)
        for state in start:
            if state.flying or any(any(line) for line in state.stores) or any(tx for *_, tx, _ in state.barriers):
                raise Wrong("something is left at the end")
    except Wrong as wrong:
        return str(wrong)
    return ""


def _spread(lines: tuple[tuple[tuple[Place, ...], ...], ...], number: int) -> tuple[tuple[tuple[Place, ...], ...], ...]:
    first = lines[0] if lines else ()
    return (first, *((),) * (number - 1))


class _Explorer:
    def __init__(self, most_states: int) -> None:
        self.most_states = most_states
        self.read: dict[tuple[int, int, int, Place], tuple[int, int] | None] = {}
        self.seen_states = 0
        self.events: dict[tuple[int, int], Event] = {}

    def run(self, number: int, lines: list[list[Event]], begins: set[State]) -> set[State]:
        for which, line in enumerate(lines):
            for place, event in enumerate(line):
                self.events[(number * 16 + which, place)] = event
        ends: set[State] = set()
        seen = set(begins)
        work = list(begins)
        while work:
            state = work.pop()
            following = self.following(number, lines, state)
            if all(place == len(line) for place, line in zip(state.places, lines, strict=True)):
                ends.add(state)
            elif not following:
                raise Wrong("deadlock")
            for after in following:
                if after not in seen:
                    seen.add(after)
                    work.append(after)
            if len(seen) + self.seen_states > self.most_states:
                raise TooManyStates
        self.seen_states += len(seen)
        return ends

    def following(self, number: int, lines: list[list[Event]], state: State) -> list[State]:
        found: list[State] = []
        for copy in state.flying:
            event = self.events[copy]
            assert event.barrier is not None
            landed = replace(state, flying=tuple(other for other in state.flying if other != copy))
            found.append(_arrive(landed, event.barrier, 0, -event.amount))
        for which, line in enumerate(lines):
            place = state.places[which]
            if place < len(line):
                after = self.step(number, which, place, line[place], state)
                if after is not None:
                    places = (*state.places[:which], place + 1, *state.places[which + 1 :])
                    found.append(replace(after, places=places))
        return found

    def step(self, number: int, which: int, place: int, event: Event, state: State) -> State | None:
        here = (number * 16 + which, place)
        match event.kind:
            case "wait":
                assert event.barrier is not None
                phases = _of(state, event.barrier)[4]
                return None if phases & 1 == event.parity else state
            case "arrive":
                assert event.barrier is not None
                return _arrive(state, event.barrier, event.amount, 0)
            case "expect":
                assert event.barrier is not None
                return _arrive(state, event.barrier, 1, event.amount)
            case "init":
                assert event.barrier is not None
                if any(key == event.barrier for key, *_ in state.barriers):
                    raise Wrong("initialised twice")
                return replace(state, barriers=(*state.barriers, (event.barrier, event.amount, event.amount, 0, 0)))
            case "copy in" | "write":
                return self.write(here, event, state)
            case "free":
                return self.free(event, state)
            case "copy out":
                self.reads(here, event, state)
                return replace(state, stores=_append(state.stores, which, event.memory))
            case "dot":
                self.reads(here, event, state)
                return replace(state, groups=_append(state.groups, which, event.memory))
            case "store wait":
                return replace(state, stores=_keep(state.stores, which, event.amount))
            case "dot wait":
                return replace(state, groups=_keep(state.groups, which, event.amount))
            case "fence":
                return replace(state, unfenced=tuple(one for one in state.unfenced if one[1] != which))
            case "arrive at":
                return _arrive_at(state, which, event)
            case "wait at":
                (place,) = [round for who, key, round in state.meeting if (who, key) == (which, event.barrier)]
                return state if _rounds(state, event.barrier)[3] > place else None
            case "read":
                self.reads(here, event, replace(state, unfenced=()))
                return state
            case "use":
                raise Wrong("accumulator in flight")
            case _:
                raise AssertionError(event.kind)

    def idle(self, event: Event, state: State) -> Place:
        """The memory of an event, which no copy or wgmma in flight may access."""
        (memory,) = event.memory
        busy = [other for line in (*state.groups, *state.stores) for reads in line for other in reads]
        busy += [self.events[copy].memory[0] for copy in state.flying]
        if memory in busy:
            raise Wrong("written or given back while in use")
        return memory

    def free(self, event: Event, state: State) -> State:
        """Frees the memory: it holds no tile any more."""
        memory = self.idle(event, state)
        contents = tuple(entry for entry in state.contents if entry[0] != memory)
        return replace(state, contents=contents, unfenced=tuple(one for one in state.unfenced if one[0] != memory))

    def write(self, here: tuple[int, int], event: Event, state: State) -> State:
        memory = self.idle(event, state)
        contents = dict(state.contents)
        contents[memory] = here
        after = replace(state, contents=tuple(sorted(contents.items())))
        if event.kind == "write":
            return replace(after, unfenced=(*after.unfenced, (memory, here[0] % 16)))
        return replace(after, flying=tuple(sorted((*after.flying, here))))

    def reads(self, here: tuple[int, int], event: Event, state: State) -> None:
        contents = dict(state.contents)
        for memory in event.memory:
            if any(self.events[copy].memory[0] == memory for copy in state.flying):
                raise Wrong("read while being written")
            if any(memory == other for other, _ in state.unfenced):
                raise Wrong("missing fence")
            written = contents.get(memory)
            if written is None:
                raise Wrong("read but never written")
            if self.read.setdefault((*here, 0, memory), written) != written:
                raise Wrong("what is read depends on the order")


def _rounds(state: State, key: Place | None) -> tuple[Place, int, int, int]:
    assert key is not None
    return next((entry for entry in state.named if entry[0] == key), (key, 0, 0, 0))


def _arrive_at(state: State, which: int, event: Event) -> State:
    key, wanted, there, done = _rounds(state, event.barrier)
    if there and wanted != event.of:
        raise Wrong("different threads are wanted at a named barrier")
    there += event.amount
    if there > event.of:
        raise Wrong("too many threads arrive at a named barrier")
    after = (key, event.of, 0, done + 1) if there == event.of else (key, event.of, there, done)
    others = [entry for entry in state.meeting if entry[:2] != (which, key)]
    named = tuple(sorted((*(entry for entry in state.named if entry[0] != key), after)))
    return replace(state, named=named, meeting=tuple(sorted((*others, (which, key, done)))))


def _of(state: State, barrier: Place) -> tuple[Place, int, int, int, int]:
    for entry in state.barriers:
        if entry[0] == barrier:
            return entry
    raise Wrong("not initialised")


def _arrive(state: State, barrier: Place, arrivals: int, tx: int) -> State:
    key, count, pending, old, phases = _of(state, barrier)
    pending, tx = pending - arrivals, old + tx
    if pending < 0:
        raise Wrong("too many arrivals")
    if pending == 0 and tx < 0:
        raise Wrong("too many bytes")
    made = (key, count, count, 0, phases + 1) if pending == 0 and tx == 0 else (key, count, pending, tx, phases)
    return replace(state, barriers=tuple(made if entry[0] == key else entry for entry in state.barriers))


def _append(
    lines: tuple[tuple[tuple[Place, ...], ...], ...], which: int, reads: tuple[Place, ...]
) -> tuple[tuple[tuple[Place, ...], ...], ...]:
    return (*lines[:which], (*lines[which], reads), *lines[which + 1 :])


def _keep(
    lines: tuple[tuple[tuple[Place, ...], ...], ...], which: int, left: int
) -> tuple[tuple[tuple[Place, ...], ...], ...]:
    line = lines[which]
    return (*lines[:which], line[max(len(line) - left, 0) :], *lines[which + 1 :])
