"""Proofs for free trip counts: all states that the partitions can be in, relative to each other, visited once.

A run stops where a partition asks of an unknown what nothing has decided yet (`tawa.verify.credits.questions`), and
goes on twice: with yes and with no. Before it asks, every other partition goes as far as it can: the network is a Kahn
network, so the turns decide nothing. A state that was seen before is left. When no state is left and none went wrong,
every run is right.

Why: give every unknown any number. The run that follows asks finitely many questions; by induction on them it is at
each in a state that was visited, up to what no step can tell apart: counts of rings matter by their distance from the
puts, iterations by their distance from what is known of their loop. So it does what the visited run did, and goes
wrong nowhere. The real numbers are among those given: a loop that is entered again, or in another iteration of the
loop around it, is another unknown, of which the real one is a special case; equal trees of operations are equal
numbers. What relates different unknowns is not used, hence a fault here may be none; then the search with numbers
decides.

What nobody can ask for any more is forgotten, or the states would never come again. Should it be asked for after all,
it is answered both ways once more: that adds runs and takes none away. What a partition is waiting to hear is kept, so
that every answer brings it nearer to its next step; without that, runs might be cut off before they do anything.

Nothing here depends on where a run began, with one exception: a put that does not wait is right for the first D counts
alone, so as long as one may come, the number of puts up to D belongs to the state.
"""

from __future__ import annotations

from typing import Any

from tawa.verify.credits.ends import check_end
from tawa.verify.credits.machine import Machine
from tawa.verify.credits.questions import ENDLESS, Questions, Site, UnclearError, find_questions
from tawa.verify.credits.skeleton import Code, Program
from tawa.verify.credits.state import FaultError, copied
from tawa.verify.credits.walker import Instance, Iteration, Mark, Nest, Walker

MOST = 20_000
"""Instructions, also where a budget would grant more: beyond, states seldom come again at all."""
_STOP = 60
"""What taking one state apart and copying it costs, in instructions."""
LONG = 8
"""Trips from which on the number of a loop, though it stands in the text, is first taken to be free."""


def prove_free(program: Program, budget: int) -> Questions | None:
    """What was asked, where all runs are right even if every unknown were free. budget: instructions it may take.

    None says nothing: a fault that the real numbers may exclude, a budget that ended, values that are not understood.
    """
    try:
        questions = find_questions(program, LONG)
        if _all_right(program, questions, budget):
            return questions
        exactly = find_questions(program) if questions.least else questions
        return exactly if questions.least and _all_right(program, exactly, budget) else None
    except UnclearError:
        return None


def _all_right(program: Program, questions: Questions, budget: int) -> bool:
    try:
        states = [_State(program, questions)]
        seen: set[Any] = set()
        while states:
            state = states.pop()
            asked = state.advance()
            budget -= state.steps + _STOP
            if budget < 0:
                return False
            if asked is None:
                continue
            key = state.relative()
            if key not in seen:
                seen.add(key)
                states += [state.answered(asked, yes=True), state.answered(asked, yes=False)]
    except (FaultError, UnclearError):
        return False
    return True


class _State(Machine):
    """All partitions, and what has been decided: how many trips of each unknown are certain, and whether it ends."""

    def __init__(self, program: Program, questions: Questions) -> None:
        super().__init__(program, {}, program.leader)
        self.questions = questions
        self.walkers = [Walker(part) for part in program.parts]
        self.threads = list(self.walkers)
        self.known: dict[Instance, tuple[int, bool]] = {}

    # -- running -----------------------------------------------------------------------------------------------------

    def advance(self) -> Instance | None:
        """Runs until a question decides; None at the end. Raises `FaultError` or `UnclearError`."""
        leader = self.leader
        while self.alive:
            moved = True
            while moved:
                moved = False
                for index in [it for it in self.alive if it != leader and (it or len(self.alive) == 1)]:
                    moved = self._go(index) or moved
            if leader in self.alive and self._go(leader):
                continue
            asking = [it for it in (leader, *self.alive) if it in self.alive and self.walkers[it].asks is not None]
            if asking:
                return self.walkers[asking[0]].asks
            if self.alive:
                self._block()
        check_end(self.program, self.channels)
        return None

    def answered(self, asked: Instance, *, yes: bool) -> _State:
        """A copy in which the question that `asked` waits for is answered."""
        made: _State = object.__new__(_State)
        made.program, made.questions, made.leader = self.program, self.questions, self.leader
        made.events, made.steps = None, 0
        made.registers = list(self.registers)
        made.channels = [copied(channel) for channel in self.channels]
        made.walkers = [walker.copy() for walker in self.walkers]
        made.threads = list(made.walkers)
        made.alive = list(self.alive)
        number, _ = self.known.get(asked, (0, False))
        made.known = {**self.known, asked: (number + 1, False) if yes else (number, True)}
        return made

    def _go(self, index: int) -> bool:
        """Runs one partition until it waits, asks, ends, or (the leader) comes to the head of a loop."""
        walker = self.walkers[index]
        code, registers = walker.part.code, self.registers
        sites = self.questions.sites[index]
        start = self.steps
        walker.asks = None
        while True:
            instruction = code[walker.pc]
            kind = instruction[0]
            following = walker.pc + 1
            head = False
            if kind == Code.SCALAR or kind == Code.ASSUME:
                walker.pc = following
                continue
            if kind == Code.MOVE:
                values = [registers[it] for it in instruction[1]]
                for target, value in zip(instruction[2], values, strict=True):
                    registers[target] = value
            elif kind == Code.ADVANCE:
                registers[instruction[2]] = registers[instruction[1]] + 1
            elif kind == Code.PUT:
                if not self._put(index, walker, instruction):
                    break
            elif kind == Code.GET:
                if not self._get(index, walker, instruction):
                    break
            elif kind == Code.CONSUMED:
                condition = instruction[3]
                holds = True if condition < 0 else self._holds(walker, sites, condition)
                if holds is None:
                    break
                if holds:
                    self._consumed(index, walker, (kind, instruction[1], instruction[2], -1, instruction[4]))
            elif kind == Code.DOT:
                self._dot(index, walker, instruction)
            elif kind == Code.WAIT:
                keep = instruction[1]
                walker.flight = walker.flight[max(len(walker.flight) - keep, 0) :]
            elif kind == Code.JUMP:
                following = instruction[1]
            elif kind == Code.IF:
                holds = self._holds(walker, sites, instruction[1])
                if holds is None:
                    break
                following = following if holds else instruction[2]
            elif kind == Code.FOR:
                entered = self._enter_loop(walker, sites[walker.pc])
                if entered is None:
                    break
                following = following if entered else instruction[6]
                head = entered
            elif kind == Code.NEXT:
                again = self._next(walker)
                if again is None:
                    break
                following = instruction[1] if again else following
                head = again
            elif kind == Code.WHILE:
                self._enter_while(walker, sites[walker.pc])
            elif kind == Code.TEST:
                again = self._test_while(walker)
                if again is None:
                    break
                following = following if again else instruction[2]
                head = again
            elif kind == Code.FORK:
                if self.alive == [0] and walker.waits is None:
                    walker.waits = ("fork", 0, 0)
                    self.alive = list(range(len(self.walkers)))
                    self.steps += 1
                    return True
                if len(self.alive) > 1:
                    break
                walker.waits = None
            elif kind == Code.END:
                self.alive.remove(index)
                if walker.flight:
                    raise FaultError("accumulator in flight", "wgmmas are in flight at the end", index, None)
                self.steps += 1
                return True
            else:
                raise UnclearError
            walker.pc = following
            self.steps += 1
            if head and index == self.leader:
                break
        return self.steps > start

    # -- questions ---------------------------------------------------------------------------------------------------

    def _more(self, walker: Walker, instance: Instance, than: int) -> bool | None:
        """Whether the unknown is more than a number; None where that is not decided."""
        number, ended = self.known.get(instance, (0, False))
        if number > than or ended:
            return number > than
        if than < self.questions.least.get(instance[0], 0):
            self.known[instance] = (than + 1, False)
            return True
        walker.asks = instance
        return None

    def _ask(self, walker: Walker, site: Site) -> tuple[bool | None, int]:
        """The answer to the first question of a site, and which time its unknown is asked about."""
        constant = self.questions.constant.get(site.unknown)
        if constant is not None:
            return constant > site.start, 0
        if site.unknown in self.questions.flags:
            return self._more(walker, (site.unknown, walker.nest, 0), 0), 0
        if site.start >= site.end:
            return False, 0
        level = walker.marks[-1]
        mark = level.get(site.unknown) or Mark(0, -1, False)
        if site.start > mark.start:
            time, answer = mark.time, False if mark.ended else None
        else:
            time, answer = mark.time + 1, None
        if answer is None:
            answer = self._more(walker, (site.unknown, walker.nest, time), site.start)
        if answer is not None:
            level[site.unknown] = Mark(time, site.start, not answer)
        return answer, time

    def _holds(self, walker: Walker, sites: dict[int, Site], condition: int) -> bool | None:
        """A condition; None where it is not decided."""
        site = sites.get(walker.pc)
        if site is None:
            value = self.registers[condition]
            if not isinstance(value, int):
                raise UnclearError
            return bool(value)
        answer, _ = self._ask(walker, site)
        return answer if answer is None else answer != site.inverted

    def _enter_loop(self, walker: Walker, site: Site) -> bool | None:
        answer, time = self._ask(walker, site)
        if answer:
            walker.loops.append(Iteration(site.unknown, time, site.start, site.end))
            walker.marks.append({})
            walker.set_nest()
        return answer

    def _next(self, walker: Walker) -> bool | None:
        """Whether the innermost loop goes round again; a loop that ends is left."""
        if self.steps > MOST:  # a loop whose many trips stand in the text
            raise UnclearError
        frame = walker.loops[-1]
        again: bool | None = frame.index + 1 < frame.end
        if again and frame.unknown not in self.questions.constant:
            again = self._more(walker, (frame.unknown, walker.nest[:-1], frame.time), frame.index + 1)
        if again is None:
            return None
        if again:
            frame.index += 1
            walker.marks[-1] = {}
        elif frame.unknown in self.questions.constant:
            self._leave(walker, None)
        else:
            capped = frame.index + 1 >= frame.end
            self._leave(walker, Mark(frame.time, frame.end - 1 if capped else ENDLESS, not capped))
        walker.set_nest()
        return again

    @staticmethod
    def _leave(walker: Walker, mark: Mark | None) -> None:
        """Ends the innermost loop. mark: what is known of its unknown from then on."""
        frame = walker.loops.pop()
        walker.marks.pop()
        if mark is not None:
            walker.marks[-1][frame.unknown] = mark

    def _enter_while(self, walker: Walker, site: Site) -> None:
        """Its first question comes behind what is computed before each trip."""
        mark = walker.marks[-1].get(site.unknown)
        time = 0 if mark is None else mark.time + 1
        walker.marks[-1][site.unknown] = Mark(time, 0, False)
        walker.loops.append(Iteration(site.unknown, time, 0, ENDLESS))
        walker.marks.append({})
        walker.set_nest()

    def _test_while(self, walker: Walker) -> bool | None:
        frame = walker.loops[-1]
        again = self._more(walker, (frame.unknown, walker.nest[:-1], frame.time), frame.index)
        if again is None:
            return None
        if again:
            frame.index += 1
            walker.marks[-1] = {}
        else:
            self._leave(walker, Mark(frame.time, ENDLESS, True))
        walker.set_nest()
        return again

    # -- the state, relative to itself -------------------------------------------------------------------------------

    def relative(self) -> Any:
        """What the rest of all runs from here depends on. Forgets what nobody asks for any more."""
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
                min(number, self.questions.least.get(unknown, 0)),
            )
            for (unknown, nest, time), (number, ended) in self.known.items()
        )
        threads = tuple(self._thread(index) for index in range(len(self.walkers)))
        return tuple(self.alive), rings, tuple(known), threads

    def _origin(self, instance: Instance, askers: list[int]) -> int:
        """The number itself where it is asked for by somebody who is not in the loop; else distances say all."""
        unknown, nest, time = instance
        depth = len(nest)
        for index in askers:
            around = self.walkers[index].nest
            if len(around) <= depth or around[:depth] != nest or around[depth][:2] != (unknown, time):
                return self.known[instance][0]
        return -1

    def _may_ask(self, index: int, instance: Instance) -> bool:
        """Whether a partition may still ask about the unknown. Yes where that is hard to tell."""
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
        return mark is None or mark.time < time or (mark.time == time and not mark.ended)

    def _renamed(self, nest: Nest) -> Nest:
        """Iterations counted from what is known of their loops."""
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
                sorted((unknown, it.time, it.start, it.ended) for unknown, it in level.items() if reach >> unknown & 1)
            )
            for level in walker.marks
        )
        ends = tuple(it.end - it.index if it.end < ENDLESS else -1 for it in walker.loops)
        flight = tuple(tuple(sorted((ring, count - puts[ring]) for ring, count in it)) for it in walker.flight)
        values = tuple(self._relative(self.registers[number], ring) for number, ring in walker.part.live[walker.pc])
        return walker.pc, self._renamed(walker.nest), ends, marks, flight, values
