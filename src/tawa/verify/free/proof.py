"""Proofs for unconstrained trip counts: explores all states of the partitions relative to each other, each once.

A run stops where a partition queries an unknown that is not decided yet (`tawa.verify.free.questions`), and forks
into two: one for yes, one for no. Before a query is answered, every other partition runs as far as it can: arefs form a
Kahn network, so the schedule does not matter; at the barrier level, one schedule covers all that decide alike
(`tawa.verify.run.happens_before`). A state that was visited before is pruned. If no state is left and none has a fault,
every run is correct.

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

import heapq
from dataclasses import dataclass, field, replace
from typing import Any

from tawa.ir import Operation
from tawa.verify.crossed_numbers import SAME_MEMORY
from tawa.verify.effort import Told, untold
from tawa.verify.free.free_run import FreeRun
from tawa.verify.free.pairs import pairs_of
from tawa.verify.free.questions import UnclearError, find_questions
from tawa.verify.free.sites import ENDLESS, Asked
from tawa.verify.numbers.facts import Facts
from tawa.verify.run.memory import OtherNumber
from tawa.verify.run.places import NotUnderstood
from tawa.verify.run.recurrence import covers
from tawa.verify.run.state import FaultError, TooLongError
from tawa.verify.skeleton.program import Program, Term

_STOP = 100
"""The cost of comparing and copying one state, in instructions."""
_FEW = 1
"""States of one key that are kept apart."""
LONG = 8
"""Constant trip counts of this size or more are first treated as unconstrained."""


@dataclass(slots=True)
class Proof:
    """The result of the proof. holds: every run is correct, whatever the unknowns are.

    reason, op: else, why it does not hold or is inconclusive, and where. asked: the numbers that were asked for, by
    unknown. compared: all comparisons. wishes: the numbers of the run that has a fault, with what they are in it; the
    search with numbers tries that first. positive: steps that are positive only by the language's definition. assumed:
    what the order of events relied on.
    """

    holds: bool
    reason: str = ""
    op: Operation | None = None
    asked: dict[int, Asked] = field(default_factory=dict[int, Asked])
    compared: tuple[Term, ...] = ()
    wishes: tuple[tuple[Asked, int], ...] = ()
    positive: tuple[tuple[Term, Operation | None], ...] = ()
    assumed: tuple[str, ...] = ()


def prove(program: Program, budget: int, facts: Facts | None = None, told: Told = untold) -> Proof:
    """Whether all runs are correct with every unknown unconstrained.

    budget: the largest number of instructions. facts: about arguments; the proof uses them if it fails without them.
    told: of the instructions so far.
    """
    proof = _prove(program, budget, None, told)
    return proof if proof.holds or not facts else _prove(program, budget, facts, told)


def _prove(program: Program, budget: int, facts: Facts | None, told: Told) -> Proof:
    asked: dict[int, Asked] = {}
    compared: tuple[Term, ...] = ()
    try:
        questions = find_questions(program, LONG, facts)
        asked, compared = questions.asked, questions.compared
        exactly = find_questions(program, facts=facts) if questions.least else None
        assumed: dict[str, None] = {SAME_MEMORY: None} if questions.shares_memory else {}
        for pair in pairs_of(program):
            found = _explored(pair, LONG, _FEW, budget, facts, assumed, told)
            if found is not None and found.op is not None and program.computes:
                found = _explored(pair, LONG, ENDLESS, budget, facts, assumed, told)
            if found is not None and exactly is not None:
                found = _explored(pair, ENDLESS, ENDLESS, budget, facts, assumed, told)
            if found is not None:
                return replace(found, asked=asked, compared=compared)
    except UnclearError as unclear:
        return Proof(False, f"{unclear}", unclear.op, asked=asked, compared=compared)
    return Proof(True, positive=questions.positive, assumed=tuple(assumed))


def _explored(
    program: Program, free_from: int, most: int, budget: int, facts: Facts | None, assumed: dict[str, None], told: Told
) -> Proof | None:
    """Why the proof fails; None if it holds. most: see `_widened`."""
    state: FreeRun | None = None
    left = budget
    try:
        questions = find_questions(program, free_from, facts)
        state = FreeRun(program, questions)
        seen: dict[Any, _Known] = {}
        waiting = [(0, 0, state, state)]
        made = 0
        while waiting:
            *_, before, state = heapq.heappop(waiting)
            if before.superseded:
                continue
            asked = state.advance()
            left -= state.steps + _STOP
            told(budget - left, budget)
            if left < 0:
                return Proof(False, f"the state did not recur within the budget of the proof ({made} states)")
            if asked is None:
                continue
            state.query = asked
            known = seen.setdefault(state.relative(), _Known(len(seen)))
            widened = _widened(state, known.states, most)
            if widened is not None:
                made += 1
                for yes in (False, True):
                    following = widened.answered(widened.query, yes=yes)
                    heapq.heappush(waiting, (known.number, -2 * made - yes, widened, following))
        if state.order is not None:
            assumed.update(state.order.assumed)
        return None
    except FaultError as fault:
        assert state is not None
        return Proof(False, f"if every unknown is any number: {fault}", fault.op, wishes=state.wishes())
    except NotUnderstood as stop:
        return Proof(False, stop.reason, stop.op)
    except TooLongError as stop:
        return Proof(False, str(stop))
    except OtherNumber:
        return Proof(False, "a number that comes out of memory is that of another iteration")
    except UnclearError as unclear:
        return Proof(False, f"{unclear}", unclear.op)


@dataclass(slots=True)
class _Known:
    """The states of one key. number: how many keys were found before it."""

    number: int
    states: list[FreeRun] = field(default_factory=list["FreeRun"])


def _widened(state: FreeRun, known: list[FreeRun], most: int) -> FreeRun | None:
    """The state to go on from so that it is covered; None if a known one covers it. known: those with the same key.

    A state that lacks more than another, but in which more was written, is made to cover both: what was written in one
    of them only counts as unwritten. If there are `most` already, the new one and one of them are merged, if that is
    possible: the result stands for more runs than there are.
    """
    for other in list(known):
        one, two = state.settled, other.settled
        if covers(two.lacks, one.lacks):
            if two.written <= one.written:
                return None
            state, unlike = other, state
        elif covers(one.lacks, two.lacks):
            unlike = other
        elif len(known) >= most and state.merge(other):
            unlike = state
        else:
            continue
        known.remove(other)
        other.superseded = other is not state
        state.forget_writes(unlike.settled.written)
    known.append(state)
    return state
