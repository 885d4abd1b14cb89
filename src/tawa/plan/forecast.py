"""Forecast: which form of a kernel one launch gets, by predicted times.

    K = 512, 1024 programs     stock 124 us, as written 127 us, persistent 119 us      persistent
    K = 512, 64 programs       stock 12 us,  as written 14 us                          stock Triton

A compile serves launches of any size, so it cannot know the best form; each launch can. The margin is that of
`tawa.plan.cost.prediction`: where the model cannot tell, the launch gets stock Triton's kernel. A form that is not
compiled yet must be clearly faster than what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tawa.plan.cost.launches import Launch
from tawa.plan.cost.prediction import Expectation, expect, why_not_faster
from tawa.plan.cost.programs import Program
from tawa.plan.option_conflicts import STOCK
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.space import Space, forms_of, split_forms
from tawa.plan.thresholds import CLEAR, CLEAR_COUNTER, CLEAR_GROUPS, CLEAR_SPLIT, CLOSE, HOPELESS

_STOCK = "stock Triton"


@dataclass(frozen=True, slots=True)
class Forecast:
    """The choice for one launch.

    plan: what it gets; None for the kernel as it was compiled, ``form="stock"`` for stock Triton's. words: the same for
    people. expectation: of the best specialised form.
    """

    plan: Plan | None
    words: str
    expectation: Expectation

    def __str__(self) -> str:
        told = why_not_faster(self.expectation) if self.words == _STOCK else ""
        return f"{self.words}: {told or self.expectation}"


@dataclass(frozen=True, slots=True)
class Forecaster:
    """What is needed to choose for launches of one kernel.

    space: its forms. own: of the kernel as it was compiled; None for stock Triton's. program: that kernel.
    forms: the others that launches may get. stock: whether they may get stock Triton's kernel.
    """

    space: Space
    own: Plan | None
    program: Program | None
    forms: tuple[Plan, ...]
    stock: bool = True

    def choose(
        self, launch: Launch, made: Mapping[Plan, Program | None], only: Collection[Plan] | None = None
    ) -> Forecast:
        """The forecast for a launch.

        made: the forms that are compiled already; None for one that failed. only: the forms that may
        be chosen; any, if None.
        """
        stock = self.space.stock
        own = self._expect(launch, self.program, stock) if self.program is not None else None
        best, form = own, self.own
        for other in self._fitting(launch):
            if only is not None and other not in only:
                continue
            program = made[other] if other in made else self.space.program(other)
            if program is None:
                continue
            found = self._expect(launch, program, stock)
            if best is None or found.gain > best.gain * self._lead(form, other, other in made):
                best, form = found, other
        if best is None:  # nothing but stock Triton's kernel is left
            return Forecast(None, _STOCK, expect(self.space.workload, launch, stock, stock))
        if self.stock and stock.fits and best.verdict != "faster":
            return Forecast(None if self.own is None else STOCK, _STOCK, best)
        assert form is not None
        return Forecast(None if form == self.own else form, self.space.words(form), best)

    def ranked(self, launch: Launch) -> tuple[tuple[Plan, Expectation], ...]:
        """The specialised forms that a launch may try, best prediction first, as far as they keep every sum's order.

        The form that is compiled already is the first among equals. Left out is what is hopeless, or clearly behind
        the best prediction.
        """
        found: list[tuple[Plan, Expectation]] = []
        stock = self.space.stock
        if self.own is not None and self.program is not None:
            found.append((self.own, self._expect(launch, self.program, stock)))
        for other in self._fitting(launch):
            if other.keeps_order:
                found.append((other, self._expect(launch, self.space.program(other), stock)))
        best = min((it.own_us for _, it in found), default=0.0)
        near = [it for it in found if it[1].own_us <= CLOSE * best]
        if stock.fits:
            near = [it for it in near if it[1].gain * HOPELESS >= 1.0]
        return tuple(sorted(near, key=lambda it: it[1].own_us * (1.0 if it[0] == self.own else CLEAR)))

    def _fitting(self, launch: Launch) -> Iterator[Plan]:
        """The other forms that make a difference for a launch."""
        for other in self.forms:
            if other.form == "persistent" and launch.on_one <= 1:  # no program is followed by another
                continue
            if (other.split_k or 1) > 1 and launch.on_one > 1:  # no SM is idle
                continue
            yield other

    def _lead(self, before: Plan | None, other: Plan, made: bool) -> float:
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

    def _expect(self, launch: Launch, program: Program, stock: Program) -> Expectation:
        return expect(self.space.workload, launch, program, stock)


def other_forms(space: Space, own: Plan | None, options: PlanOptions) -> tuple[Plan, ...]:
    """The forms that launches may get in place of the one that was compiled, as far as the options leave them open.

    Loads through pointers take the way that they take in that one.
    """
    found: list[Plan] = []
    for form in (*forms_of(space), *split_forms(space)):
        groups = options.num_consumer_groups in (None, form.groups)
        persistent = options.persistent in (None, form.form == "persistent")
        by_tma = options.pointer_loads != "cp.async" if own is None else space.raises(own)
        path = space.raises(form) in (None, bool(by_tma) and space.raised > 0)
        paired = form.own_groups > 1 or not options.ping_pong
        if form != own and groups and persistent and path and paired:
            found.append(form)
    return tuple(found)


__all__ = ["Forecast", "Forecaster", "other_forms"]
