"""One run of a proof: its steps, the queries by which it forks, and how two of its states become one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

from tawa.ir import Operation
from tawa.verify.free.questions import UnclearError
from tawa.verify.free.sites import ENDLESS, Asked, Questions, Site
from tawa.verify.free.walkers import Instance, Iteration, Mark, Walker, WalkerState
from tawa.verify.run.events import Act, Event
from tawa.verify.run.happens_before import Order
from tawa.verify.run.merge import merge
from tawa.verify.run.places import NotUnderstood
from tawa.verify.run.recurrence import covers
from tawa.verify.run.state import Channel, Thread, copied
from tawa.verify.skeleton.program import Program

MOST = 20_000
"""The most instructions from one state to the next: more belong to a loop with a large constant trip count."""


class FreeRun(WalkerState):
    """The run: its steps, and the queries by which it forks. answers: all answers so far.

    superseded: another state covers it, from which the proof goes on.
    """

    order: Order | None
    superseded = False

    def __init__(self, program: Program, questions: Questions) -> None:
        super().__init__(program, questions)
        self.answers: dict[Instance, tuple[int, bool]] = {}
        self.query: Instance = (0, (), 0)

    def wishes(self) -> tuple[tuple[Asked, int], ...]:
        """The numbers that were asked for, with the answers of this run; of those inside of loops, the largest."""
        largest: dict[int, int] = {}
        for (unknown, _, _), (number, _) in sorted(self.answers.items()):
            if unknown in self.questions.asked:
                largest[unknown] = max(number, largest.get(unknown, 0))
        return tuple((self.questions.asked[unknown], number) for unknown, number in largest.items())

    # -- running -----------------------------------------------------------------------------------------------------

    def advance(self) -> Instance | None:
        """Runs until every partition is blocked and one on a query: the query; None at the end of the run.

        Raises `FaultError` or `UnclearError`.
        """
        while self.alive:
            self._follow()
            if self.leader in self.alive and self._run_partition(self.leader):
                continue
            asks = [self.walkers[it].asks for it in (self.leader, *self.alive) if it in self.alive]
            asked = [it for it in asks if it is not None]
            if asked:  # the leader must not run ahead for ever of a reader that asks what the leader asks no more
                leads = self.leader in self.alive
                return next((it for it in asked if not (leads and self._may_ask(self.leader, it))), asked[0])
            if self.alive:
                self._block()
        self._finish()
        return None

    def answered(self, asked: Instance, *, yes: bool) -> Self:
        """A copy in which the query of `asked` is answered."""
        made: Self = object.__new__(type(self))
        made.program, made.questions, made.leader = self.program, self.questions, self.leader
        made.events, made.steps = None, 0
        made.registers = list(self.registers)
        made.channels = [copied(channel) for channel in self.channels]
        made.walkers = [walker.copy() for walker in self.walkers]
        made.threads = list(made.walkers)
        made.alive = list(self.alive)
        made.order = None if self.order is None else self.order.copy()
        number = max(self.known.get(asked, (0, False))[0], self.questions.least.get(asked[0], 0))
        made.known = {**self.known, asked: (number + 1, False) if yes else (number, True)}
        made.answers = {**self.answers, asked: made.known[asked]}
        return made

    def forget_writes(self, kept: set[tuple[Any, ...]]) -> None:
        """Makes what was written count as unwritten, except the regions of `kept`."""
        for rank in self.settled.written - kept:
            self.settled.regions[rank][1].unwritten = True

    def merge(self, other: Self) -> bool:
        """Makes this state cover another one with the same key, too, if it can; else changes nothing."""
        assert self.order is not None and other.order is not None
        one, two, kept = self.settled, other.settled, self.order.copy()
        merge(self.order, one, other.order, two)
        self.relative()
        made = self.settled
        if made.key == one.key and all(
            covers(made.lacks, it.lacks) and made.written <= it.written for it in (one, two)
        ):
            return True
        self.order = kept
        self.relative()
        return False

    def _run_partition(self, index: int) -> bool:
        self.walkers[index].asks = None
        return super()._run_partition(index)

    def _fork(self, instruction: tuple[Any, ...]) -> None:
        main, started = self.walkers[0], cast(tuple[int, ...], instruction[1])
        others = [self.walkers[place] for place in started]
        for walker in others:
            walker.loops = [it.copy() for it in main.loops]
            walker.marks = [{} for _ in range(len(walker.loops) + 1)]
            walker.set_nest()
        main.marks[-1] = {}  # it asks what the others ask
        super()._fork(instruction)

    def _join(self, thread: Thread) -> None:
        assert isinstance(thread, Walker)
        thread.marks[-1] = {}
        super()._join(thread)

    # -- the policy for what is unknown: any value --------------------------------------------------------------------

    def _scalar(self, function: Any, inputs: list[Any], signature: tuple[Any, ...], out: int) -> Any:
        if function is None or out in self.program.unknown or not self.program.computes:
            return None
        for value in inputs:
            if type(value) is not int:
                return None
        return function(*inputs)

    def _leaves_out(self, instruction: tuple[Any, ...]) -> bool:
        """Yes: what the region computes is unknown, and equal where the same operations compute it."""
        for register, _ in instruction[2]:
            self.registers[register] = None
        return True

    def _assume(self, thread: Thread, condition: Any) -> None:
        """Nothing: a proof without an assumption holds with it."""

    def _send(self, thread: Thread, channel: Channel, number: Any) -> None:
        assert isinstance(thread, Walker)
        channel.numbers[channel.puts - 1] = thread.nest

    def _receive(self, thread: Thread, number: Any) -> Any:
        assert isinstance(thread, Walker)
        if number != thread.nest:
            raise UnclearError("a number that comes out of a ring is that of another iteration", None)

    def _known(self, value: Any, op: Operation, what: str) -> int:
        if isinstance(value, int):
            return value
        raise NotUnderstood(f"{what} of {op.name} is no count", op)

    def _crossing(self, thread: Thread, act: Act) -> Any:
        assert isinstance(thread, Walker)
        return None if act.number < 0 else thread.nest

    def _taken(self, order: Order, event: Event) -> Any:
        """Nothing: that the number is the one of this iteration is checked where it is read."""

    # -- queries -----------------------------------------------------------------------------------------------------

    def _exceeds(self, walker: Walker, instance: Instance, than: int) -> bool | None:
        """Whether the unknown is more than `than`; None if that is undecided."""
        number, ended = self.known.get(instance, (0, False))
        if number > than or ended:
            return number > than
        if than < self.questions.least.get(instance[0], 0):
            self.known[instance] = (than + 1, False)
            return True
        if than >= self.questions.most.get(instance[0], ENDLESS):
            return False
        walker.asks = instance
        return None

    def _query(self, walker: Walker, site: Site, *, peeks: bool = False) -> tuple[bool | None, int]:
        """The answer to the first query of a site, and the execution number of its unknown.

        peeks: for a condition. A site that starts before that trip, and comes after it, is of the same execution; so is
        a loop that starts with that trip, if the answer was yes.
        """
        constant = self.questions.constant.get(site.unknown)
        if constant is not None:
            return constant > site.start, 0
        if site.unknown in self.questions.flags:
            nest = walker.nest[: self.questions.flags[site.unknown]]
            return self._exceeds(walker, (site.unknown, nest, 0), 0), 0
        if site.start >= site.end:
            return False, 0
        if site.stage is not None:
            return self._query_stage(walker, site, site.stage)
        level = walker.marks[-1]
        mark = level.get(site.unknown) or Mark(0, -1, False)
        last, time, answer = mark.start, mark.time, None
        if site.start > last or (site.start == last and mark.peeked and not (mark.ended or peeks)):
            answer = False if mark.ended else None
        elif site.start == last or not mark.peeked:
            last, time = -1, mark.time + 1
        instance, most = (site.unknown, walker.nest, time), self.questions.remembered.get(site.unknown, 0)
        if answer is None and mark.trips >= 0 and site.start < most and instance not in self.known:
            self.known[instance] = (min(mark.trips, site.start + 1), mark.trips <= site.start)
        if answer is None:
            answer = self._exceeds(walker, instance, site.start)
        if answer is not None:
            number, ended = self.known.get(instance, (0, False))
            trips = min(number, most) if most and ended and not (answer or peeks) else mark.trips
            level[site.unknown] = Mark(time, max(site.start, last), not answer, peeked=peeks, trips=trips)
        return answer, time

    def _query_stage(self, walker: Walker, site: Site, stage: int) -> tuple[bool | None, int]:
        """As `_query`, of a site whose trips come after those of the stages before it.

        Raises UnclearError unless the stage before it has ended after a known number of trips.
        """
        level = walker.marks[-1]
        mark = level.get(site.unknown)
        last = -1 if mark is None or mark.stage is None else mark.stage
        if mark is not None and stage == last + 1 and mark.exact:
            mark = Mark(mark.time, -1, mark.ended, stage, mark.place)
        elif mark is None or stage != last or mark.closed >= 0 or site.start <= mark.start:
            if stage:
                raise UnclearError("a loop goes on where another one ended, after an unknown number of trips", None)
            mark = Mark(0 if mark is None else mark.time + 1, -1, False, stage)
        answer: bool | None = False
        if not mark.ended:
            answer = self._exceeds(walker, (site.unknown, walker.nest, mark.time), mark.taken + site.start)
            if answer is None:
                return None, mark.time
            mark = replace(mark, ended=not answer)
            if answer and site.cap is not None:
                answer = self._exceeds(walker, (site.cap, walker.nest, 0), site.start)
                if answer is None:
                    return None, mark.time
                level[site.cap] = Mark(0, site.start, not answer)
        start, closed = (site.start, -1) if answer else (mark.start, site.start)
        level[site.unknown] = replace(mark, start=start, closed=closed)
        return answer, mark.time

    def _site(self, thread: Thread) -> tuple[Walker, Site | None]:
        assert isinstance(thread, Walker)
        return thread, self.questions.sites[self.threads.index(thread)].get(thread.pc)

    def _holds(self, thread: Thread, register: int) -> bool | None:
        value = self.registers[register]
        if isinstance(value, int):
            return bool(value)
        walker, site = self._site(thread)
        if site is None:
            raise UnclearError(
                "a condition is no count, and no number that the partitions share", thread.part.ops[thread.pc]
            )
        answer, _ = self._query(walker, site, peeks=True)
        return answer if answer is None else answer != site.inverted

    def _enter_loop(self, thread: Thread, instruction: tuple[Any, ...]) -> bool | None:
        walker, site = self._site(thread)
        assert site is not None
        answer, time = self._query(walker, site)
        if answer:
            taken = 0 if site.stage is None else walker.marks[-1][site.unknown].taken
            loop = Iteration(site, time, taken)
            walker.loops.append(loop)
            walker.marks.append({})
            walker.set_nest()
            if instruction[4] >= 0 and instruction[4] not in self.program.unknown and self.program.computes:
                loop.lower, loop.step = self.registers[instruction[1]], self.registers[instruction[3]]
                self.registers[instruction[4]] = loop.lower
        return answer

    def _next(self, thread: Thread, instruction: tuple[Any, ...]) -> bool | None:
        walker, _ = self._site(thread)
        if self.steps > MOST:
            raise UnclearError("a loop with a large constant trip count", thread.part.ops[thread.pc])
        frame = walker.loops[-1]
        again: bool | None = frame.index + 1 < frame.end
        if again and frame.unknown not in self.questions.constant:
            again = self._exceeds(walker, (frame.unknown, walker.nest[:-1], frame.time), frame.index + 1)
        ended = again is False
        if again and frame.cap is not None:
            again = self._exceeds(walker, (frame.cap, walker.nest[:-1], 0), frame.index + 1 - frame.taken)
        if again is None:
            return None
        if again:
            frame.index += 1
            frame.trip += 1
            if frame.lower is not None:
                self.registers[instruction[2]] = frame.lower + frame.trip * frame.step
            walker.marks[-1] = {}
        elif frame.unknown in self.questions.constant:
            self._leave(walker, None)
        elif frame.stage is not None:
            start = frame.index - frame.taken
            self._leave(walker, Mark(frame.time, start, ended, frame.stage, frame.taken, start + 1))
            if frame.cap is not None:
                walker.marks[-1][frame.cap] = Mark(0, start + 1, True)
        else:
            capped = frame.index + 1 >= frame.end
            trips = -1 if capped else self._counted(frame) or -1
            self._leave(walker, Mark(frame.time, frame.end - 1 if capped else ENDLESS, not capped, trips=trips))
        walker.set_nest()
        return again

    @staticmethod
    def _leave(walker: Walker, mark: Mark | None) -> None:
        """Leaves the innermost loop. mark: what is known of its unknown afterwards."""
        frame = walker.loops.pop()
        walker.marks.pop()
        if mark is not None:
            walker.marks[-1][frame.unknown] = mark

    def _enter_while(self, thread: Thread, instruction: tuple[Any, ...]) -> None:
        """Enters a while. Its first query comes after its `before` region, which runs ahead of each trip."""
        walker, site = self._site(thread)
        assert site is not None
        mark = walker.marks[-1].get(site.unknown)
        time = 0 if mark is None else mark.time + 1
        walker.marks[-1][site.unknown] = Mark(time, 0, False)
        walker.loops.append(Iteration(site, time))
        walker.marks.append({})
        walker.set_nest()

    def _test_while(self, thread: Thread, instruction: tuple[Any, ...]) -> bool | None:
        walker, _ = self._site(thread)
        frame = walker.loops[-1]
        again = self._exceeds(walker, (frame.unknown, walker.nest[:-1], frame.time), frame.index)
        if again is None:
            return None
        if again:
            frame.index += 1
            walker.marks[-1] = {}
        else:
            self._leave(walker, Mark(frame.time, ENDLESS, True))
        walker.set_nest()
        return again
