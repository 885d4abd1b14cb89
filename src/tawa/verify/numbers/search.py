"""The search for a witness: runs of chosen numbers, until one has a fault.

    the proof finds a fault if the loop up to ceil(K / 64) has 5 trips   →   K = 320 is tried first
    nothing says which numbers                                          →   few trips of every loop, then more

A run stops where it needs a number that was not chosen: an argument, a program id, a number in memory, the result of an
atomic. For each candidate the run is made again from its start. The candidates of an argument are those that give the
bound of a loop 0, 1, 2, … trips, or a condition either value, by the preimage of the computation (`numbers.facts`);
facts about arguments exclude numbers. Vectors of numbers are tried in the order of their total size, hence the first
that fails is a smallest one. A fault is a witness only if its numbers can occur together: results of several atomics
may be related, as may numbers that are computed from one float, and what partitions compute differently from memory is
not known to be equal. A run with a division by 0 is none.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import AddPtrOp, BitcastOp, GetNumProgramsOp, GetProgramIdOp, LoadOp
from tawa.ir import Operation, source_of
from tawa.verify.crossed_numbers import SAME_MEMORY, SEVERAL_ATOMICS
from tawa.verify.effort import Told, untold
from tawa.verify.free.proof import Proof
from tawa.verify.free.sites import Asked
from tawa.verify.numbers.facts import FAR, Facts
from tawa.verify.numbers.loops import steps_to_try
from tawa.verify.run.history import HistoryStep
from tawa.verify.run.machine import Machine
from tawa.verify.run.state import FaultError, ImpossibleError, NeedError, TooLongError
from tawa.verify.skeleton.program import Program, Term, text_of
from tawa.verify.verdict import Checked, Refuted, Step, Unknown, Verdict, Witness

_RUN = 40
"""What a run costs before its first instruction, in instructions."""
_SMALLEST = 5_000
"""The budget of the search for a smaller witness, in instructions."""
_PATIENCE = 3
"""Budgets beyond the own one, until a first run is complete."""
_MOST_SKIPPED = 1 << 12
_GENERIC = (0, 1, 2, 3, 4, 5, 8, 64, 65, 127, 128, 129)
_GUESSES = 6
_FARTHEST = 1 << 16
"""The largest number next to which a comparison is tried."""
_LARGEST = 1 << 31
_TRIED, _FEW_TRIED = range(300), 2
_FACTORS = range(8, 1 << 12)
_LARGE = 1 << 12
_PARTIAL = op_names(
    arith.DivSIOp, arith.DivUIOp, arith.CeilDivSIOp, arith.CeilDivUIOp, arith.FloorDivSIOp, arith.RemSIOp,
    arith.RemUIOp, arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp,
)  # fmt: skip
"""Operations that have no result for some integers."""
_RELATED = "the run depends on several numbers whose computation is not modelled, and which may be related"
_TERMS = 32
"""Terms that are evaluated in the time of one instruction."""


@dataclass(slots=True)
class _Vector:
    """Numbers for some of the unknowns, and the total size. wished: all are those of the failed proof."""

    numbers: dict[Term, int] = field(default_factory=dict[Term, int])
    size: int = 0
    wished: bool = True


class Search:
    """All runs of one skeleton within a budget of instructions."""

    def __init__(
        self, program: Program, facts: Facts, budget: int, proof: Proof, max_trips: int | None = None,
        told: Told = untold,
    ) -> None:  # fmt: skip
        self.program = program
        self.facts = facts
        self.left = self.budget = budget
        self.proof, self.told = proof, told
        depths = [ring.depth for ring in program.rings]
        depths += program.memories.barrier_counts() if program.memories is not None else []
        self.most = 2 * max(depths, default=1) + 1 if max_trips is None else max_trips
        self.runs = 0
        self.complete = -1  # all vectors up to this size are correct
        self.skipped = ""  # an allowed number that was not tried
        self.read = False
        self._tables: dict[Any, dict[int, list[int]]] = {}

    def verdict(self) -> Verdict:
        """The first fault, or the runs that were made."""
        found = self._first_fault()
        if isinstance(found, Refuted) and self.proof.wishes:  # the fault may also be in a smaller run
            proof = replace(self.proof, wishes=())
            smaller = Search(self.program, self.facts, _SMALLEST, proof, self.most)._first_fault()
            return smaller if isinstance(smaller, Refuted) and _size(smaller) < _size(found) else found
        if found is not None:
            return found
        place = source_of(self.program.module, self.proof.op) if self.proof.op is not None else None
        if not self.runs:
            reason = self.skipped or "no numbers satisfy the assumptions"
            return Unknown(f"{reason} ({self.proof.reason})", place, self._used())
        size = f" with at most {self.most} trips of each loop"
        if self.complete >= 0:  # runs that the proof led to may have more
            size = f", of the tried numbers all with at most {self.complete} trips in total"
        few = f"; {self.skipped}" if self.skipped else ""
        bound = f"{self.runs} run{'' if self.runs == 1 else 's'}{size}{few}"
        return Checked(bound, self.proof.reason, place, self._used())

    def _used(self) -> tuple[str, ...]:
        return (*self.facts.used, *([SAME_MEMORY] if self.read else []))

    def _first_fault(self) -> Refuted | Unknown | None:
        heap: list[tuple[bool, int, int, _Vector]] = [(False, 0, 0, _Vector())]
        made = 0
        while heap:
            *_, vector = heapq.heappop(heap)
            if self.left <= 0 and (self.runs or self.left < -_PATIENCE * self.budget):
                self.complete = max(min(it.size for *_, it in (*heap, (vector,))) - 1, 0)
                return None
            machine = Machine(self.program, vector.numbers, self.program.leader)
            try:
                machine.run()
                self.runs += 1
            except ImpossibleError as excluded:
                self.facts.exclude(excluded.op, excluded.step)
            except NeedError as need:
                leaf = self._leaf(need.term, vector)
                if leaf is None:
                    return self._unknown("the run depends on a number that cannot be chosen", self.proof.op)
                if _is_undefined(leaf):
                    self.skipped = f"runs in which {leaf.name} is undefined were left out"
                self.read |= leaf.key[0] == LoadOp.NAME
                for cost, number, wished in () if _is_undefined(leaf) else self._domain(leaf, need, vector):
                    made += 1
                    numbers = {**vector.numbers, leaf: number}
                    longer = _Vector(numbers, vector.size + cost, vector.wished and wished)
                    order = -len(numbers) if longer.wished else longer.size  # what the proof found: depth first
                    heapq.heappush(heap, (not longer.wished, order, made, longer))
            except TooLongError:
                self.skipped = "runs of many steps were given up"
            except FaultError as fault:
                return self._refute(fault, vector)
            self.left -= machine.steps + _RUN
            self.told(self.budget - self.left, self.budget)
        return None

    def _unknown(self, reason: str, op: Operation | None) -> Unknown:
        return Unknown(reason, source_of(self.program.module, op) if op else None, self._used())

    # -- what is chosen, and which numbers ---------------------------------------------------------------------------

    def _leaf(self, term: Term, vector: _Vector) -> Term | None:
        """The unknown to choose: an integer that `term` is computed from, and that is not computed itself."""
        if term.key[0] == "while":
            return term
        for part in term.parts:
            if part.key[0] == "argument" and part not in self.program.arguments.values():
                continue  # a pointer
            if part not in vector.numbers and (found := self._leaf(part, vector)) is not None:
                return found
        if term.key[0] == "argument":
            return term if term in self.program.arguments.values() else None
        if term.parts and (term.key[0].startswith("arith.") or _is_address(term)):
            return None if all(part in vector.numbers for part in term.parts) or _is_address(term) else term
        return term

    def _domain(self, leaf: Term, need: NeedError, vector: _Vector) -> Iterator[tuple[int, int, bool]]:
        """Numbers for an unknown, each with its size, and whether it is one of the failed proof."""
        seen: set[int] = set()
        wished = list(self._wished(leaf, need, vector))
        for place, (cost, number) in enumerate((*wished, *self._candidates(leaf, need, vector))):
            if number not in seen and self._is_possible(leaf, number, vector):
                seen.add(number)
                yield cost, number, not wished or place < len(wished)
        if not seen:
            first = next((it for it in range(_MOST_SKIPPED) if self._is_possible(leaf, it, vector)), None)
            if first is not None:
                yield 0, first, True
            elif self.facts.allows(leaf, -FAR, FAR):
                self.skipped = f"the assumptions require larger numbers than can be tried ({leaf.name})"

    def _is_possible(self, leaf: Term, number: int, vector: _Vector) -> bool:
        """Whether the facts allow a number; a program id is below the number of programs, along each axis."""
        if not self.facts.allows(leaf, number, number):
            return False
        if leaf.key[0] not in (GetProgramIdOp.NAME, GetNumProgramsOp.NAME):
            return True
        axis = leaf.key[1:]
        other = GetNumProgramsOp.NAME if leaf.key[0] == GetProgramIdOp.NAME else GetProgramIdOp.NAME
        known = next((it for term, it in vector.numbers.items() if term.key == (other, *axis)), None)
        if leaf.key[0] == GetProgramIdOp.NAME:
            return number >= 0 and (known is None or number < known)
        return number >= 1 and (known is None or known < number)

    def _wished(self, leaf: Term, need: NeedError, vector: _Vector) -> Iterator[tuple[int, int]]:
        """Numbers for what the failed proof asked, each with its size."""
        for asked, answer in self.proof.wishes:
            if leaf.key[0] != "while":
                yield from _later(0, self._answering(leaf, asked, answer, need, vector, guess=True))
            elif asked.step and asked.term.key[0] == "decided":
                yield 0, answer

    def _candidates(self, leaf: Term, need: NeedError, vector: _Vector) -> Iterator[tuple[int, int]]:
        """Numbers for all that is computed from the unknown: what the run needs now, and what it asks later."""
        term = need.term
        if leaf.key[0] == "while":
            yield from ((trips, trips) for trips in range(self.most + 1))
            return
        for size, wanted in self._wanted(need):
            yield from _later(size, self._reaching(leaf, term, wanted, vector))
        for answer in range(self.most + 1):
            for asked in self.proof.asked.values():
                if asked.step or answer < 2:
                    yield from _later(answer, self._answering(leaf, asked, answer, need, vector))
        for compared in self.proof.compared:
            for answer in (0, 1):
                yield from ((1, number) for number in self._reaching(leaf, compared, answer, vector))
            for loop, trips in self._up_to(compared):
                yield from ((1, number) for number in self._answering(leaf, loop, trips, need, vector))
        if text_of(self.facts.root(term)) != text_of(leaf):
            numbers = {it for part in term.walk() for it in part.key[1:] if type(it) is int}
            near = sorted({it + by for it in numbers for by in (-1, 0, 1)}, key=abs)
            yield from ((1 + place // 4, number) for place, number in enumerate((*_GENERIC, *near[:12])))

    def _up_to(self, compared: Term) -> Iterator[tuple[Asked, int]]:
        """If an iteration number is compared: its loop, with the trips after which the comparison has changed."""
        root = self.facts.root(compared)
        loop = self.proof.asked.get(root.key[1]) if root.key[0] == "induction" else None
        if loop is not None and isinstance(loop.lower, int) and isinstance(loop.step, int) and loop.step > 0:
            edges = {it for flag in (0, 1) for part in self.facts.preimage(compared, flag) for it in part}
            for edge in sorted(it for it in edges if loop.lower <= it < _FARTHEST):
                yield loop, (edge - loop.lower) // loop.step + 1

    def _answering(
        self, leaf: Term, asked: Asked, answer: int, need: NeedError, vector: _Vector, guess: bool = False
    ) -> Iterable[int]:
        """Numbers of the leaf for which a condition has this value, or a loop these trips. guess: see `_scanned`."""
        if not asked.step:
            return self._reaching(leaf, asked.term, answer, vector, guess)
        if need.role == "end" and text_of(need.term) == text_of(asked.term):
            lower, step = need.range
        else:
            given = {text_of(it): number for it, number in vector.numbers.items()}
            bounds = [self.program.terms.evaluate(it, given) for it in (asked.lower, asked.step)]
            if bounds[0] is None or bounds[1] is None:
                return ()
            lower, step = bounds[0], bounds[1]
        return self._reaching(leaf, asked.term, lower + answer * step, vector, guess)

    def _wanted(self, need: NeedError) -> Iterator[tuple[int, int]]:
        """The numbers that the needed term should have, each with its size."""
        lower, step = need.range
        match need.role:
            case "flag":
                yield from ((number, number) for number in (0, 1))
            case "start":
                yield from ((number, number) for number in (0, 1))
            case "step":
                yield from ((0, number) for number in steps_to_try(lower, self.most))
            case _:
                for trips in range(self.most + 1):
                    yield trips, lower + trips * step
                    if abs(step) > 1:
                        yield trips, lower + trips * step - (step - 1 if trips else 1)

    def _reaching(self, leaf: Term, term: Term, wanted: int, vector: _Vector, guess: bool = False) -> Iterable[int]:
        """Numbers of the leaf for which the term is `wanted`, with the numbers that are chosen already."""
        name = text_of(leaf)
        if text_of(term) == name:
            return (wanted,)
        if text_of(self.facts.root(term)) != name:
            return self._scanned(name, term, wanted, vector, guess)
        found: list[int] = []
        for low, high in self.facts.preimage(term, wanted):
            nearest = max(low, min(high, 0))
            ends = [end for end in (low, high) if abs(end) < _FARTHEST]
            first = low if low in ends else max(low, high - _GUESSES) if ends else nearest
            guesses = range(first, min(high, first + _GUESSES) + 1)
            found += [it for it in dict.fromkeys([nearest, *ends, *guesses]) if abs(it) < _LARGEST]
        return sorted(found, key=abs)

    def _scanned(self, name: str, term: Term, wanted: int, vector: _Vector, guess: bool) -> Iterable[int]:
        """The same, by trying: for a term that no chain of operations leads to.

        guess: what is not chosen yet counts as 0, and as large: it may be what a minimum is taken with. Else there are
        no numbers until the others are chosen.
        """
        given = {it.text: number for it, number in vector.numbers.items() if it.text in term.leaves}
        open_ = len(term.leaves) > len(given) + 1
        if name not in term.leaves or name in given or (open_ and not guess):
            return ()
        key = name, term.text, tuple(given.items())
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = {}
            parts = list(term.walk())
            factors = {it for part in parts for it in part.key[1:] if type(it) is int and it in _FACTORS}
            numbers = sorted({*_TRIED, *(by * it for by in range(2 * self.most) for it in factors)})
            self.left -= len(numbers) * len(parts) // _TERMS
            for rest in (0, _LARGE) if open_ else (0,):
                others = {**dict.fromkeys(term.leaves, rest), **given}
                made: dict[int, list[int]] = {}
                results = self.program.terms.evaluate_each(term, others, name, numbers)
                for number, result in zip(numbers, results, strict=True):
                    if result is not None:
                        made.setdefault(result, []).append(number)
                for result, found in made.items():
                    table.setdefault(result, []).extend(found[:_FEW_TRIED])
        return table.get(wanted, ())

    # -- witness -----------------------------------------------------------------------------------------------------

    def _refute(self, fault: FaultError, vector: _Vector) -> Refuted | Unknown:
        program = self.program
        if any(term.opaque for term in vector.numbers):
            return self._unknown("the run depends on a number that the partitions may compute differently", fault.op)
        whiles = [term for term in vector.numbers if term.key[0] == "while"]
        atomics = {part.key[1] for term in vector.numbers for part in term.walk() if part.key[0] == "atomic"}
        if len(atomics) > 1:
            return self._unknown(SEVERAL_ATOMICS, fault.op)
        if _may_be_related(vector.numbers, program.arguments.values()):
            return self._unknown(_RELATED, fault.op)
        machine = Machine(program, vector.numbers, program.leader, trace=True)
        try:
            machine.run()
        except FaultError as again:
            fault = again
        if len(whiles) > 1 and (machine.late or len({vector.numbers[term] for term in whiles}) > 1):
            return self._unknown("the trips of several loops that memory ends may be related", fault.op)
        steps = [self._step(step) for step in fault.steps] if program.memories is not None else self._events(machine)
        inputs = {_label(term): number for term, number in vector.numbers.items()}
        return Refuted(Witness(fault.kind, str(fault), inputs, tuple(steps)), self._used())

    def _events(self, machine: Machine) -> list[Step]:
        program = self.program
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
        return steps

    def _step(self, step: HistoryStep) -> Step:
        memories = self.program.memories
        assert memories is not None
        location = source_of(self.program.module, step.event.op) if step.event else None
        target, slot = "", None
        if step.target is not None:
            named = step.target.alloc < 0
            target = "named barrier" if named else memories.names[step.target.alloc]
            slot = step.target.path[0] if step.target.path else None
        return Step(step.partition, step.action, target, slot, step.parity, location)


def _may_be_related(chosen: Iterable[Term], integers: Iterable[Term]) -> bool:
    """Whether two numbers are related in a way that is not modelled. integers: the arguments that are no addresses.

    One is computed from the other, or both from the same float, or once, or from numbers in memory that may be the
    same.
    """
    terms, numbers = list(chosen), {it.text for it in integers}
    given = [term for term in terms if term.key[0] == "given"]
    return len(given) > 1 or any(
        ((_is_computed(one) or _is_computed(other)) and not one.leaves.isdisjoint(other.leaves))
        or (one.reads and other.reads and (_gathers(one) or _gathers(other)) and one.leaves & other.leaves - numbers)
        for one, other in combinations(terms, 2)
    )


def _is_computed(term: Term) -> bool:
    """Whether it is the result of arithmetic, or of a function that does not read memory."""
    kind = str(term.key[1] if term.key[0] == "function" else term.key[0])
    return bool(term.parts) and (term.key[0] == "function" or kind.startswith("arith.")) and LoadOp.NAME not in kind


def _is_address(term: Term) -> bool:
    """Whether an operation computes an address."""
    return term.key[0] == AddPtrOp.NAME or str(term.key[-2]).startswith("!tt.ptr")


def _gathers(term: Term) -> bool:
    """Whether it comes from more in memory than the number at its address: from a tile, or numbers of another type."""
    return term.key[0] == "function" or any(part.key[0] == BitcastOp.NAME for part in term.walk())


def _is_undefined(term: Term) -> bool:
    """Whether it is what an operation on known integers gives, which has no result for them: a division by 0."""
    return not term.parts and term.key[0] in _PARTIAL


def _size(found: Refuted) -> int:
    return sum(abs(number) for number in found.witness.inputs.values())


def _later(size: int, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Numbers that do the same, each with its size: after the first two, they are tried later."""
    return ((size + (place + 2) // 4, number) for place, number in enumerate(numbers))


def _label(term: Term) -> str:
    """A readable name of an unknown."""
    match term.key[0]:
        case "argument":
            return term.name
        case "while":
            return f"trips of loop {term.number}"
        case GetProgramIdOp.NAME:
            return f"program_id({_axis(term)})"
        case GetNumProgramsOp.NAME:
            return f"num_programs({_axis(term)})"
        case _:
            return term.name


def _axis(term: Term) -> str:
    return str(dict(zip(term.key[1::2], term.key[2::2], strict=False)).get("axis", "0")).partition(" ")[0]
