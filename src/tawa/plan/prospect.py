"""Prospect: what the planner knows of a kernel before layouts, to say which Plans are expected to beat stock Triton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from tawa.plan.cost.launches import Launch, usual_launches
from tawa.plan.cost.time_model import predict
from tawa.plan.cost.ways import StockFacts, Way, plan_way
from tawa.plan.enumeration import Form, RankedPlan, Space, enumerate_plans, forms_of, in_orders, way_of
from tawa.plan.expectation import Expectation, expect
from tawa.plan.plan import Plan

CLEAR = 1.03
"""The factor by which another number of groups must be predicted to be faster than the usual one."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """The prospect of one kernel.

    space: its forms; a persistent one only if launches may get it. launches: what is expected is said of the one that
    gains the most, because every launch gets the form that is best for it (`tawa.plan.forecast`).
    """

    space: Space
    launches: tuple[Launch, ...]

    @staticmethod
    def of(space: Space) -> Prospect:
        """The prospect for the usual launches."""
        return Prospect(space, usual_launches(space.workload))

    @property
    def stock(self) -> Way:
        """Stock Triton's kernel."""
        return self.space.stock

    def expected(self, plan: Plan, spilled: int = 0) -> Expectation | None:
        """The expectation of a Plan, with or without schedules; None if stock Triton's kernel does not fit.

        spilled: bytes of spill stores and loads of all its consumers together.
        """
        if not self.stock.fits:
            return None
        way, form = plan_way(plan, spilled), form_of(self.space, plan)
        chained = any(dot.chained for dot in self.space.workload.dots)
        undecided = all(it.schedule is None and it.stages is None for it in plan.loops if it.loop is not None)
        own = self._expect(replace(way, staged=way.staged or (chained and undecided)))
        return self._in_turn(form, own)

    def of_form(self, form: Form) -> Expectation:
        """The expectation of a form, before the planner's decisions."""
        return self._in_turn(form, self._expect(way_of(self.space, form)))

    def _in_turn(self, form: Form, own: Expectation) -> Expectation:
        """The expectation of the persistent form, if launches of many programs get that and it is faster."""
        if form.persistent:
            return own
        others = (it for it in in_orders(self.space, form) if it.persistent)
        return max((own, *(self._expect(way_of(self.space, it)) for it in others)), key=lambda it: it.gain)

    def forms(self, groups: Sequence[int] | None = None, persistent: bool = False) -> tuple[Form, ...]:
        """The forms of the kernel as it is written, or persistent, with one of these numbers of groups."""
        found = (it for it in forms_of(self.space) if groups is None or it.groups in groups)
        return tuple(replace(it, persistent=persistent) for it in found if not it.persistent)

    def groups(self, usual: int, persistent: bool = False) -> tuple[int, ...]:
        """The numbers of consumer groups to try: the usual one first, unless another is clearly faster."""
        times = {1: float("inf"), 2: float("inf")}
        for form in self.forms(persistent=persistent):
            way = way_of(self.space, form)
            every = geometric_mean(predict(self.space.workload, launch, way) for launch in self.launches)
            times[form.groups] = min(times[form.groups], every)
        other = 3 - usual
        first = other if times[other] * CLEAR < times[usual] else usual
        return (first,) if first == 1 else (first, 1)

    def ranked(self) -> tuple[RankedPlan, ...]:
        """Stock Triton's kernel and every Plan worth a try, in the order of their mean predicted times."""
        times: dict[Plan, list[float]] = {}
        words: dict[Plan, str] = {}
        for launch in self.launches:
            for it in enumerate_plans(self.space, launch):
                times.setdefault(it.plan, []).append(it.predicted_us or 0.0)
                words[it.plan] = it.words
        found = (RankedPlan(plan, geometric_mean(them), words[plan]) for plan, them in times.items())
        return tuple(sorted(found, key=lambda it: it.predicted_us or 0.0))

    def knowing(self, facts: StockFacts) -> Prospect:
        """The prospect once stock Triton's kernel is compiled."""
        return replace(self, space=replace(self.space, facts=facts))

    def _expect(self, way: Way) -> Expectation:
        found = (expect(self.space.workload, launch, way, self.stock) for launch in self.launches)
        return max(found, key=lambda it: it.gain)


def form_of(space: Space, plan: Plan) -> Form:
    """The form of a complete Plan."""
    by_pointers = any(load.operand and not load.tma for work in space.workload.blocks.values() for load in work.loads)
    raised = any(it.path in ("raised", "raised_in_kernel") for it in plan.operands)
    programs = plan.groups or 1 if plan.split == "programs" else 1
    groups = (plan.groups or 1) // programs
    dynamic, longest_first = plan.tiles == "dynamic", plan.tile_order == "longest_first"
    persistent, shares = plan.form == "persistent", plan.split_k or 1
    return Form(groups, persistent, raised if by_pointers else None, programs, dynamic, longest_first, shares)


__all__ = ["Prospect", "form_of"]
