"""Proofs for unconstrained trip counts: explores all states of the partitions relative to each other, each once.

A run stops where a partition queries an unknown that is not decided yet (`tawa.verify.credits.questions`), and forks
into two: one for yes, one for no. Before a query is answered, every other partition runs as far as it can: arefs form a
Kahn network, so the schedule does not matter. A state that was visited before is pruned. If no state is left and none
has a fault, every run is correct.

Soundness: give every unknown any number. The run with these numbers makes finitely many queries; by induction over
them, it is at each query in a visited state, up to differences that no step observes: counts of rings matter only
relative to the number of puts, iterations only relative to the known trips of their loop. So it makes the steps of the
visited run, and has no fault. The real numbers are among those given: each execution of a loop, and each iteration of
the enclosing loop, has an unknown of its own, of which the real number is a special case; equal expression trees are
equal numbers. Relations between different unknowns are ignored, hence a fault found here may be infeasible; then the
search with numbers decides.

Answers that no partition can query any more are dropped; otherwise no state would recur. If such an unknown is queried
after all, it is answered both ways again, which adds runs and removes none. The answers to the query that a partition
is blocked on are kept, so that every answer brings it nearer to its next step; otherwise runs might be pruned before
they make progress.

A number that comes out of a ring is the number that was put in with the same count. Two such numbers have equal trees
if the same operation put them in; they are the same number if it was in the same iteration of the same loops, with
which the reader's loops agree. So a put of a number records its loops and iterations, and where a reader takes the
number, its own must be equal.

The state does not depend on how long the run has been, with one exception: a put that does not wait is correct for the
first D counts only, so while one may still come, the number of puts up to D is part of the state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tawa.verify.credits.ends import check_end
from tawa.verify.credits.pairs import pairs_of
from tawa.verify.credits.questions import ENDLESS, Questions, Site, UnclearError, find_questions
from tawa.verify.credits.skeleton import Code, Program
from tawa.verify.credits.state import FaultError, copied
from tawa.verify.credits.walkers import Instance, Iteration, Mark, Walker, WalkerState

MOST = 20_000
"""The largest number of instructions, even if the budget is larger: beyond it states seldom recur."""
_STOP = 60
"""The cost of comparing and copying one state, in instructions."""
LONG = 8
"""Constant trip counts of this size or more are first treated as unconstrained."""


def prove_free(program: Program, budget: int) -> Questions | None:
    """The queries of the proof, if all runs are correct with every unknown unconstrained.

    budget: the largest number of instructions. None is inconclusive: a fault that may be infeasible, an exhausted
    budget, or values that are not modelled.
    """
    try:
        questions = find_questions(program, LONG)
        exactly = find_questions(program) if questions.least else None
        for pair in pairs_of(program):
            if not _all_right(pair, LONG, budget) and (exactly is None or not _all_right(pair, ENDLESS, budget)):
                return None
        return questions
    except UnclearError:
        return None


def _all_right(program: Program, free_from: int, budget: int) -> bool:
    try:
        questions = find_questions(program, free_from)
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


class _State(WalkerState):
    """The run: its steps, and the queries by which it forks."""

    # -- running -----------------------------------------------------------------------------------------------------

    def advance(self) -> Instance | None:
        """Runs until every partition is blocked and one on a query: the query; None at the end of the run.

        Raises `FaultError` or `UnclearError`.
        """
        leader = self.leader
        while self.alive:
            moved = True
            while moved:
                moved = False
                for index in [it for it in self.alive if it != leader and (it or len(self.alive) == 1)]:
                    moved = self._run_partition(index) or moved
            if leader in self.alive and self._run_partition(leader):
                continue
            asks = [self.walkers[it].asks for it in (leader, *self.alive) if it in self.alive]
            asked = [it for it in asks if it is not None]
            if asked:  # the leader never asks about a cap, and must not run ahead for ever of a reader that does
                return next((it for it in asked if it[0] in self.questions.caps), asked[0])
            if self.alive:
                self._block()
        check_end(self.program, self.channels)
        return None

    def answered(self, asked: Instance, *, yes: bool) -> _State:
        """A copy in which the query of `asked` is answered."""
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

    def _run_partition(self, index: int) -> bool:
        """Runs one partition until it blocks, queries, ends or, if it leads, reaches a loop head; whether it moved."""
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
            elif kind == Code.SEND:
                sending = self.channels[cast(int, instruction[1])]
                sending.numbers[sending.puts - 1] = walker.nest
            elif kind == Code.RECEIVE:
                ring, count = cast(tuple[int, int], registers[instruction[1]])
                if self.channels[ring].numbers.get(count) != walker.nest:
                    raise UnclearError  # it is the number of another iteration
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

    # -- queries -----------------------------------------------------------------------------------------------------

    def _exceeds(self, walker: Walker, instance: Instance, than: int) -> bool | None:
        """Whether the unknown is more than `than`; None if that is undecided."""
        number, ended = self.known.get(instance, (0, False))
        if number > than or ended:
            return number > than
        if than < self.questions.least.get(instance[0], 0):
            self.known[instance] = (than + 1, False)
            return True
        walker.asks = instance
        return None

    def _query(self, walker: Walker, site: Site) -> tuple[bool | None, int]:
        """The answer to the first query of a site, and the execution number of its unknown."""
        constant = self.questions.constant.get(site.unknown)
        if constant is not None:
            return constant > site.start, 0
        if site.unknown in self.questions.flags:
            return self._exceeds(walker, (site.unknown, walker.nest, 0), 0), 0
        if site.start >= site.end:
            return False, 0
        if site.stage is not None:
            return self._query_stage(walker, site, site.stage)
        level = walker.marks[-1]
        mark = level.get(site.unknown) or Mark(0, -1, False)
        if site.start > mark.start:
            time, answer = mark.time, False if mark.ended else None
        else:
            time, answer = mark.time + 1, None
        if answer is None:
            answer = self._exceeds(walker, (site.unknown, walker.nest, time), site.start)
        if answer is not None:
            level[site.unknown] = Mark(time, site.start, not answer)
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
                raise UnclearError
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

    def _holds(self, walker: Walker, sites: dict[int, Site], condition: int) -> bool | None:
        """The value of a condition; None if it is undecided."""
        site = sites.get(walker.pc)
        if site is None:
            value = self.registers[condition]
            if not isinstance(value, int):
                raise UnclearError
            return bool(value)
        answer, _ = self._query(walker, site)
        return answer if answer is None else answer != site.inverted

    def _enter_loop(self, walker: Walker, site: Site) -> bool | None:
        answer, time = self._query(walker, site)
        if answer:
            taken = 0 if site.stage is None else walker.marks[-1][site.unknown].taken
            walker.loops.append(Iteration(site, time, taken))
            walker.marks.append({})
            walker.set_nest()
        return answer

    def _next(self, walker: Walker) -> bool | None:
        """Whether the innermost loop iterates again; None if undecided. A loop that ends is left."""
        if self.steps > MOST:  # a loop with a large constant trip count
            raise UnclearError
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
            self._leave(walker, Mark(frame.time, frame.end - 1 if capped else ENDLESS, not capped))
        walker.set_nest()
        return again

    @staticmethod
    def _leave(walker: Walker, mark: Mark | None) -> None:
        """Leaves the innermost loop. mark: what is known of its unknown afterwards."""
        frame = walker.loops.pop()
        walker.marks.pop()
        if mark is not None:
            walker.marks[-1][frame.unknown] = mark

    def _enter_while(self, walker: Walker, site: Site) -> None:
        """Enters a while. Its first query comes after its `before` region, which runs ahead of each trip."""
        mark = walker.marks[-1].get(site.unknown)
        time = 0 if mark is None else mark.time + 1
        walker.marks[-1][site.unknown] = Mark(time, 0, False)
        walker.loops.append(Iteration(site, time))
        walker.marks.append({})
        walker.set_nest()

    def _test_while(self, walker: Walker) -> bool | None:
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
