"""The aref check: credits. Is every slot put, got and released in step, whatever the trip counts?

    check_credits(module)  →  Proved("all trip counts")  |  Refuted(witness)  |  Unknown(reason)

Arefs with one writer and known readers form a bounded Kahn network: every maximal run ends in the same state, so one
run for each vector of trip counts decides. Found: deadlock (D < P + 1, rings read in crossed order, a token that is
never given), puts, gets and releases out of step, a slot released while a wgmma reads it or read behind its release,
a put that does not wait although its slot is full, slots that are left full or borrowed at the end.

What is unknown: the bound of each loop and each condition, as the tree of operations that computes it, so that the
same expression is the same number in every partition. Vectors come in the order of their total size, hence the first
that fails is a smallest one.

All trip counts. Let i < j be two heads of one loop, in the partition that leads, with the others as far as they get.
If the state relative to the leader is the same at both and nobody has left the loop, then a run of N + (j − i) trips is
right if one of N trips is: cut out the iterations from i to j. So where the longest runs of every loop show such a
recurrence, the runs within the bound prove all. Counts matter by their differences alone; hence the period is often 1
where slots and parities have 2·D. What is decided by how far a loop is, is not covered: then the verdict states the
bound.

Source: G. Kahn, "The semantics of a simple language for parallel programming" (1974); arXiv 2510.14719, section 3.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tawa.ir import Module, source_of
from tawa.verify.credits_machine import FaultError, ImpossibleError, Machine, NeedError
from tawa.verify.credits_program import MAIN, Program, Term, UnsupportedError, compile_skeleton
from tawa.verify.verdict import Proved, Refuted, Step, Unknown, Verdict, Witness

ALL = "all trip counts"
FAST, FULL = 15_000, 1_000_000
_MOST_TRIPS = 24


def verify_aref(module: Module) -> Verdict:
    """The check with the budget of a compile: a few milliseconds for usual kernels."""
    return check_credits(module, budget=FAST)


def check_credits(module: Module, *, assume: Mapping[str, range] | None = None, budget: int = FULL) -> Verdict:
    """Checks every ring of an aref-level module.

    `assume`: what integer arguments of the kernel can be, by name. `budget`: instructions of the skeleton that all runs
    together may take. A module without rings is proved.
    """
    stated = tuple(
        f"{name} in {values.start}…{values.stop - 1}" + (f" step {values.step}" if values.step > 1 else "")
        for name, values in (assume or {}).items()
    )
    try:
        program = compile_skeleton(module)
    except UnsupportedError as error:
        return Unknown(str(error), source_of(module, error.op), stated)
    if program is None:
        return Proved(ALL, stated)
    for name in assume or {}:
        if name not in program.arguments:
            return Unknown(f"there is no integer argument {name}", None, stated)
    for ring in program.rings:
        writers = [name for name in ring.writers if name != MAIN]
        if len(writers) > 1:
            message = f"{ring.name} has {len(writers)} writers ({', '.join(writers)}), not one"
            return Refuted(Witness("order", message, {}, ()), stated)
    return _Search(program, assume or {}, budget).verdict(stated)


@dataclass(slots=True)
class _Vector:
    """Numbers for some of the unknowns, and how many trips (or whether) they stand for."""

    numbers: dict[Term, int] = field(default_factory=dict[Term, int])
    sizes: dict[Term, int] = field(default_factory=dict[Term, int])


@dataclass(slots=True)
class _Pass:
    """A run that was right: its vector, and the leader's loops with their trips and whether a state recurred."""

    sizes: dict[Term, int]
    trips: list[tuple[int, int, bool]]


class _Search:
    def __init__(self, program: Program, assume: Mapping[str, range], budget: int) -> None:
        self.program = program
        self.assume = {program.arguments[name]: values for name, values in assume.items()}
        self.left = budget
        self.assumed = False
        self.flags: set[Term] = set()
        self.starts: set[Term] = set()
        self.most: dict[Term, int] = {}  # the largest size of each unknown
        writers = [index for index, part in enumerate(program.parts) if part.puts and index]
        self.leader = writers[0] if writers else len(program.parts) - 1
        self.complete = -1  # all vectors up to this size are right

    def verdict(self, stated: tuple[str, ...]) -> Verdict:
        """Runs within growing bounds until a recurrence proves the rest."""
        depths = [ring.depth for ring in self.program.rings]
        design = 2 * max(depths, default=1) + 1
        first = max(3, min(self.program.pendings, 6) + 2)
        if self.program.fresh:
            first = max(first, self.program.fresh + 1 - self.program.largest)
        reason = self.program.wild
        trips = 0
        for trips in sorted({first, first + 2, max(first, design)}):
            found = self._all_up_to(trips)
            if isinstance(found, Refuted | Unknown):
                return type(found)(found.witness, stated) if isinstance(found, Refuted) else found
            if self.left <= 0:
                break
            if not reason and self.program.largest <= _MOST_TRIPS and self._recurs(found):
                notes = (*stated, *(("llvm.intr.assume in the kernel",) if self.assumed else ()))
                return Proved(ALL, notes)
        if self.left <= 0:
            if self.complete < 2:
                return Unknown("the budget ran out before two trips were checked", None, stated)
            return Proved(f"all runs of at most {self.complete} trips in total", stated)
        return Proved(f"up to {trips} trips of each loop" + (f"; {reason}" if reason else ""), stated)

    # -- enumeration -------------------------------------------------------------------------------------------------

    def _all_up_to(self, trips: int) -> list[_Pass] | Refuted | Unknown:
        heap: list[tuple[int, int, _Vector]] = [(0, 0, _Vector())]
        made = 0
        passed: list[_Pass] = []
        while heap:
            size, _, vector = heapq.heappop(heap)
            if self.left <= 0:
                self.complete = max(self.complete, size - 1)
                return passed
            longest = any(count >= self.most[term] for term, count in vector.sizes.items() if term in self.most)
            machine = Machine(self.program, vector.numbers, self.leader, records=longest)
            try:
                machine.run()
            except ImpossibleError:
                self.assumed = True
            except NeedError as need:
                term = need.term if need.starts else self._choose(need.term, vector)
                if need.starts:
                    self.starts.add(term)
                lower, step = self.program.bounds.get(term, need.range)
                if isinstance(lower, Term):
                    lower = vector.numbers.get(lower, 0)
                if need.flag and term is need.term:
                    self.flags.add(term)
                for count, number in self._domain(term, trips, lower, step):
                    made += 1
                    if term not in self.flags | self.starts:
                        self.most[term] = max(self.most.get(term, 0), count)
                    following = _Vector({**vector.numbers, term: number}, {**vector.sizes, term: count})
                    heapq.heappush(heap, (size + count, made, following))
            except FaultError as fault:
                return self._refute(fault, vector)
            else:
                passed.append(_Pass(vector.sizes, machine.trips))
            self.left -= machine.steps + 40  # a run costs something before its first instruction
        return passed

    def _choose(self, term: Term, vector: _Vector) -> Term:
        """What to choose a number for: the innermost bound of a loop in `term`, else `term`."""
        inside = [it for it in self.program.bounds if it not in vector.numbers and term.holds(it)]
        for bound in inside:
            if not any(bound is not other and bound.holds(other) for other in inside):
                return bound
        return term

    def _domain(self, term: Term, trips: int, lower: int, step: int) -> Iterator[tuple[int, int]]:
        """Numbers for an unknown, each with its size."""
        if term in self.flags:
            yield from ((0, 0), (1, 1))
            return
        if term in self.starts and term not in self.assume:
            yield from ((0, 0), (0, 1))  # only how far it is to the end matters; two, to be sure
            return
        allowed = self.assume.get(term)
        first = 0
        if allowed is not None and allowed:
            first = max(0, -((lower - allowed.start) // step))
        compared = self.program.terms.has_part(term)
        if compared:
            trips += min(self.program.largest, _MOST_TRIPS)  # where comparisons have settled, `trips` more
        for count in range(first, first + trips + 1):
            numbers = [lower + count * step]
            if compared:
                numbers.append(lower - 1 if count == 0 else numbers[0] - step + 1)
            for number in dict.fromkeys(numbers):
                if allowed is None or number in allowed:
                    yield count, number

    # -- proof -------------------------------------------------------------------------------------------------------

    def _recurs(self, passed: list[_Pass]) -> bool:
        """Whether the longest runs of each of the leader's loops recur, and every unknown is the length of one."""
        longest: dict[int, int] = {}
        for run in passed:
            for loop, trips, _ in run.trips:
                longest[loop] = max(longest.get(loop, 0), trips)
        for run in passed:
            for loop, trips, recurs in run.trips:
                if not self.program.loops[loop].constant and trips == longest[loop] and not recurs:
                    return False
        unknowns = dict.fromkeys(term for run in passed for term in run.sizes if term not in self.flags | self.starts)
        return all(self._leads(term, passed) for term in unknowns)

    def _leads(self, term: Term, passed: list[_Pass]) -> bool:
        """Whether the leader's loops get longer with `term`."""
        most = max(run.sizes.get(term, 0) for run in passed)
        longest = [sum(trips for _, trips, _ in run.trips) for run in passed if run.sizes.get(term) == most]
        before = [sum(trips for _, trips, _ in run.trips) for run in passed if run.sizes.get(term) == most - 1]
        return bool(before) and max(longest) > max(before)

    # -- witness -----------------------------------------------------------------------------------------------------

    def _refute(self, fault: FaultError, vector: _Vector) -> Refuted | Unknown:
        program = self.program
        op = fault.op
        opaque = [term for term in vector.numbers if term.opaque]
        if opaque:
            reason = f"the run depends on a number that partitions may see differently ({opaque[0].name})"
            return Unknown(reason, source_of(program.module, op) if op else None)
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
        return Refuted(Witness(fault.kind, str(fault), inputs, tuple(steps)))


def _label(term: Term, program: Program) -> str:
    """A readable name of an unknown."""
    match term.key[0]:
        case "argument":
            return term.name
        case "trips" | "while":
            return f"trips of loop {term.number}"
        case _:
            return f"{term.key[0]} {term.name}"
