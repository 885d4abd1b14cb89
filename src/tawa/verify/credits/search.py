"""The search of the credit check: the vectors of numbers that are run, and what a set of correct runs proves.

Vectors are tried in the order of their total size, hence the first that fails is a smallest one. Why a recurrence
proves all trip counts: see `tawa.verify.credits.check`. Facts about arguments exclude numbers: if a fact has a modulus,
the recurrence must be a multiple of its period, and no trip count that is reached by removing iterations may be
excluded.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tawa.dialects.tt import GetProgramIdOp
from tawa.ir import source_of
from tawa.verify.credits.facts import FAR, Facts
from tawa.verify.credits.loops import steps_to_try
from tawa.verify.credits.machine import Machine
from tawa.verify.credits.skeleton import Program, Term, merge_ranges
from tawa.verify.credits.state import FaultError, ImpossibleError, NeedError
from tawa.verify.crossed_numbers import SEVERAL_ATOMICS
from tawa.verify.verdict import Checked, Proved, Refuted, Step, Unknown, Verdict, Witness

FAST, FULL = 15_000, 250_000  # instructions of the skeleton
SHORT = 7_000  # the budget of a fast check that can prove a bound only, once the bound is `_ENOUGH`
_ENOUGH = 4
_MOST_TRIPS = 24
_MOST_SKIPPED = 1 << 12


@dataclass(slots=True)
class _Vector:
    """Numbers for some of the unknowns, and the size of each: the trips of a loop, or 0 or 1 for a condition."""

    numbers: dict[Term, int] = field(default_factory=dict[Term, int])
    sizes: dict[Term, int] = field(default_factory=dict[Term, int])


@dataclass(slots=True)
class _CorrectRun:
    """A correct run: its vector, and the leader's loops with their trips and the periods of a recurrence."""

    sizes: dict[Term, int]
    trips: list[tuple[int, int, int]]


@dataclass(slots=True)
class _Tried:
    """The trips tried for the upper bound of a loop: up to `end`; `most` is the largest that the facts allow."""

    lower: int
    step: int
    end: int
    most: int = -1


class Search:
    """All runs of one skeleton within a budget of instructions."""

    def __init__(self, program: Program, facts: Facts, budget: int) -> None:
        program.measure()
        self.program = program
        self.facts = facts
        self.left = budget
        self.reserve = max(budget - SHORT, 0) if (program.no_recurrence or program.sampled) and budget <= FAST else 0
        self.flags: set[Term] = set()
        self.starts: set[Term] = set()
        self.steps: dict[Term, int] = {}  # what steps are computed from, with the largest distance of bounds
        self.inner: set[Term] = set()  # operands of other unknowns that a run needed
        self.inner_kinds: set[tuple[Any, ...]] = set()
        self.reach: dict[Term, _Tried] = {}
        self.not_tried = ""  # why some allowed numbers were not tried
        self.no_recurrence = ""  # why a recurrence does not prove longer runs
        self.leader = program.leader
        self.complete = -1  # all vectors up to this size are correct

    def verdict(self) -> Verdict:
        """Runs within increasing bounds until a recurrence proves all longer runs."""
        depths = [ring.depth for ring in self.program.rings]
        design = 2 * max(depths, default=1) + 1
        first = max(3, min(self.program.pendings, 6) + 2)
        if self.program.fresh:
            first = max(first, self.program.fresh + 1 - self.program.largest)
        few = f"; {self.program.sampled}" if self.program.sampled else ""
        reason = self.program.sampled or self.program.no_recurrence
        trips, settled = 0, self.program.settled if self.program.settled <= _MOST_TRIPS else 0
        for trips in sorted({first, first + 2, max(first, design), max(first, settled)}):
            found = self._all_up_to(trips)
            if isinstance(found, Refuted | Unknown):
                return found
            if self.left <= 0:
                break
            if not found:
                return Unknown(self.not_tried or "no numbers satisfy the assumptions", None, self._used())
            reason = reason or self.no_recurrence
            if not reason and not self.not_tried and self.program.largest <= _MOST_TRIPS and self._covers(found):
                return Proved(self._used())
        if self.left <= 0:
            if self.complete < 2:
                return Unknown("the budget ran out before two trips were checked", None, self._used())
            bound = f"all runs of at most {self.complete} trips in total{few}"
            return self._unsettled(self.complete) or self._checked(bound, reason or "the budget ran out")
        reason = reason or self.not_tried or "the runs do not recur"
        return self._unsettled(trips) or self._checked(f"up to {trips} trips of each loop{few}", reason)

    def _checked(self, bound: str, left: str) -> Checked:
        decides = self.program.decides if left == self.program.no_recurrence else None
        return Checked(bound, left, source_of(self.program.module, decides) if decides else None, self._used())

    def _unsettled(self, trips: int) -> Unknown | None:
        """Unknown if a decision compares with constants that the loops do not reach in `trips` trips."""
        program = self.program
        if program.settled <= trips:
            return None
        reason = (
            f"{program.no_recurrence} and on constants that {trips} trips do not reach: "
            "the code that this comparison controls is not checked"
        )
        return Unknown(reason, source_of(program.module, program.decides) if program.decides else None, self._used())

    def _used(self) -> tuple[str, ...]:
        return tuple(self.facts.used)

    # -- enumeration -------------------------------------------------------------------------------------------------

    def _all_up_to(self, trips: int) -> list[_CorrectRun] | Refuted | Unknown:
        while True:
            found = self._try_up_to(trips)
            if found is not None:
                return found

    def _try_up_to(self, trips: int) -> list[_CorrectRun] | Refuted | Unknown | None:
        """Runs the vectors by size; None if a run showed that other unknowns must be chosen first."""
        heap: list[tuple[int, int, _Vector]] = [(0, 0, _Vector())]
        made = 0
        passed: list[_CorrectRun] = []
        while heap:
            size, _, vector = heapq.heappop(heap)
            if self.left <= (self.reserve if size > _ENOUGH else 0):
                self.left = min(self.left, 0)
                self.complete = max(self.complete, size - 1)
                return passed
            longest = any(count >= self.reach[term].most for term, count in vector.sizes.items() if term in self.reach)
            machine = Machine(self.program, vector.numbers, self.leader, records=longest)
            try:
                machine.run()
            except ImpossibleError as excluded:
                self.facts.exclude(excluded.op, excluded.step)
            except NeedError as need:
                term = need.term if need.role == "start" and not self.inner else self._choose(need.term, vector)
                if term not in self.inner and any(it is not term and it.holds(term) for it in vector.numbers):
                    self._prefer(term)
                    return None
                lower, step = self.program.bounds.get(term) or self._range(need.range)
                if isinstance(lower, Term):
                    lower = vector.numbers.get(lower, 0)
                if term is need.term:
                    self._record_role(term, need)
                for count, number in self._domain(term, trips, lower, step):
                    made += 1
                    if term in self.reach:
                        self.reach[term].most = max(self.reach[term].most, count)
                    following = _Vector({**vector.numbers, term: number}, {**vector.sizes, term: count})
                    heapq.heappush(heap, (size + count, made, following))
            except FaultError as fault:
                return self._refute(fault, vector)
            else:
                passed.append(_CorrectRun(vector.sizes, machine.trips))
            self.left -= machine.steps + 40  # a run costs something before its first instruction
        return passed

    def _record_role(self, term: Term, need: NeedError) -> None:
        """Records the role of an unknown that is not simply the upper bound of a loop."""
        match need.role:
            case "start":
                self.starts.add(term)
            case "step":
                self.steps[term] = max(self.steps.get(term, 0), need.range[0])
                self.facts.assume_positive(term, need.loop)
            case "flag":
                self.flags.add(term)
            case "end" if need.range[1] < 0:
                self.no_recurrence = f"a loop starts at {term.name} and ends at a constant"
            case _:
                pass

    def _range(self, asked: tuple[int, int]) -> tuple[int, int]:
        """Lower bound and step for an upper bound that is computed in a loop: other loops may share it."""
        inner = self.program.inner
        return merge_ranges(inner, asked) if inner and asked[1] > 0 else asked

    def _prefer(self, term: Term) -> None:
        """From now on chooses `term` before the terms computed from it, so that their numbers are consistent."""
        kind = term.kind
        if any(it.kind == kind for it in self.inner):
            self.inner_kinds.add(kind)  # there is one in each iteration of a loop
        self.inner.add(term)

    def _choose(self, term: Term, vector: _Vector) -> Term:
        """The unknown to choose: the innermost bound or preferred term inside `term`, else `term` itself."""
        inside = [it for it in self.program.bounds if it not in vector.numbers and term.holds(it)]
        if self.inner:
            inside += [it for it in term.walk() if it in self.inner or it.kind in self.inner_kinds]
        for bound in inside:
            if not any(bound is not other and bound.holds(other) for other in inside):
                return bound
        return term

    def _domain(self, term: Term, trips: int, lower: int, step: int) -> Iterator[tuple[int, int]]:
        """Numbers for an unknown, each with its size."""
        facts = self.facts
        if term in self.flags:
            yield from ((number, number) for number in (0, 1) if facts.allows(term, number, number))
            return
        if term in self.starts:  # only the distance to the end matters; two numbers, to be safe
            allowed = (
                [it for it in range(_MOST_SKIPPED) if facts.allows(term, it, it)] if facts.constrains(term) else ()
            )
            yield from ((0, number) for number in (allowed or (0, 1))[:2])
            return
        if term in self.steps:
            known = facts.constrains(term)
            least = next((it for it in range(1, _MOST_SKIPPED) if facts.allows(term, it, it)), 1) if known else 1
            numbers = sorted({*steps_to_try(self.steps[term], trips), least, least + 1})
            yield from ((0, number) for number in numbers if facts.allows(term, number, number))
            return
        if step < 0:  # a lower bound
            numbers = [lower + count * step for count in range(trips + 1)]
            possible = [it for it in numbers if facts.allows(term, it, it) and (it >= 0 or not _is_program(term))]
            yield from (((lower - number) // -step, number) for number in possible)
            return
        compared = self.program.terms.has_part(term)
        if compared:
            trips += min(self.program.largest, _MOST_TRIPS)  # `trips` more than the last comparison that changes
        trips += min(self.program.spread.get(term, 0), _MOST_TRIPS)
        period = facts.period(term, step)
        trips += 2 * period if period > 1 else 0
        first = next((count for count in range(_MOST_SKIPPED) if self._allows(term, lower, step, count)), -1)
        if first < 0 or period > _MOST_SKIPPED:
            if facts.allows(term, -FAR, FAR):
                self.not_tried = f"the assumptions require more trips than can be tried ({term.name})"
            return
        reach = self.reach.setdefault(term, _Tried(lower, step, 0))
        reach.end = max(reach.end, first + trips)
        for count in range(first, first + trips + 1):
            if not self._allows(term, lower, step, count):
                continue
            numbers = [lower + count * step]
            if compared:
                numbers.append(lower - 1 if count == 0 else numbers[0] - step + 1)
            numbers = list(dict.fromkeys(numbers))
            for number in [it for it in numbers if facts.allows(term, it, it)] or numbers:
                yield count, number

    def _allows(self, term: Term, lower: int, step: int, count: int, *, periodic: bool = False) -> bool:
        """Whether the facts allow `count` trips. periodic: considers only facts with a modulus."""
        high = lower + count * step
        return self.facts.allows(term, high - step + 1 if count else -FAR, high, periodic=periodic)

    # -- proof -------------------------------------------------------------------------------------------------------

    def _covers(self, passed: list[_CorrectRun]) -> bool:
        """Whether the runs are all possible ones, or a recurrence extends them to all longer ones."""
        unknowns = dict.fromkeys(term for run in passed for term in run.sizes if term not in self.flags | self.starts)
        unbounded = [term for term in unknowns if self._is_unbounded(term)]
        if not unbounded:
            return True
        distances = self._distances(passed)
        period = math.lcm(*(self.facts.period(term, self.reach[term].step) for term in unbounded if term in self.reach))
        cuts = [cut for cut in range(period, distances.bit_length(), period) if distances >> cut & 1]
        if distances >= 0 and not any(all(self._cut_is_allowed(term, cut) for term in unbounded) for cut in cuts):
            return False
        return all(self._lengthens_leader(term, passed) for term in unknowns)

    def _is_unbounded(self, term: Term) -> bool:
        """Whether the facts allow numbers beyond those that were tried."""
        reach = self.reach.get(term)
        if reach is None or not self.facts.constrains(term):
            return True
        return self.facts.allows(term, reach.lower + reach.end * reach.step + 1, FAR)

    def _distances(self, passed: list[_CorrectRun]) -> int:
        """The periods with which a state recurs in all longest runs of the leader's loops, as bits; −1 for any."""
        longest: dict[int, int] = {}
        for run in passed:
            for loop, trips, _ in run.trips:
                longest[loop] = max(longest.get(loop, 0), trips)
        distances = -1
        for run in passed:
            for loop, trips, recurs in run.trips:
                if not self.program.loops[loop].constant and trips == longest[loop]:
                    distances &= recurs
        return distances

    def _cut_is_allowed(self, term: Term, cut: int) -> bool:
        """Whether removing `cut` trips repeatedly turns every longer run that the facts allow into a tried one."""
        reach = self.reach.get(term)
        if reach is None or not self.facts.constrains(term):
            return True
        for count in range(max(0, reach.end - cut + 1), reach.end + 1):
            wanted = self._allows(term, reach.lower, reach.step, count, periodic=True)
            if wanted and not self._allows(term, reach.lower, reach.step, count):
                return False
        return cut <= reach.end

    def _lengthens_leader(self, term: Term, passed: list[_CorrectRun]) -> bool:
        """Whether the leader's trips increase with `term`."""
        sizes = sorted({run.sizes[term] for run in passed if term in run.sizes})
        if len(sizes) < 2:
            return False
        longest, before = (
            max(sum(trips for _, trips, _ in run.trips) for run in passed if run.sizes.get(term) == size)
            for size in (sizes[-1], sizes[-2])
        )
        return longest > before

    # -- witness -----------------------------------------------------------------------------------------------------

    def _refute(self, fault: FaultError, vector: _Vector) -> Refuted | Unknown:
        program = self.program
        op = fault.op
        opaque = [term for term in vector.numbers if term.opaque]
        if opaque:
            reason = "the run depends on a number that the partitions may compute differently"
            return Unknown(reason, source_of(program.module, op) if op else None, self._used())
        atomics = {part.key[1] for term in vector.numbers for part in term.walk() if part.key[0] == "atomic"}
        if len(atomics) > 1:
            return Unknown(SEVERAL_ATOMICS, source_of(program.module, op) if op else None, self._used())
        machine = Machine(program, vector.numbers, self.leader, trace=True)
        try:
            machine.run()
        except FaultError as again:
            fault = again
        steps: list[Step] = []
        for event in machine.events or ():
            ring = program.rings[event.ring] if event.ring >= 0 else None
            steps.append(
                Step(
                    program.parts[event.part].name,
                    f"{event.action} {event.count}" if ring else f"{event.action} {event.count} pending",
                    ring.name if ring else "",
                    event.count % ring.depth if ring else None,
                    location=source_of(program.module, event.op) if event.op else None,
                )
            )
        inputs = {_label(term, program): number for term, number in vector.numbers.items()}
        return Refuted(Witness(fault.kind, str(fault), inputs, tuple(steps)), self._used())


def _is_program(term: Term) -> bool:
    return term.key[0] == GetProgramIdOp.NAME


def _label(term: Term, program: Program) -> str:
    """A readable name of an unknown."""
    match term.key[0]:
        case "argument":
            return term.name
        case "while":
            return f"trips of loop {term.number}"
        case _:
            return f"{term.key[0]} {term.name}"
