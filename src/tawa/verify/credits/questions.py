"""What partitions ask of numbers that are not known, as questions about free trip counts.

    low … high in steps of s has t trips, t not known:

    for k in low … high               0 trips and more: asks t > 0, t > 1, …        start 0
    if low < high                     asks t > 0                                    start 0
    while                             0 trips and more, as a loop
    for k in low + 2·s … high         its first question is t > 2                   start 2
    for k in low … split              at most E trips: the same questions up to E   start 0, end E
    for k in split … high             its first question is t > E                   start E
    for k in low + s … high           the same for a step s that is not known       start 1

`split` is what early puts compute: low + E·s, or high where that is nearer. Every other condition is an unknown of its
own that is 0 or 1. So what relates bounds (one is the least of two, one comes from the program id, …) is forgotten, but
not which loops are the same: the bounds are trees of operations, and equal trees at equal places are one unknown. So
are numbers that loops hand on, where all that decides them is the same (`barrier_whiles`).

A loop whose many trips stand in the text may be taken for one of free trips as well: then iterations far from its ends
are one state, as those of any other loop.

Arithmetic is taken not to overflow, as everywhere in this check.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, SelectOp, SubIOp
from tawa.dialects.control_flow import deciding
from tawa.dialects.scf import ForOp
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_int
from tawa.verify.credits.live import reached
from tawa.verify.credits.loops import is_positive
from tawa.verify.credits.skeleton import Code, Part, Program, Term, Terms
from tawa.verify.data_dependent_loops import decided_by

ENDLESS = 1 << 62
_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL, _ABOVE = 2, 3, 4, 5, 8  # arith.cmpi predicates


@dataclass(frozen=True, slots=True)
class Site:
    """A loop, branch or conditional release: whether the trips of its unknown are more than `start`.

    A loop goes on to ask for more than start + 1, … and ends at `end` without a question.
    """

    unknown: int
    start: int = 0
    end: int = ENDLESS
    inverted: bool = False


@dataclass(slots=True)
class Questions:
    """All sites, by partition and instruction; what is missing holds a value that the run itself knows."""

    sites: list[dict[int, Site]]
    flags: set[int]  # unknowns that are conditions
    constant: dict[int, int]  # unknowns whose trips stand in the text
    reach: list[list[int]]  # by partition and instruction: the unknowns that may be asked about from there on, as bits
    least: dict[int, int]  # unknowns whose trips are free though they stand in the text: so many there are for certain
    fresh: int  # the bit beside them that says that a put which does not wait may come
    positive: tuple[tuple[Term, Operation | None], ...] = ()
    """Steps of which nothing but the language says that they are positive, each with a loop that has it."""


class UnclearError(Exception):
    """A loop has bounds of which nothing is known, not even where they come from."""


def find_questions(program: Program, free_from: int = ENDLESS) -> Questions:
    """The questions of all partitions. Raises `UnclearError`.

    free_from: the trips from which on a loop between two constants is taken to be free.
    """
    return _Finder(program, free_from).find()


@dataclass(slots=True)
class _Finder:
    program: Program
    free_from: int
    terms: Terms = field(default_factory=Terms)
    values: dict[int, Any] = field(default_factory=dict[int, Any])
    unknowns: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])
    constant: dict[int, int] = field(default_factory=dict[int, int])
    flags: set[int] = field(default_factory=set[int])
    steps: dict[Any, list[Any]] = field(default_factory=dict[Any, list[Any]])
    """By upper bound the steps of the loops that have it."""
    least: dict[int, int] = field(default_factory=dict[int, int])
    positive: dict[Term, None] = field(default_factory=dict[Term, None])
    places: dict[Term, Operation | None] = field(default_factory=dict[Term, Operation | None])
    """By step a loop that has it."""

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
        fresh = len(self.unknowns)
        reach: list[list[int]] = []
        for part, found in zip(program.parts, sites, strict=True):
            puts = {at: 1 << fresh for at, it in enumerate(part.code) if it[0] == Code.PUT and it[3]}
            reach.append(reached(part.uses, _asked(part, found) | puts))
        positive = tuple((step, self.places[step]) for step in self.positive if not is_positive(step))
        return Questions(sites, self.flags, self.constant, reach, self.least, fresh, positive)

    # -- what is computed from what ----------------------------------------------------------------------------------

    def _find_carried(self, part: Part) -> None:
        """Values that come from several places have no term."""
        for instruction in part.code:
            if instruction[0] == Code.MOVE:
                for target in instruction[2]:
                    self.values[target] = None

    def _walk(self, part: Part) -> tuple[dict[int, Site], dict[int, int | Term]]:
        """The sites of the loops; the terms of the conditions."""
        sites: dict[int, Site] = {}
        conditions: dict[int, int | Term] = {}
        ends: list[int] = []
        whiles: list[Site] = []
        for at, instruction in enumerate(part.code):
            while ends and ends[-1] <= at:
                ends.pop()
            match instruction:
                case (Code.SCALAR, function, ins, out, signature):
                    made = self._scalar(function, [self.values.get(it) for it in ins], signature)
                    op = part.ops[at]
                    self.values[out] = self._decided(op.result) if made is None and op is not None else made
                case (Code.WHILE, *_):
                    op = part.ops[at]
                    term = None if op is None else self._decided(deciding(op)[0].value)
                    if term is None:
                        raise UnclearError
                    sites[at] = Site(self._unknown("while", term))
                    whiles.append(sites[at])
                case (Code.TEST, *_):
                    sites[at] = whiles.pop()
                case (Code.FOR, lower, upper, step, induction, _, target):
                    op = part.ops[at]
                    if op is not None and ForOp(op).unsigned:
                        raise UnclearError
                    bounds = [self.values.get(it) for it in (lower, upper, step)]
                    if isinstance(bounds[2], Term):
                        self.places.setdefault(bounds[2], op)
                    site = sites[at] = self._loop(*bounds)
                    ends.append(target)
                    if induction >= 0:
                        self.values[induction] = self.terms(("induction", site.unknown, len(ends)))
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
        return self.terms((*signature, *inputs))

    def _decided(self, value: Value) -> Term | None:
        """A number that loops or branches hand on: equal where all that decides it is equal."""
        text = decided_by(value)
        return None if text is None else self.terms(("decided", text))

    # -- questions ---------------------------------------------------------------------------------------------------

    def _unknown(self, *key: Any) -> int:
        return self.unknowns.setdefault(key, len(self.unknowns))

    def _loop(self, lower: Any, upper: Any, step: Any) -> Site:
        if lower is None or upper is None or step is None:
            raise UnclearError
        if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
            if step <= 0:
                raise UnclearError
            trips = max(-((lower - upper) // step), 0)
            if trips < self.free_from:
                unknown = self._unknown("constant", lower, upper, step)
                self.constant[unknown] = trips
                return Site(unknown, 0, trips)
            site = self._range(lower, upper, step)
            if site is None:
                raise UnclearError
            self.least[site.unknown] = min(site.start + trips, self.program.fresh + 1)  # what early puts rest on
            return site
        site = self._range(lower, upper, step)
        if site is None:
            raise UnclearError
        capped = _capped(upper)
        if isinstance(lower, int) and isinstance(upper, int) and lower < upper:
            self.least[site.unknown] = max(self.least.get(site.unknown, 0), 1)
        known = self.steps.setdefault(capped[2] if capped else upper, [])
        if step not in known:
            known.append(step)
        return site

    def _range(self, lower: Any, upper: Any, step: Any) -> Site | None:
        """The trips from `lower` to `upper` as part of a longer range; None where parts do not fit into trips."""
        if not isinstance(step, int):
            base, before = _first(lower, step)
            if before:
                self.positive[step] = None
            return Site(self._unknown("range", base, upper, step), before)
        if step <= 0:
            return None
        end = ENDLESS
        if (capped := _capped(upper)) is not None:
            low, most, upper = capped
            if most % step:
                return None
            first, before = _first(low, step)
            if _first(lower, step)[0] != first:
                return None
            end = before + most // step
        start = 0
        if (capped := _capped(lower)) is not None and capped[2] == upper:
            lower, most, _ = capped
            if most % step:
                return None
            start = most // step
        base, before = _first(lower, step)
        return Site(self._unknown("range", base, upper, step), start + before, end)

    def _known(self, lower: Any, upper: Any, step: Any) -> Site | None:
        """The same where a loop asks about that range."""
        before, positive = dict(self.unknowns), dict(self.positive)
        site = self._range(lower, upper, step)
        if site is None or site.unknown not in before.values():
            self.unknowns, self.positive = before, positive
            return None
        return site

    def _condition(self, term: int | Term, behind: list[Site]) -> Site:
        """`low < high` and its like where a loop has these bounds; else an unknown that is 0 or 1.

        behind: the loops that follow. Where several have these bounds, with steps of their own, it is the next.
        """
        if isinstance(term, int):
            unknown = self._unknown("constant", bool(term))
            self.constant[unknown] = int(bool(term))
            return Site(unknown)
        compared = _compared(term)
        if compared is not None:
            predicate, left, right = compared
            if predicate in (_GREATER, _LESS_EQUAL):
                left, right = right, left
            if predicate in (_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL):
                capped = _capped(right)
                sites = [self._known(left, right, it) for it in self.steps.get(capped[2] if capped else right, ())]
                order = {site.unknown: place for place, site in reversed(list(enumerate(behind)))}
                known = sorted(filter(None, sites), key=lambda it: order.get(it.unknown, len(behind)))
                if known:
                    inverted = predicate in (_LESS_EQUAL, _GREATER_EQUAL)
                    return replace(known[0], inverted=inverted)
        unknown = self._unknown("flag", term)
        self.flags.add(unknown)
        return Site(unknown)


def _asked(part: Part, sites: dict[int, Site]) -> dict[int, int]:
    """By instruction the unknown that it asks about, as a bit: a loop asks where it begins and where it goes round."""
    found = {at: 1 << site.unknown for at, site in sites.items()}
    loops = [at for at in sites if part.code[at][0] == Code.FOR]
    return found | {part.code[at][6] - 1: found[at] for at in loops}


def _first(lower: Any, step: int | Term) -> tuple[Any, int]:
    """Where the range begins that a loop from `lower` is the rest of, and how many trips earlier."""
    trips = 0
    if isinstance(step, Term):
        while isinstance(lower, Term) and lower.key[0] == AddIOp.NAME and step in lower.key[-2:]:
            left, right = lower.key[-2:]
            lower, trips = left if right is step else right, trips + 1
        return lower, trips
    while isinstance(lower, Term) and lower.key[0] == AddIOp.NAME:
        parts = [it for it in lower.key[-2:] if isinstance(it, Term)]
        numbers = [it for it in lower.key[-2:] if isinstance(it, int)]
        if len(parts) != 1 or len(numbers) != 1 or numbers[0] < 0 or numbers[0] % step:
            break
        lower, trips = parts[0], trips + numbers[0] // step
    if isinstance(lower, int) and lower > 0:
        lower, trips = lower % step, trips + lower // step
    return lower, trips


def _capped(term: Any) -> tuple[Any, int, Any] | None:
    """(low, E, high) where the term is ``select(low < high and high - low >u E, low + E, high)``."""
    if not isinstance(term, Term) or term.key[0] != SelectOp.NAME:
        return None
    condition, near, high = term.key[-3:]
    if not isinstance(condition, Term) or condition.key[0] != AndIOp.NAME:
        return None
    some, longer = (_compared(it) for it in condition.key[-2:])
    if some is None or longer is None or some[0] != _LESS or longer[0] != _ABOVE:
        return None
    _, low, upper = some
    _, length, most = longer
    if upper != high or not isinstance(most, int) or most <= 0 or not isinstance(length, Term):
        return None
    if length.key[0] != SubIOp.NAME or length.key[-2:] != (high, low):
        return None
    if isinstance(low, int):
        return (low, most, high) if near == low + most else None
    is_near = isinstance(near, Term) and near.key[0] == AddIOp.NAME and near.key[-2:] == (low, most)
    return (low, most, high) if is_near else None


def _compared(term: Any) -> tuple[int, Any, Any] | None:
    """Predicate, left and right of a comparison."""
    if not isinstance(term, Term) or term.key[0] != CmpIOp.NAME:
        return None
    properties = dict(zip(term.key[1:-2:2], term.key[2:-2:2], strict=True))
    return read_int(str(properties["predicate"])), *term.key[-2:]
