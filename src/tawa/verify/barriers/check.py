"""The barrier check: slots, parities, bytes, asynchronous lifetimes and proxies of a warp-specialised kernel.

Works on any TTGIR with ``ttg.warp_specialize``, of Triton 3.6 to 3.9, from any producer.

    inputs    small trip counts for the arguments that control flow depends on (`inputs.choices`): `fast` tries corner
              cases, `full` all up to 2·D + 1; choices that give the same run are merged (`inputs.fingerprint`,
              `inputs.sweep`)
    trace     each choice unrolls the kernel into one straight-line sequence of events per partition (`run.trace`)
    run       one run with happens-before covers all interleavings and completion orders (`run.happens_before`)

Not modelled: which allocations Triton places at the same address, clusters, values of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tawa.dialects.scf import ForOp
from tawa.ir import Module, Operation, Value, source_of
from tawa.remarks import SourceLocation
from tawa.verify.assumptions import Assumption
from tawa.verify.barriers.inputs.beyond import Extension, Extensions, UntriedOutcome, untried_outcomes
from tawa.verify.barriers.inputs.choices import (
    BUDGET,
    MOST_CHOICES,
    OUTER_TRIPS,
    Choices,
    choices,
    inner_numbers,
    read_facts,
    trips_to_try,
)
from tawa.verify.barriers.inputs.fingerprint import Fingerprints
from tawa.verify.barriers.inputs.sweep import Numbers, State, Sweep
from tawa.verify.barriers.program.kernel import BarrierProgram, NotUnderstood
from tawa.verify.barriers.program.shortened import shortened
from tawa.verify.barriers.refinement import check_refinement
from tawa.verify.barriers.run.events import MAX_EVENTS, NeedsNumber, Signature, TooLong, Undefined, signature
from tawa.verify.barriers.run.happens_before import BarrierRun
from tawa.verify.barriers.run.history import Fault, HistoryStep
from tawa.verify.barriers.run.trace import Unrolled, unroll
from tawa.verify.crossed_numbers import ATOMIC, FIRST_TIME, SEVERAL_ATOMICS
from tawa.verify.data_dependent_loops import BY_ATOMICS, PREFIX
from tawa.verify.effort import Effort
from tawa.verify.given_numbers import FUNCTION, GIVEN
from tawa.verify.verdict import Checked, Refuted, Step, Unknown, Verdict, Witness

_ALL = 300
_FREE: Mapping[Effort, int] = {"fast": 2, "full": 4}
"""The number of unforeseen numbers tried with all values after the budget ended (`_ALL`: before); the others get their
smallest."""
_SHARES = 64
"""The part of the budget that one choice may use where its runs are enumerated by the results of atomics."""
_PARTIAL = 50
"""The cost of a run that stops early, in steps: one with results of atomics may stop at each of them."""
_CHOICES_PER_NUMBER = 3
"""The number of values tried for a number that the kernel loads from memory."""


def check_barriers(
    module: Module,
    *,
    arguments: Mapping[str, int] | None = None,
    assume: Sequence[str] = (),
    effort: Effort = "full",
    max_trips: int | None = None,
    budget_states: int | None = None,
) -> Verdict:
    """Proves or refutes the barrier protocol of `module`.

    arguments: integer arguments with a fixed value, by name. assume: facts about arguments, each ``L >= 128``,
    ``K % 64 == 0`` or several joined by ``and``; raises AssumptionError if one cannot be parsed or is not about an
    integer argument. effort: `fast` tries few trip counts, `full` all up to `max_trips` (default 2·D + 1, where D is
    the length of the longest array of mbarriers). budget_states: the limit of steps over all runs; the verdict states
    which runs were made before it was reached.
    """
    try:
        program = BarrierProgram(module)
        facts = read_facts(program, assume)
        trips = trips_to_try(program, effort, max_trips)
        found = choices(program, arguments or {}, facts, trips)
        budget = BUDGET[effort] if budget_states is None else budget_states
        inner = inner_numbers(program, arguments or {}, facts, trips)
        search = _Search(program, effort, budget, trips, inner, facts)
        verdict = search.run(found)
    except NotUnderstood as stop:
        return Unknown(f"not understood: {stop.reason}", _place(module, stop.op))
    if not isinstance(verdict, Unknown) or search.steps < budget:
        return verdict
    try:
        program = BarrierProgram(module, coarse=True)
        program.shortened.update(shortened(program))
        found = choices(program, arguments or {}, facts, trips)
        inner = inner_numbers(program, arguments or {}, facts, trips)
        coarse = _Search(program, effort, budget, trips, inner, facts, coarse=True).run(found)
    except NotUnderstood:
        return verdict
    return coarse if isinstance(coarse, Checked) else verdict  # a fault may be an artefact of the shortened loops


@dataclass(slots=True)
class _Search:
    """The runs so far, and what remains of the budget."""

    program: BarrierProgram
    effort: Effort
    budget: int
    trips: Sequence[int]
    inner: Mapping[str, tuple[int, ...]]
    facts: Sequence[Assumption]
    coarse: bool = False
    steps: int = 0
    seen: set[Signature] = field(default_factory=set[Signature])
    tried: list[State] = field(default_factory=list[State])
    runs: int = 0
    valid: int = 0  # runs that no assumption of the program excludes, duplicates included
    memory: tuple[int, ...] = ()  # further values of loaded numbers
    outcomes: dict[Operation, int] = field(default_factory=dict[Operation, int])  # of the decisions in these runs
    until: int = 0  # the step count at which the runs of the current state stop
    longest: int = MAX_EVENTS  # the limit of steps of one run
    cut: bool = False  # some runs of a state were not made
    used: dict[str, None] = field(default_factory=dict[str, None])
    read: dict[str, dict[int, None]] = field(default_factory=dict[str, dict[int, None]])

    def run(self, found: list[Choices]) -> Verdict:
        """Tries the choices that give different runs until one has a fault or the budget ends.

        `full` starts with few trips, `fast` with choices that together cover each trip count and number once.
        """
        self.used.update(dict.fromkeys(fact for choice in found for fact in choice.facts))
        names = {choice.argument: choice.name for choice in found}
        numbers = {choice.argument: choice.numbers for choice in found}
        sweep = Sweep(Fingerprints(self.program), numbers, self._numbers_for, MOST_CHOICES[self.effort], self.coarse)
        self.read.update(sweep.offered)
        atomics = bool(self.program.crossed.sources)  # each of their results multiplies the runs of one choice
        states = sweep.covering() if self.effort == "fast" or atomics else sweep.states
        complete, spent = not sweep.dropped, 0
        for place, state in enumerate(states):
            if self.steps >= self.budget:
                complete = False
                break
            cost = sweep.cost(state)
            if self.steps * cost > self._allowance() * spent > 0:
                complete = False  # predicted from the cost of a trip so far
                continue
            spent += cost
            share = (self.budget - self.steps) // (len(states) - place)
            least = self.budget // (4 if self.coarse else _SHARES)
            self.until = self.steps + max(share, least) if self.coarse or atomics else self.budget
            try:
                refuted = self._try(state.numbers, state.chosen, names, _FREE[self.effort] if self.coarse else _ALL)
            except TooLong as stop:
                self.steps += stop.steps
                complete = False
                continue
            if refuted is not None:
                return refuted
            self.tried.append(state)
        complete = complete and not self.cut
        more = sweep.dropped or (self.cut and self.coarse)
        few = not complete and 2 * sweep.numbers_in(self.tried) < sweep.numbers_in(states)
        stop = None if few or not self.runs else self._beyond(found, names)
        return stop or self._verdict(found, complete, few, f"{'more than ' if more else ''}{len(states)} choices")

    def _beyond(self, found: list[Choices], names: dict[Value, str]) -> Refuted | Unknown | None:
        """Tries inputs for outcomes of decisions that no run had; Unknown if a necessary outcome remains untried."""
        extensions = Extensions(self.program, found, self.facts, self.trips, self.effort)
        granted, done = False, dict[object, bool]()  # runs, and whether assumptions excluded them
        self.longest = MAX_EVENTS - 1  # a longer run is skipped; that is inconclusive
        most = max((number for choice in found for number in choice.numbers), default=0)
        for decision in untried_outcomes(self.program, self.outcomes, max(most, *self.trips), self.effort):
            if not granted:
                self.budget, granted = max(self.budget, self.steps) + 2 * BUDGET[self.effort], True
            excluded, made, own, too_long = True, False, False, False
            if decision.needed:
                self.budget = max(self.budget, self.steps + BUDGET[self.effort] // 2)
            enough = max(2, len(decision.inputs)) if decision.needed and decision.splits else 2
            for place, extension in enumerate(extensions.of(decision)):
                seen = self.outcomes.get(decision.op, 0) & decision.outcome
                if self.steps >= self.budget or (
                    seen and (self.effort == "fast" or ForOp.matches(decision.op)) and place >= enough
                ):
                    break
                if extension.far and too_long:
                    continue  # the next runs are even longer
                made = True
                same = (frozenset(extension.numbers.items()), frozenset(extension.chosen.items()), extension.memory)
                if same in done and not decision.anew:
                    excluded = excluded and done[same]
                    continue
                done[same] = False
                self.memory, before = extension.memory, self.valid
                self.until = self.steps + BUDGET[self.effort] // (2 if decision.needed else 8)
                try:
                    refuted = self._try(extension.numbers, extension.chosen, names, _FREE[self.effort])
                except TooLong as stop:
                    self.steps += stop.steps
                    excluded, too_long = False, True
                    continue
                finally:
                    self.memory = ()
                if refuted is not None:
                    return refuted
                done[same] = self.valid == before
                excluded, own = excluded and done[same], own or not done[same]
                self._widen(found, extension)
            seen = self.outcomes.get(decision.op, 0) & decision.outcome
            left_out = (excluded and made) or (decision.inputs and extensions.all_excluded(decision))
            if decision.needed and not left_out and (not seen or (decision.anew and not own)):
                return self._undecided(decision)
        return None

    def _widen(self, found: list[Choices], extension: Extension) -> None:
        """Adds these numbers to the ones that the bound states."""
        for place, choice in enumerate(found):
            numbers = tuple(sorted({*choice.numbers, extension.numbers[choice.argument]}))
            found[place] = replace(choice, numbers=numbers)
        for key, number in extension.chosen.items():
            self.read.setdefault(key, {})[number] = None

    def _undecided(self, decision: UntriedOutcome) -> Unknown:
        what = "has trips" if ForOp.matches(decision.op) else "has its other outcome"
        reason = f"found no numbers for which {decision.op.name} {what}: the code that depends on it is not checked"
        return Unknown(reason, source_of(self.program.module, decision.op), self._assumptions())

    def _allowance(self) -> int:
        """The limit of steps of one run: a long one may exceed the budget by half."""
        return min(max(self.budget - self.steps, self.budget // 2), self.longest)

    def _verdict(self, found: list[Choices], complete: bool, few: bool, all_of: str) -> Verdict:
        """few: less than half of the trip counts and numbers occurred in the runs made."""
        if complete and not self.runs:
            return Unknown("no choice of numbers satisfies the assumptions", None, self._assumptions())
        if few or not self.runs:
            reason = f"the budget of {self.budget} steps ended after {len(self.tried)} of {all_of}"
            return Unknown(reason, None, self._assumptions())
        runs = f"{self.runs} run{'' if self.runs == 1 else 's'}"
        counts = runs if complete else f"{runs}: {len(self.tried)} of {all_of}"
        return Checked(self._bound(found, counts), "runs of other numbers", None, self._assumptions())

    def _try(
        self, numbers: dict[Value, int], chosen: dict[str, int], names: dict[Value, str], free: int
    ) -> Refuted | Unknown | None:
        """Runs one choice of arguments. Enumerates unforeseen numbers as they occur: all values of the first `free`."""
        if not free:
            self.cut, chosen = True, _Smallest(chosen, self._numbers_for)
        try:
            unrolled = unroll(self.program, numbers, chosen, limit=self._allowance())
        except Undefined as stop:
            self.steps += _PARTIAL if self.program.crossed.sources else 0
            place = source_of(self.program.module, stop.op)
            self.used[f"{stop.taken}{f' at {place}' if place else ''}"] = None
            return None
        except NeedsNumber as need:
            self.steps += _PARTIAL if self.program.crossed.sources else 0
            possible = self._numbers_for(need.key, chosen)
            if self.coarse or self.program.crossed.sources:
                possible = (possible[-1], *possible[:-1])  # the longest run first: the budget may not suffice for all
            for number in possible:
                if self.steps >= self.until:
                    self.cut = True
                    break
                self.read.setdefault(need.key, {})[number] = None
                refuted = self._try(numbers, {**chosen, need.key: number}, names, free - 1)
                if refuted is not None:
                    return refuted
            return None
        self.steps += unrolled.count
        self._note(unrolled)
        if unrolled.broken:
            return None
        self.valid += 1
        for op, outcome in unrolled.outcomes.items():
            self.outcomes[op] = self.outcomes.get(op, 0) | outcome
        shape = signature(unrolled.segments)
        if shape in self.seen:
            return None
        self.seen.add(shape)
        self.runs += 1
        try:
            self.steps += BarrierRun(self.program, unrolled.segments).execute()
        except Fault as fault:
            if _by_several_atomics(chosen):
                return Unknown(SEVERAL_ATOMICS, None, self._assumptions())
            inputs = {**{names[value]: number for value, number in numbers.items()}, **chosen}
            return Refuted(self._witness(fault, inputs), self._assumptions())
        return None

    def _numbers_for(self, key: str, chosen: Mapping[str, int]) -> Sequence[int]:
        """The values to try: program ids below the number of programs; loaded numbers that are small or bound loops."""
        inner = self.inner.get("*" if key.startswith("*") else key, ())
        if key.startswith("program_id"):
            numbers, most = {0, 1, *inner}, chosen.get(f"num_programs{key[10:]}")
            return sorted(number for number in numbers if most is None or number < most)
        if key.startswith(PREFIX):  # all of them for the first execution only: each further one multiplies the runs
            if self.coarse:
                return range(min(max(self.trips), OUTER_TRIPS) + 1)
            return list(self.trips) if key.endswith(" 0") else sorted({0, 1, max(self.trips)})
        if key.startswith("num_programs"):
            least = chosen.get(f"program_id{key[12:]}", 0) + 1
            small = {least} if self.effort == "fast" else {*range(least, max(least, 3) + 1)}
            return sorted(small | {number for number in inner if number > least})
        if self.memory:
            return sorted({0, 1, *self.memory})
        if key.startswith(_OWN[2]) and not key.endswith(f"{FIRST_TIME})"):  # likewise
            return sorted({0, *inner[-1:]} if inner else {0, 1})
        if self.effort == "fast":
            return sorted({0, 1, *inner[-1:]} if inner else {*range(_CHOICES_PER_NUMBER)})
        return sorted({*range(_CHOICES_PER_NUMBER), *_corners(inner)})

    def _note(self, unrolled: Unrolled) -> None:
        for op in unrolled.assumed:
            place = source_of(self.program.module, op)
            self.used[f"tl.assume at {place}" if place else "llvm.intr.assume of the program"] = None

    def _assumptions(self) -> tuple[str, ...]:
        read = any(key.startswith(("*", PREFIX)) and not key.startswith((*_OWN, _BY_ATOMICS)) for key in self.read)
        return (*self.used, *(["numbers in memory are the same in every partition"] if read else []))

    def _bound(self, found: list[Choices], counts: str) -> str:
        """``every interleaving for SQ, SK in 0, 128, 640; numbers in memory in 0, 1 (7 runs)``."""
        fewer = tuple(sorted({it.trips for it in self.program.shortened.values()}))
        shorter = [f"loops of many trips with {_range(fewer)}"] if fewer else []
        if not found and not self.read:
            return "; ".join(("every interleaving", "control flow depends on no argument", *shorter))
        offered = {choice.name: choice.numbers for choice in found}
        many: dict[str, set[int]] = {}
        for key, read in self.read.items():
            name = next((name for prefix, name in _MANY.items() if key.startswith(prefix)), "")
            if name:
                many.setdefault(name, set()).update(read)
            else:
                offered[key] = tuple(sorted(read))
        offered |= {name: tuple(sorted(numbers)) for name in _MANY.values() if (numbers := many.get(name))}
        names: dict[tuple[int, ...], list[str]] = {}
        for name, numbers in offered.items():
            names.setdefault(numbers, []).append(name)
        parts = [f"{', '.join(alike)} in {_range(numbers)}" for numbers, alike in names.items()]
        return f"every interleaving for {'; '.join((*parts, *shorter))} ({counts})"

    def _witness(self, fault: Fault, inputs: Mapping[str, int]) -> Witness:
        return Witness(fault.kind, fault.message, inputs, tuple(self._step(step) for step in fault.steps))

    def _step(self, step: HistoryStep) -> Step:
        location = source_of(self.program.module, step.event.op) if step.event else None
        target, slot = "", None
        if step.target is not None:
            target = self.program.name_of(step.target)
            slot = step.target.path[0] if step.target.path else None
        return Step(step.partition, step.action, target, slot, step.parity, location)


_OWN = f"*({GIVEN}", f"*({FUNCTION}", f"*({ATOMIC}"
_BY_ATOMICS = f"{PREFIX}{BY_ATOMICS}"
_MANY = {
    _OWN[0]: "numbers from tiles",
    _OWN[1]: "results of functions",
    _OWN[2]: "results of atomics",
    "*": "numbers in memory",
    PREFIX: "trips of data-dependent loops",
}
"""Names of numbers that are not listed one by one, by the prefix of their keys."""


def _by_several_atomics(chosen: Mapping[str, int]) -> bool:
    """Whether a run depends on the results of several atomics, of which not all combinations may be possible."""
    for prefix in (_OWN[2], _BY_ATOMICS):
        if len({key.partition(", time")[0] for key in chosen if key.startswith(prefix)}) > 1:
            return True
    return False


class _Smallest(dict[str, int]):
    """The chosen numbers, and the smallest value for every other key."""

    def __init__(self, chosen: Mapping[str, int], numbers_for: Numbers) -> None:
        super().__init__(chosen)
        self.numbers_for = numbers_for

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> int:
        return self.setdefault(key, self.numbers_for(key, self)[0])


def _corners(numbers: Sequence[int]) -> Sequence[int]:
    """The first two and the last, because each loaded number multiplies the runs."""
    return numbers if len(numbers) < 3 else (*numbers[:2], numbers[-1])


def _range(numbers: tuple[int, ...]) -> str:
    """All numbers; of four or more at equal distances only the first two and the last."""
    if len(numbers) > 3 and len({after - before for before, after in pairwise(numbers)}) == 1:
        return f"{numbers[0]}, {numbers[1]}, …, {numbers[-1]}"
    return ", ".join(map(str, numbers)) or "nothing"


def _place(module: Module, op: Operation) -> SourceLocation | None:
    return source_of(module, op)


__all__ = ["check_barriers", "check_refinement"]
