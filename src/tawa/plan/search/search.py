"""The search: which forms of a kernel the user leaves open, in the order of predictions, and the choice by these.

    K = 512, 1024 programs     stock 124 us, as written 127 us, persistent 119 us      persistent
    K = 512, 64 programs       stock 12 us,  as written 14 us                          stock Triton

A compile serves launches of any size, so it cannot know the best form; each launch can. The margin is that of
`tawa.plan.search.prediction`: where the model cannot tell, the launch gets stock Triton's kernel. A form that is not
compiled yet must be clearly faster than what is there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tawa.errors import PlanError
from tawa.plan.cost.launches import Launch
from tawa.plan.cost.programs import Program
from tawa.plan.fields import LoopPlan, RingPlan
from tawa.plan.option_conflicts import STOCK, contradictions
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.search.candidate import Candidate, Effort, clearly_fastest
from tawa.plan.search.prediction import Expectation, expect, why_not_faster
from tawa.plan.search.space import Space, only_measured, variant_words, variants
from tawa.plan.thresholds import (
    CLEAR,
    CLEAR_COUNTER,
    CLEAR_GROUPS,
    CLEAR_SPLIT,
    CLOSE,
    HEAVY_SPILL_BYTES,
    HOPELESS,
    MOST_FORMS,
    MOST_MEASURED,
    MOST_TRIED,
)

_STOCK = "stock Triton"
NOT_COMPILED = f"it is not compiled: {MOST_FORMS} forms beside the first are"
"""Of a form that launches do not try, in words."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The choice for one launch.

    plan: what it gets; None for the kernel as it was compiled, ``form="stock"`` for stock Triton. words: the same for
    people. expectation: of the best specialised form. missed: if the launch gets stock Triton's kernel, the forms
    that are expected to be better as long as they are not compiled, and why it does not get one.
    """

    plan: Plan | None
    words: str
    expectation: Expectation
    missed: str = ""

    def __str__(self) -> str:
        return f"{self.words}: {self._times}"

    @property
    def why(self) -> str:
        """Why a launch gets this: the form and its times; only the times for stock Triton's kernel."""
        return self._times if self.words == _STOCK else str(self)

    @property
    def _times(self) -> str:
        told = why_not_faster(self.expectation) if self.words == _STOCK else ""
        return f"{told or self.expectation}{'; ' * bool(self.missed)}{self.missed}"


@dataclass(frozen=True, slots=True)
class Search:
    """The search for one kernel.

    space: its forms. forms: those that may be tried. own, program: of the kernel that is compiled already; None for
    stock Triton's. stock: whether launches may get stock Triton's kernel. pins, options: of the user.
    """

    space: Space
    forms: tuple[Plan, ...]
    own: Plan | None = None
    program: Program | None = None
    stock: bool = True
    pins: Plan = Plan()
    options: PlanOptions = PlanOptions()

    @staticmethod
    def of(space: Space, pins: Plan = Plan(), options: PlanOptions = PlanOptions()) -> Search:
        """The search of all forms that pins and options leave open."""
        forms = tuple(it for it in space.forms if _open(space, it, pins, options) is not None)
        return Search(space, forms, pins=pins, options=options)

    def beside(self, own: Plan | None, stock: bool = True) -> Search:
        """The search that launches of a compiled kernel continue. own: its form; None for stock Triton's.

        Loads through pointers take the way that they take in that one. Where no launch may get stock Triton's kernel,
        only the order of tiles is open.
        """
        by_tma: bool | None = self.options.pointer_loads != "cp.async"
        if own is not None and own.partitioned:
            by_tma = self.space.promotes(own)
        path = bool(by_tma) and self.space.promoted > 0
        forms = (it for it in self.forms if it != own and self.space.promotes(it) in (None, path))
        if not stock and own is not None:
            forms = (it for it in forms if it.own_groups == own.own_groups)
        return replace(self, forms=tuple(forms), own=own, stock=stock)

    # -- before anything is compiled -----------------------------------------------------------------------------------

    def why_hopeless(self, learns: bool) -> Expectation | None:
        """The best expectation, if none of the forms can pay. learns: whether launches try what the model is unsure of.

        None as well if stock Triton's kernel does not fit.
        """
        forms = (it for it in self.forms if it.keeps_order and it.partitioned and (learns or not only_measured(it)))
        expected = [self.space.of_form(it) for it in forms] if self.space.stock.fits else []
        if (learns and any(map(_may_pay, expected))) or any(it.verdict != "slower" for it in expected):
            return None
        return min(expected, key=lambda it: it.own_us, default=None)

    def groups(self, usual: int) -> int:
        """The number of consumer groups to try first: the usual one, unless another is clearly faster."""
        times: dict[int, float] = {}
        for it in self.forms:
            if it.keeps_order and not only_measured(it):
                time_us = self.space.mean_us(self.space.program(it))
                times[it.own_groups] = min(times.get(it.own_groups, time_us), time_us)
        return clearly_fastest(dict.fromkeys((usual, *times)), lambda it: times.get(it, float("inf")))

    # -- judged alone --------------------------------------------------------------------------------------------------

    def ranked(self) -> tuple[Candidate, ...]:
        """Stock Triton's kernel, and every form with every D, P and number of stages worth a try, fastest first."""
        found = [Candidate(STOCK, self.space.mean_us(self.space.stock), _STOCK)]
        for form in self.forms:
            for made in variants(self.space, form):
                found.append(Candidate(_plan(form, made), self.space.mean_us(made), self._words(form, made)))
        return tuple(sorted(found, key=lambda it: it.predicted_us or 0.0))

    def _words(self, form: Plan, made: Program) -> str:
        return f"{self.space.words(form)}{f', {variant_words(made)}' if form.partitioned else ''}"

    def measured(self, chosen: Plan | None) -> tuple[Candidate, ...]:
        """The candidates to measure, in the order in which they are tried.

        stock Triton                             unless the user demands a specialised kernel
        the Plan that automatic mode takes       complete: every decision of it is pinned; None: there is none
        the Plans with the best predictions      partial: the best of each form, then the second of each, …: forms
                                                 differ more than the depths of rings
        """
        stock, *others = sorted(self.ranked(), key=lambda it: it.plan != STOCK)
        found = [stock] if self.stock else []
        if chosen is not None:
            words = self._words(chosen, Program(chosen)) + " (automatic)"
            found.append(Candidate(replace(chosen, launches=None), None, words))
        plans: dict[Plan, Candidate] = {}
        for it in others:
            plan = _open(self.space, it.plan, self.pins, self.options)
            if plan is not None:
                plans.setdefault(plan, replace(it, plan=plan))
        return tuple(Effort(most=MOST_MEASURED).of([*found, *_forms_first(plans.values())]))

    # -- judged by prediction ------------------------------------------------------------------------------------------

    def choose(
        self, launch: Launch, made: Mapping[Plan, Program | str], at_hand: bool = False,
        declined: Mapping[Plan, Program] = MappingProxyType({}),
    ) -> Forecast:  # fmt: skip
        """What a launch gets.

        made: the forms that are compiled already; a text says why launches cannot have one. at_hand: choose among these
        only; so it is where enough are compiled. declined: forms that the compile tried, and declined for their spills.
        """
        known = {**declined, **made}
        spent = self.is_spent(made)
        only = made.keys() if at_hand or spent else None
        stock = self.space.stock
        own = self._expect(launch, self.program) if self.program is not None else None
        best, form = own, self.own
        for other in self._fitting(launch):
            if only_measured(other) or (only is not None and other not in only):
                continue
            program = known[other] if other in known else self.space.program(other)
            if isinstance(program, str):
                continue
            found = self._expect(launch, program)
            if best is None or found.gain > best.gain * _lead(form, other, other in known):
                best, form = found, other
        if best is None:  # nothing but stock Triton's kernel is left
            best = self._expect(launch, stock)
            return Forecast(None, _STOCK, best, self._missed(launch, known, best, spent))
        assert form is not None
        if self.stock and stock.fits and best.verdict != "faster":
            named = replace(best, form=self.space.words(form))
            return Forecast(
                None if self.own is None else STOCK, _STOCK, named, self._missed(launch, known, best, spent)
            )
        return Forecast(None if form == self.own else form, self.space.words(form), best)

    @staticmethod
    def is_spent(made: Mapping[Plan, Program | str]) -> bool:
        """Whether no further form is compiled. made: as for `choose`."""
        return Effort(most=MOST_FORMS).is_spent(len(made))

    def of_form(self, launch: Launch, form: Plan, made: Mapping[Plan, Program | str]) -> Forecast:
        """The forecast for a launch that gets this form, whatever others promise. made: as for `choose`."""
        program = self.program if form == self.own and self.program is not None else made.get(form)
        known = program if isinstance(program, Program) else self.space.program(form)
        return Forecast(None if form == self.own else form, self.space.words(form), self._expect(launch, known))

    def _missed(
        self, launch: Launch, made: Mapping[Plan, Program | str], best: Expectation, spent: bool
    ) -> str:  # fmt: skip
        """The forms that promise to be the fastest as long as they are not compiled, and why a launch gets none.

        spent: whether no further form is compiled.
        """
        forms = (it for it in self._fitting(launch) if it in made or (spent and not only_measured(it)))
        promised = {it: self._expect(launch, self.space.program(it)) for it in forms}
        better = [it for it, found in promised.items() if found.verdict == "faster" and found.own_us < best.own_us]
        better.sort(key=lambda it: promised[it].own_us)
        return "; ".join(
            f"{self.space.words(it)}: {self._why_not(launch, promised[it], made.get(it))}" for it in better
        )

    def _why_not(self, launch: Launch, promised: Expectation, made: Program | str | None) -> str:
        """Why a launch does not get a form that promises to be better. made: what its compile showed."""
        if not isinstance(made, Program):
            return f"{promised.own_text} us predicted, but {made or NOT_COMPILED}"
        after = self._expect(launch, made).own_text
        spills = spilled_text(made.facts.spilled) if made.facts.spilled else "its Plan is another than expected"
        return f"{promised.own_text} us predicted before it was compiled, {after} us after: {spills}"

    # -- judged in real launches ---------------------------------------------------------------------------------------

    def in_launches(self, launch: Launch) -> tuple[Plan, ...]:
        """The specialised forms that a launch may try, best prediction first, as far as they keep every sum's order.

        The form that is compiled already is the first among equals. Left out is what is hopeless, or clearly behind
        the best prediction. Forms that only measurements choose come last; those without partitions have their place.
        """
        found: list[tuple[Plan, Expectation]] = []
        if self.own is not None and self.program is not None:
            found.append((self.own, self._expect(launch, self.program)))
        for other in self._fitting(launch):
            if other.keeps_order:
                found.append((other, self._expect(launch, self.space.program(other))))
        best = min((it.own_us for form, it in found if not only_measured(form)), default=math.inf)
        near = [it for it in found if it[1].own_us <= CLOSE * best]
        if self.space.stock.fits:
            near = [it for it in near if _may_pay(it[1])]
        near.sort(
            key=lambda it: (
                only_measured(it[0]) and it[0].partitioned,
                it[1].own_us * (1.0 if it[0] == self.own else CLEAR),
            )
        )
        return tuple(it for it, _ in Effort(most=MOST_TRIED).of(near))

    def _fitting(self, launch: Launch) -> Iterator[Plan]:
        """The other forms that make a difference for a launch."""
        for other in self.forms:
            if other.form == "persistent" and launch.on_one <= 1:  # no program is followed by another
                continue
            if (other.split_k or 1) > 1 and launch.on_one > 1:  # no SM is idle
                continue
            yield other

    def _expect(self, launch: Launch, program: Program) -> Expectation:
        return expect(self.space.workload, launch, program, self.space.stock)


def _open(space: Space, plan: Plan, pins: Plan, options: PlanOptions) -> Plan | None:
    """A form, or one of its Plans, with the pins in it; None if pins or options contradict it."""
    try:
        found = pins.over(plan)
    except PlanError:
        return None
    by_tma = space.promotes(plan)
    contradicted = by_tma is not None and options.pointer_loads == ("cp.async" if by_tma else "tma")
    if contradicted or (options.ping_pong and plan.own_groups == 1) or contradictions(options, found):
        return None
    return found if found.over(plan) == plan.over(found) else None


def _lead(before: Plan | None, other: Plan, made: bool) -> float:
    """The factor by which a form must be predicted to be faster than the best one before it."""
    if before is None:
        return 1.0
    if (other.split_k or 1) > 1 and before.split_k is None:
        return CLEAR_SPLIT
    if before.groups != other.groups:
        return CLEAR_GROUPS
    if made:
        return 1.0
    only_counts = other.tiles == "dynamic" and other.tile_order is None and before.operands == other.operands
    return CLEAR_COUNTER if only_counts else CLEAR


def _may_pay(expectation: Expectation) -> bool:
    return expectation.gain * HOPELESS >= 1.0


def _plan(form: Plan, made: Program) -> Plan:
    if not form.partitioned:
        return form
    loop = LoopPlan(mma_depth=made.in_flight, stages=None if made.staged else 0)
    return replace(form, rings=(RingPlan(depth=made.slots),), loops=(loop,))


def _forms_first(plans: Iterable[Candidate]) -> list[Candidate]:
    before: Counter[tuple[object, ...]] = Counter()
    found: list[tuple[int, Candidate]] = []
    for it in plans:
        form = it.plan.form, it.plan.groups, it.plan.split, it.plan.operands
        found.append((before[form], it))
        before[form] += 1
    return [it for _, it in sorted(found, key=lambda pair: pair[0])]


def spilled_text(spilled: float) -> str:
    """What a kernel spills, for people."""
    return f"it spills {spilled:.0f} bytes of registers to local memory"


def spills_too_much(spilled: int, before: Sequence[float]) -> bool:
    """Whether launches are not given a compiled form. spilled: bytes. before: those of the kernels that there are."""
    return spilled > max(HEAVY_SPILL_BYTES, *before)
