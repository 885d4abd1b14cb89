"""The questions that loops and conditions ask: each is "are there more than n trips?" for an unknown number of trips.

The proof does not know how many trips a loop makes. Where a partition depends on it, the proof asks, and follows both
answers. A range ``low … high`` in steps of s has t trips, and t is unknown:

    for k in low … high               asks t > 0, t > 1, …                          start 0
    if low < high                     asks t > 0                                    start 0
    while                             asks as a loop does
    for k in low + 2·s … high         asks t > 2 first                              start 2
    for k in low … split              asks t > 0, …, and ends after E trips         start 0, end E
    for k in split … high             asks t > E first                              start E
    for k in low + s … high           the same for an unknown step s                start 1

    for k in 0 … min(x, T)            asks t > 0 and x > 0, …: at most x trips      stage 0, cap x
    for k in 0 … min(y, left)         asks first whether t > the trips taken        stage 1, cap y
    for k in 0 … left - min(y, left)  takes the rest                                stage 2

A loop or branch without accesses asks nothing: its results are unknown numbers.

`split` is the value that early puts compute: min(low + E·s, high). `left` is T - min(x, T), with x, y ≥ 0: the last
three loops share the T trips of one range, one loop after the other. Every other condition is an unknown of its own
that is 0 or 1.

Two loops ask about one unknown if their bounds are equal expression trees at corresponding points. The same holds for
values that loops carry, if their computations are equal (`tawa.verify.equal_numbers`). Other relations between bounds
are ignored, such as that one is the minimum of two others.

A loop with a large constant trip count may be treated as if it were unknown: the iterations far from its ends are then
one state, as in any other loop.

Arithmetic is assumed not to overflow, as everywhere in this check.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tawa.dialects.arith import AddIOp, CmpIOp, MinSIOp, Predicate, SubIOp, XOrIOp
from tawa.dialects.control_flow import deciding
from tawa.dialects.scf import ForOp
from tawa.ir import Operation, Value
from tawa.verify.equal_numbers import decided_by
from tawa.verify.free.bounds import addends_of, cap_of, comparison_of, is_not_negative, longer_than, orders_of, start_of
from tawa.verify.free.sites import ENDLESS, Asked, Questions, Site, asked_of, conditions_of, is_condition, loops_of
from tawa.verify.numbers.facts import FAR, Facts
from tawa.verify.numbers.loops import is_positive
from tawa.verify.skeleton.live import reached
from tawa.verify.skeleton.program import Code, Part, Program, Term, Terms, text_of

_MOST_LEAST = 64


class UnclearError(Exception):
    """Control flow at `op` depends on something that the proof cannot ask about."""

    def __init__(self, reason: str, op: Operation | None) -> None:
        super().__init__(reason)
        self.op = op


def find_questions(
    program: Program, free_from: int = ENDLESS, facts: Facts | None = None, unknowns: dict[Any, int] | None = None
) -> Questions:
    """The questions of all partitions. Raises `UnclearError`.

    free_from: constant trip counts of this size or more are treated as unconstrained. facts: about arguments. unknowns:
    the numbers of unknowns, shared with another program that computes the same.
    """
    finder = _Finder(program, free_from, facts)
    finder.unknowns = {} if unknowns is None else unknowns
    return finder.find()


@dataclass(slots=True)
class _Finder:
    program: Program
    free_from: int
    facts: Facts | None = None
    terms: Terms = field(default_factory=Terms)
    values: dict[int, Any] = field(default_factory=dict[int, Any])
    unknowns: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])
    reading: set[int] = field(default_factory=set[int])
    """The unknowns that come from memory."""
    constant: dict[int, int] = field(default_factory=dict[int, int])
    flags: dict[int, int] = field(default_factory=dict[int, int])
    asked: dict[int, Asked] = field(default_factory=dict[int, Asked])
    moved: dict[int, int] = field(default_factory=dict[int, int])
    """How many moves set each register. A register that one move sets is another name of its source."""
    compared: dict[Term, None] = field(default_factory=dict[Term, None])
    steps: dict[Any, list[Any]] = field(default_factory=dict[Any, list[Any]])
    """By upper bound: the steps of its loops."""
    least: dict[int, int] = field(default_factory=dict[int, int])
    most: dict[int, int] = field(default_factory=dict[int, int])
    positive: dict[Term, None] = field(default_factory=dict[Term, None])
    places: dict[Term, Operation | None] = field(default_factory=dict[Term, Operation | None])
    """For each step, one loop that has it."""
    taken: dict[Term, tuple[Any, Term]] = field(default_factory=dict[Term, tuple[Any, Term]])
    """For a minimum of a cap and of what is left, ``min(x, left)``, that is subtracted from what is left: both."""

    def find(self) -> Questions:
        program = self.program
        self.values = {number: it for number, it in enumerate(program.registers) if isinstance(it, int | Term)}
        sites: list[dict[int, Site]] = []
        for part in program.parts:
            self._find_carried(part)
        conditions: list[dict[int, int | Term]] = []
        for part in program.parts:
            found, asked = self._walk(part)
            sites.append(found)
            conditions.append(asked)
        for found, asked in zip(sites, conditions, strict=True):
            loops = sorted(found)
            found |= {at: self._condition(term, [found[it] for it in loops if it > at]) for at, term in asked.items()}
        sites = self._from_the_first(sites)
        fresh = len(self.unknowns)
        reach: list[list[int]] = []
        for part, found in zip(program.parts, sites, strict=True):
            puts = {at: 1 << fresh for at, it in enumerate(part.code) if it[0] == Code.PUT and it[3]}
            reach.append(reached(part.uses, asked_of(part, found) | puts))
        positive = tuple((step, self.places[step]) for step in self.positive if not is_positive(step))
        return Questions(
            sites,
            self.flags,
            self.constant,
            reach,
            self.least,
            self.most,
            fresh,
            self.asked,
            tuple(self.compared),
            positive,
            self._remembered(sites),
            conditions_of(program, sites),
            [loops_of(part, asking) for part, asking in zip(program.parts, sites, strict=True)],
            self._shares_memory(sites),
        )

    def _remembered(self, sites: list[dict[int, Site]]) -> dict[int, int]:
        """For each unknown that a condition asks about behind its loop: the largest number of trips it asks about."""
        found: dict[int, int] = {}
        for part, asking in zip(self.program.parts, sites, strict=True):
            code = part.code
            loops = [(site.unknown, code[at][5]) for at, site in asking.items() if code[at][0] == Code.FOR]
            for at, site in asking.items():
                again = any(unknown == site.unknown and end <= at for unknown, end in loops)
                if again and is_condition(part, at, site):
                    found[site.unknown] = max(found.get(site.unknown, 0), site.start + 1)
        return found

    def _from_the_first(self, sites: list[dict[int, Site]]) -> list[dict[int, Site]]:
        """The sites, with starts of 0 or more: those of an unknown move together if the first of them is negative."""
        asking = [site for found in sites for site in found.values()]
        first: dict[int, int] = {}
        for site in asking:
            first[site.unknown] = min(site.start, first.get(site.unknown, 0))
        staged = {it for site in asking if site.stage is not None for it in (site.unknown, site.cap)}
        if any(start and unknown in staged for unknown, start in first.items()):
            raise UnclearError("a loop from below 0 over a range that other loops take in stages", None)
        for unknown, start in first.items():
            asked = self.asked.get(unknown)
            if start and asked is not None and isinstance(asked.step, int):
                by = start * asked.step
                lower = self._plus(asked.lower, by)
                self.asked[unknown] = replace(asked, lower=lower)
            for bounds in (self.least, self.most):
                if unknown in bounds:
                    bounds[unknown] -= start
        return [{at: site.shifted(-first[site.unknown]) for at, site in found.items()} for found in sites]

    def _shares_memory(self, sites: list[dict[int, Site]]) -> bool:
        """Whether a number in memory is an unknown of several partitions."""
        asked = [unknown for found in sites for unknown in {site.unknown for site in found.values()}]
        return any(unknown in self.reading and asked.count(unknown) > 1 for unknown in set(asked))

    # -- expressions ------------------------------------------------------------------------------------------------

    def _find_carried(self, part: Part) -> None:
        """Loop-carried values and results of branches have several sources, hence no term of their own."""
        chosen = self.program.chosen
        for instruction in part.code:
            if instruction[0] == Code.MOVE:
                for target in instruction[2]:
                    known = target in chosen and (target in self.program.unknown or not self.program.computes)
                    self.values[target] = self._decided(chosen[target]) if known else None
                    self.moved[target] = self.moved.get(target, 0) + 1

    def _walk(self, part: Part) -> tuple[dict[int, Site], dict[int, int | Term]]:
        """The sites of the loops, and the terms of the conditions."""
        sites: dict[int, Site] = {}
        conditions: dict[int, int | Term] = {}
        ends: list[int] = []
        whiles: list[Site] = []
        program = self.program
        exits = _exits(part)
        behind = 0
        for at, instruction in enumerate(part.code):
            if at < behind:
                continue
            while ends and ends[-1] <= at:
                ends.pop()
            match instruction:
                case (Code.QUIET, behind, results):
                    self.values.update((register, self._decided(value)) for register, value in results)
                case (Code.MOVE, sources, targets):
                    handed = at and part.code[at - 1][0] == Code.TEST
                    for source, target in zip(sources, targets, strict=True):
                        if self.moved[target] == 1 and self.values[target] is None:
                            value = self.values.get(source)
                            self.values[target] = self._handed(value, len(ends)) if handed else value
                case (Code.SCALAR, function, ins, out, signature):
                    made = self._scalar(function, [self.values.get(it) for it in ins], signature)
                    op = part.ops[at]
                    if made is None and op is not None and not (program.computes and out not in program.unknown):
                        made = self._decided(op.result)  # else the run computes it
                    self.values[out] = made
                case (Code.ACT, act) if act.takes:
                    self.values[act.number] = self._decided(self.program.crossed.loads[act.op])
                case (Code.RECEIVE, _, out):
                    op = part.ops[at]
                    self.values[out] = None if op is None else self._decided(op.result)
                case (Code.WHILE, *_):
                    op = part.ops[at]
                    term = None if op is None else self._decided(deciding(op)[0].value)
                    if term is None:
                        raise UnclearError("the condition of a while is no number that the partitions share", op)
                    sites[at] = Site(self._unknown("while", term))
                    self.asked[sites[at].unknown] = Asked(term, 0, 1)
                    whiles.append(sites[at])
                    ends.append(exits[at])
                case (Code.TEST, *_):
                    sites[at] = whiles.pop()
                case (Code.FOR, lower, upper, step, induction, target):
                    op = part.ops[at]
                    if op is not None and ForOp(op).unsigned:
                        raise UnclearError("a loop over unsigned numbers", op)
                    bounds = [self.values.get(it) for it in (lower, upper, step)]
                    for place, value in enumerate(ForOp(op).bounds if op is not None else ()):
                        bounds[place] = self._decided(value) if bounds[place] is None else bounds[place]
                    if isinstance(bounds[2], Term):
                        self.places.setdefault(bounds[2], op)
                    site = sites[at] = self._loop(bounds[0], bounds[1], bounds[2], op)
                    ends.append(target)
                    if induction >= 0:
                        behind_others = (bounds[1],) if site.stage else ()  # its numbers start anew, its trips do not
                        self.values[induction] = self.terms(("induction", site.unknown, len(ends), *behind_others))
                case (Code.IF, condition, _) | (Code.CONSUMED, _, _, condition, _) if condition >= 0:
                    term = self.values.get(condition)
                    if term is not None:
                        conditions[at] = term
                case _:
                    pass
        return sites, conditions

    def _scalar(self, function: Any, inputs: list[Any], signature: tuple[Any, ...]) -> Any:
        if signature[0] == "opaque" or None in inputs:
            return None
        if function is not None and all(isinstance(it, int) for it in inputs):
            number = function(*inputs)
            if number is not None:
                return number
        made = self.terms((*signature, *inputs))
        if signature[0] == SubIOp.NAME:
            self._find_taken(made)
        if signature[0] == CmpIOp.NAME:
            self.compared[made] = None
        return made

    def _find_taken(self, difference: Term) -> None:
        """Records the minimum in ``left - min(x, left)``."""
        left, least = difference.key[-2:]
        if isinstance(least, Term) and least.key[0] == MinSIOp.NAME and left in least.key[-2:]:
            one, other = least.key[-2:]
            cap = one if other == left else other
            if isinstance(cap, Term) and is_not_negative(cap):
                self.taken[least] = left, cap

    def _staged(self, upper: Any) -> tuple[Any, int, Term | None] | None:
        """The length of the range, the stage and the cap of a loop up to `upper`; None if it is not a stage."""
        if not isinstance(upper, Term):
            return None
        left, cap = self.taken.get(upper, (upper, None))
        stage = 0
        while (
            isinstance(left, Term)
            and left.key[0] == SubIOp.NAME
            and self.taken.get(left.key[-1], (None,))[0] == left.key[-2]
        ):
            left, stage = left.key[-2], stage + 1
        return (left, stage, cap) if stage or cap is not None else None

    def _handed(self, value: Any, depth: int) -> Any:
        """What the `before` region of a while hands to its `after` region. depth: the number of loops, with this one.

        `after` and the next run of `before` have the same iteration number. A number that `before` computes anew is
        another one in that run, so what it hands over has a term of its own.
        """
        varies = isinstance(value, Term) and _depth_of(value) >= depth
        return self.terms(("handed", value)) if varies else value

    def _decided(self, value: Value) -> Term | None:
        """The term of a loop-carried value or a result of control flow: equal if its whole computation is equal."""
        text = decided_by(value, self.program.crossed)
        return None if text is None else self.terms(("decided", text))

    # -- questions ---------------------------------------------------------------------------------------------------

    def _unknown(self, *key: Any) -> int:
        found = self.unknowns.setdefault(tuple(map(text_of, key)), len(self.unknowns))
        if any(isinstance(it, Term) and it.reads for it in key):
            self.reading.add(found)
        return found

    def _loop(self, lower: Any, upper: Any, step: Any, op: Operation | None) -> Site:
        if lower is None or upper is None or step is None:
            raise UnclearError("the bounds of a loop are no numbers that the partitions share", op)
        if isinstance(step, int) and step <= 0:
            raise UnclearError("a loop with a step of 0 or less", op)
        if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
            trips = max(-((lower - upper) // step), 0)
            if trips < self.free_from:
                unknown = self._unknown("constant", lower, upper, step)
                self.constant[unknown] = trips
                return Site(unknown, 0, trips)
            site = self._range(lower, upper, step)
            if site is None:
                raise UnclearError("a loop whose range is no whole number of steps", op)
            self.least[site.unknown] = min(site.start + trips, self.program.fresh + 1)  # early puts rely on it
            return site
        site = self._range(lower, upper, step)
        if site is None:
            raise UnclearError("a loop that starts or ends inside of a step of another one", op)
        capped = cap_of(upper)
        if isinstance(lower, int) and isinstance(upper, int) and lower < upper:
            self.least[site.unknown] = max(self.least.get(site.unknown, 0), 1)
        if (
            site.stage is None
            and isinstance(upper, Term)
            and not capped
            and (isinstance(lower, int) or site.unknown not in self.asked)
        ):
            base, _ = start_of(lower, step) if isinstance(step, int) else self._without(lower, step)
            self.asked[site.unknown] = Asked(upper, base, step)
        self._bound_by_facts(site, lower, upper, step, capped is not None)
        known = self.steps.setdefault(capped[2] if capped else upper, [])
        if step not in known:
            known.append(step)
        return site

    def _bound_by_facts(self, site: Site, lower: Any, upper: Any, step: Any, capped: bool) -> None:
        """The least and the largest number of trips that the facts about arguments allow."""
        if self.facts is None or capped or site.stage is not None or not isinstance(upper, Term):
            return
        if isinstance(lower, int) and isinstance(step, int) and self.facts.constrains(upper):
            least = 0
            while least < _MOST_LEAST and not self.facts.allows(upper, -FAR, lower + least * step):
                least += 1
            if least:
                self.least[site.unknown] = max(self.least.get(site.unknown, 0), site.start + least)
            for most in range(_MOST_LEAST):
                if not self.facts.allows(upper, lower + most * step + 1, FAR):
                    self.most[site.unknown] = min(self.most.get(site.unknown, ENDLESS), site.start + most)
                    break

    def _range(self, lower: Any, upper: Any, step: Any) -> Site | None:
        """The trips from `lower` to `upper` as part of a longer range; None if parts are not whole numbers of trips."""
        if not isinstance(step, int):
            base, before = self._without(lower, step)
            if before:
                self.positive[step] = None
            return Site(self._unknown("range", base, upper, step), before)
        if step == 1 and isinstance(lower, int) and lower >= 0 and (staged := self._staged(upper)) is not None:
            length, stage, cap = staged
            self.asked.setdefault(self._unknown("range", 0, length, 1), Asked(length, 0, 1))
            capping = None
            if cap is not None:
                capping = self._unknown("range", 0, cap, 1)
                self.asked.setdefault(capping, Asked(cap, 0, 1))
            return Site(self._unknown("range", 0, length, 1), lower, ENDLESS, False, stage, capping)
        end = ENDLESS
        if (capped := cap_of(upper)) is not None:
            low, most, upper = capped
            if most % step:
                return None
            first, before = start_of(low, step)
            if start_of(lower, step)[0] != first:
                return None
            end = before + most // step
        start = 0
        if (capped := cap_of(lower)) is not None and capped[2] == upper:
            lower, most, _ = capped
            if most % step:
                return None
            start = most // step
        base, before = start_of(lower, step)
        return Site(self._unknown("range", base, upper, step), start + before, end)

    def _without(self, lower: Any, step: Term) -> tuple[Any, int]:
        """The start of the range that a loop from `lower` continues, and the number of steps before `lower`."""
        parts, number = addends_of(lower)
        by, more = addends_of(step)
        trips = 0
        while by <= parts:
            parts, number, trips = parts - by, number - more, trips + 1
        if not trips:
            return lower, 0
        base: Any = number
        for part in sorted(parts.elements(), key=lambda it: it.number):
            base = part if base == 0 else self.terms((*lower.key[:-2], part, base))
        return base, trips

    def _plus(self, number: Any, by: int) -> Any:
        """The sum of a number and a constant, of the type of the number if that is a sum itself."""
        if isinstance(number, int):
            return number + by
        return self.terms((*(number.key[:-2] if number.key[0] == AddIOp.NAME else (AddIOp.NAME,)), number, by))

    def _known(self, lower: Any, upper: Any, step: Any) -> Site | None:
        """`_range` if a loop queries that range; else None."""
        known, positive = len(self.unknowns), dict(self.positive)
        site = self._range(lower, upper, step)
        if site is None or site.unknown >= known:
            for key in list(self.unknowns)[known:]:
                del self.unknowns[key]
            self.positive = positive
            return None
        return site

    def _condition(self, term: int | Term, behind: list[Site]) -> Site:
        """The site of a condition: that of a loop if it compares the loop's bounds, else an unknown that is 0 or 1.

        behind: the loops that follow. If several have these bounds, with different steps, the next one counts.
        """
        if isinstance(term, int):
            unknown = self._unknown("constant", bool(term))
            self.constant[unknown] = int(bool(term))
            return Site(unknown)
        if self.facts is not None and self.facts.constrains(term):
            possible = [number for number in (0, 1) if self.facts.allows(term, number, number)]
            if len(possible) == 1:
                return self._condition(possible[0], behind)
        for lower, upper, inverted in self._orders(term):
            capped = cap_of(upper)
            sites = [self._known(lower, upper, it) for it in self.steps.get(capped[2] if capped else upper, ())]
            order = {site.unknown: place for place, site in reversed(list(enumerate(behind)))}
            known = sorted(filter(None, sites), key=lambda it: order.get(it.unknown, len(behind)))
            if known:
                return replace(known[0], inverted=inverted)
        term, inverted = self._affirmed(term)
        unknown = self._unknown("flag", term)
        self.flags[unknown] = _depth_of(term)
        self.asked[unknown] = Asked(term)
        return Site(unknown, inverted=inverted)

    def _orders(self, term: Term) -> list[tuple[Any, Any, bool]]:
        """`orders_of`, also of a condition whether a range is longer than a number."""
        longer = longer_than(term)
        if longer is None:
            return orders_of(term)
        low, length, high = longer
        return [(self._plus(low, length), high, False)]

    def _affirmed(self, condition: Term) -> tuple[Term, bool]:
        """A condition without ``not``, and whether it was denied: both are one unknown."""
        denied = False
        while condition.key[0] == XOrIOp.NAME and 1 in condition.key[-2:] and len(condition.parts) == 1:
            (condition,), denied = condition.parts, not denied
        compared = comparison_of(condition)
        if compared is not None and compared[0] in (Predicate.NE, Predicate.SGE, Predicate.UGE):
            predicate = f"{compared[0].negated} : i64"
            return self.terms((*condition.key[:2], predicate, *condition.key[3:])), not denied
        return condition, denied


def _exits(part: Part) -> dict[int, int]:
    """By the start of a `while`, where it goes when it ends."""
    found: dict[int, int] = {}
    started: list[int] = []
    for at, instruction in enumerate(part.code):
        if instruction[0] == Code.WHILE:
            started.append(at)
        elif instruction[0] == Code.TEST:
            found[started.pop()] = instruction[2]
    return found


def _depth_of(term: Term) -> int:
    """The number of loops around a condition that it depends on."""
    depth = 0
    for part in term.walk():
        if part.key[0] == "induction":
            depth = max(depth, part.key[2])
        elif part.key[0] in ("decided", "handed", "opaque", "atomic", "undefined"):
            return ENDLESS
    return depth
