"""Walkers: the partitions of a run with unconstrained trip counts, and the state of all of them, relative to itself.

A walker has its active loops and what it has asked: whether a loop goes on for another trip. `WalkerState.relative` is
the part of the state that continuations depend on: counts of rings relative to the number of puts, iterations relative
to the known trips of their loops. Equal relative states have equal continuations (`tawa.verify.free.proof`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from tawa.verify.free.sites import ENDLESS, Questions, Site
from tawa.verify.run.events import InFlight
from tawa.verify.run.machine import Machine
from tawa.verify.run.places import Place
from tawa.verify.run.recurrence import Settled, settle
from tawa.verify.run.state import Channel, Thread
from tawa.verify.skeleton.program import Part, Program, Term

Nest = tuple[tuple[int, int, int], ...]
"""The active loops, outermost first: unknown, execution number, iteration."""
Instance = tuple[int, Nest, int]
"""An unknown in one iteration of its enclosing loops, and the execution number: how often it was queried anew."""


@dataclass(slots=True)
class Mark:
    """A partition's queries of an unknown so far: execution number, largest `start`, whether the answer was no.

    For an unknown whose trips are taken in stages, `start` is the largest of the stage that was answered with yes, and
    `ended` whether the whole range has ended. taken: trips before the stage. closed: the `start` that was answered with
    no, which ended the stage; -1 while it goes on. peeked: the last query was a condition's, which ends no execution.
    trips: how many the last execution had, up to the number that later conditions ask for; -1 if that is not known.
    """

    time: int
    start: int
    ended: bool
    stage: int | None = None
    taken: int = 0
    closed: int = -1
    peeked: bool = False
    trips: int = -1

    @property
    def place(self) -> int:
        """The trips that were taken up to now."""
        return self.taken + self.start + 1

    @property
    def exact(self) -> bool:
        """Whether the stage has ended after a known number of trips."""
        return self.closed == self.start + 1


class Iteration:
    """An active loop of a partition: its iteration, counted from the start of the whole range, and its end.

    taken: where its stage starts. stage, cap: as in its `Site`. trip: its iteration, counted from here. lower,
    step: its bounds, if its iterations are numbers that the proof computes.
    """

    __slots__ = ("cap", "end", "index", "lower", "stage", "step", "taken", "time", "trip", "unknown")

    def __init__(self, site: Site, time: int, taken: int = 0) -> None:
        self.unknown, self.end, self.stage, self.cap = site.unknown, site.end, site.stage, site.cap
        self.time = time
        self.taken = taken
        self.index = taken + site.start
        self.trip: int = 0
        self.lower: Any = None
        self.step: Any = None

    def copy(self) -> Iteration:
        """An independent copy."""
        made: Iteration = object.__new__(Iteration)
        for name in Iteration.__slots__:
            setattr(made, name, getattr(self, name))
        return made


class Walker(Thread):
    """A partition in a run with unconstrained trip counts: a thread with its active loops, and marks for each level."""

    __slots__ = ("asks", "loops", "marks", "nest")

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.loops: list[Iteration] = []
        self.marks: list[dict[int, Mark]] = [{}]
        self.nest: Nest = ()
        self.asks: Instance | None = None

    def copy(self) -> Walker:
        """An independent copy."""
        made = Walker(self.part)
        made.pc, made.waits, made.nest, made.blocked = self.pc, self.waits, self.nest, self.blocked
        made.flight = list(self.flight)
        made.loops = [it.copy() for it in self.loops]
        made.marks = [{key: replace(it) for key, it in level.items()} for level in self.marks]
        return made

    def set_nest(self) -> None:
        """Recomputes `nest`; to be called when a loop is entered, left or iterates."""
        self.nest = tuple((it.unknown, it.time, it.index) for it in self.loops)


class WalkerState(Machine):
    """All walkers, and the answers so far: the known trips of each unknown, and whether it ends after them."""

    def __init__(self, program: Program, questions: Questions) -> None:
        super().__init__(program, {}, program.leader)
        self.questions = questions
        self.walkers = [Walker(part) for part in program.parts]
        self.threads = list(self.walkers)
        self.known: dict[Instance, tuple[int, bool]] = {}
        self.bases: list[int | None] = []
        self.settled = Settled()  # of the last relative state

    def relative(self) -> Any:
        """The state that all continuations depend on. Drops the answers that no partition queries any more."""
        askers: dict[Instance, list[int]] = {}
        for instance in self.known:
            waiting = [at for at, it in enumerate(self.walkers) if it.asks == instance or self._may_ask(at, instance)]
            if waiting:
                askers[instance] = waiting
        self.known = {instance: self.known[instance] for instance in askers}
        channels = self.channels
        reach, fresh = self.questions.reach, self.questions.fresh
        early = any(reach[at][walker.pc] >> fresh & 1 for at, walker in enumerate(self.walkers))
        rings = tuple(
            (
                tuple(it.puts - got for got in it.gets),
                tuple(tuple(count - it.puts for count in held) for held in it.borrowed),
                min(it.puts, it.depth) if early else 0,
                it.held,
                not it.gets and it.puts > 0,  # filled and never read, which is a fault when the run ends
                *(self._renamed(it.numbers[count]) for count in _unread(it)),
            )
            for it in channels
        )
        known = sorted(
            (
                unknown,
                self._renamed(nest),
                time,
                ended,
                self._origin((unknown, nest, time), askers[unknown, nest, time]),
                min(number, max(self.questions.least.get(unknown, 0), self.questions.most.get(unknown, 0))),
            )
            for (unknown, nest, time), (number, ended) in self.known.items()
        )
        self.bases = self._bases()
        threads = tuple(self._thread(index) for index in self.alive)
        self.settled = self._settled()
        return tuple(self.alive), rings, tuple(known), threads, self.settled.key

    def _settled(self) -> Settled:
        """The state of barriers and memory."""
        if self.order is None:
            return Settled()
        touches, writes = [-1] * len(self.walkers), [0] * len(self.walkers)
        for index in self.alive:
            walker = self.walkers[index]
            touches[index], writes[index] = walker.part.touches[walker.pc], walker.part.writes[walker.pc]
        rotated = {
            alloc: (ring.depth, base)
            for ring, base in zip(self.program.lifted, self.bases, strict=True)
            if base is not None
            for alloc in ring.allocs
        }
        return settle(self.order, touches, writes, rotated, self._renamed)

    def _bases(self) -> list[int | None]:
        """For each ring that rotates now, the count that all others are relative to; None for one that does not."""
        program = self.program
        fixed = 0
        for index in self.alive:
            walker = self.walkers[index]
            fixed |= walker.part.fixed[walker.pc] if walker.part.fixed else 0
        bases: list[int | None] = [None] * len(program.lifted)
        for index in self.alive if program.lifted else ():
            live = {register for register, _ in self.walkers[index].part.live[self.walkers[index].pc]}
            for register in live:
                place = program.rotating.get(register)
                if place is None:
                    continue
                ring = program.lifted[place]
                if ring.parities.get(register, -1) >= 0 and ring.parities[register] not in live:
                    fixed |= 1 << place
        for index in self.alive if program.lifted else ():
            walker = self.walkers[index]
            for register, _ in walker.part.live[walker.pc]:
                place = program.rotating.get(register)
                if place is not None and bases[place] is None and not fixed >> place & 1:
                    bases[place] = program.lifted[place].count(register, self.registers)
        return bases

    def _rotated(self, register: int, kind: int, index: int) -> Any:
        """What matters of a register; of a count, relative to that of its ring."""
        value, place = self.registers[register], self.program.rotating.get(register)
        base = None if place is None else self.bases[place]
        if base is not None and place is not None and value is not None:
            ring = self.program.lifted[place]
            count = ring.count(register, self.registers)
            return (value - base) % ring.depth if count is None else (count - base) % (2 * ring.depth)
        if isinstance(value, Place) and value.path:
            for ring, base in zip(self.program.lifted, self.bases, strict=True):
                if base is not None and value.alloc in ring.allocs and ring.depth > 1:
                    return value._replace(path=((value.path[0] - base) % ring.depth, *value.path[1:]))
        return self._relative(value, kind, index)

    def _relative(self, value: Any, kind: int, index: int) -> Any:
        """What matters of a register of partition `index`."""
        if kind < -1:
            if not isinstance(value, int):
                return None
            limit, modulus = self.program.counters[-2 - kind]
            return value if value <= limit else limit + 1 + (value - limit - 1) % modulus
        if isinstance(value, Place):
            return value
        if isinstance(value, InFlight):
            assert self.order is not None
            issued = self.order.actors[index].issued
            return tuple(sorted(group - issued for group in value.groups))
        if isinstance(value, tuple):
            place = cast(tuple[int, int], value)
            return place[0], place[1] - self.channels[place[0]].puts
        if isinstance(value, Term) or value is None:
            return None
        return value - self.channels[kind].puts if kind >= 0 else value

    def _origin(self, instance: Instance, askers: list[int]) -> int:
        """The known trips if a partition outside the loop may query them; −1 if only distances to them matter.

        If only conditions query them, those up to the largest number that these ask for.
        """
        unknown, nest, time = instance
        depth, found = len(nest), -1
        for index in askers:
            walker = self.walkers[index]
            around = walker.nest
            if not self.questions.loops[index][walker.pc] >> unknown & 1:
                found = max(found, min(self.known[instance][0], self.questions.conditions.get(unknown, 0)))
                continue
            if around[:depth] != nest:
                return self.known[instance][0]
            mark = walker.marks[depth].get(unknown)
            if mark is not None and mark.stage is not None and mark.time == time:
                continue  # its place in the range is part of the state
            if len(around) <= depth or (around[depth][:2] != (unknown, time) and walker.loops[depth].cap != unknown):
                return self.known[instance][0]
        return found

    def _may_ask(self, index: int, instance: Instance) -> bool:
        """Whether a partition may still query the unknown. Conservatively true."""
        unknown, nest, time = instance
        walker = self.walkers[index]
        if not self.questions.reach[index][walker.pc] >> unknown & 1:
            return False
        for level, (outer, entered, iteration) in enumerate(nest):
            if level >= len(walker.nest):
                mark = walker.marks[level].get(outer)
                return mark is None or mark.time < entered or (mark.time == entered and not mark.ended)
            here, times, at = walker.nest[level]
            if (here, times) != (outer, entered):
                return here != outer or times < entered
            if at != iteration:
                return at < iteration
        mark = walker.marks[len(nest)].get(unknown)
        open_ = mark is not None and (not mark.ended or (mark.peeked and mark.start > 0))
        return mark is None or mark.time < time or (mark.time == time and open_)

    def _renamed(self, nest: Nest) -> Nest:
        """The nest with iterations relative to the known trips of their loops."""
        return tuple(
            (unknown, time, iteration - self.known.get((unknown, nest[:level], time), (0, False))[0])
            for level, (unknown, time, iteration) in enumerate(nest)
        )

    def _thread(self, index: int) -> Any:
        walker = self.walkers[index]
        puts = [channel.puts for channel in self.channels]
        reach = self.questions.reach[index][walker.pc]
        marks = tuple(
            tuple(
                sorted(
                    (unknown, *self._relative_mark(walker, depth, unknown, it))
                    for unknown, it in level.items()
                    if reach >> unknown & 1
                )
            )
            for depth, level in enumerate(walker.marks)
        )
        ends = tuple(
            (it.end - it.index if it.end < ENDLESS else -1, self._counted(it), *self._relative_cap(walker, depth))
            for depth, it in enumerate(walker.loops)
        )
        flight = tuple(tuple(sorted((ring, count - puts[ring]) for ring, count in it)) for it in walker.flight)
        values = tuple(self._rotated(number, kind, index) for number, kind in walker.part.live[walker.pc])
        return walker.pc, self._renamed(walker.nest), ends, marks, flight, values

    def _relative_mark(self, walker: Walker, depth: int, unknown: int, mark: Mark) -> tuple[Any, ...]:
        """What later queries depend on; a place in a range that is taken in stages, relative to its known trips."""
        if mark.stage is None:
            return mark.time, mark.start, mark.ended, mark.peeked, mark.trips
        if depth < len(walker.loops) and walker.loops[depth].unknown == unknown:
            return mark.time, -1, False, mark.stage  # the loop replaces the mark when it ends
        known, _ = self.known.get((unknown, walker.nest[:depth], mark.time), (0, False))
        start = mark.start if mark.closed < 0 else mark.exact
        return mark.time, start, mark.ended, mark.stage, mark.closed < 0, mark.place - known

    def _counted(self, loop: Iteration) -> int:
        """The trips of a loop up to now, counted no further than a condition behind it asks; 0 if none asks."""
        return min(loop.index + 1, self.questions.remembered.get(loop.unknown, 0))

    def _relative_cap(self, walker: Walker, depth: int) -> tuple[int, ...]:
        """The stage of a loop, and its iteration relative to the known trips of its cap."""
        frame = walker.loops[depth]
        if frame.stage is None:
            return ()
        if frame.cap is None:
            return (frame.stage,)
        known, _ = self.known.get((frame.cap, walker.nest[:depth], 0), (0, False))
        return frame.stage, frame.index - frame.taken - known


def _unread(channel: Channel) -> list[int]:
    """The counts of the numbers that a reader has not released yet."""
    first = min((min([got, *held]) for got, held in zip(channel.gets, channel.borrowed, strict=True)), default=0)
    return [count for count in channel.numbers if count >= first]
