"""Prospect: what the planner knows of a kernel before layouts, to say which Plans are expected to beat stock Triton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from tawa.plan.cost.launches import Launch, usual_launches
from tawa.plan.cost.time_model import predict
from tawa.plan.cost.ways import Way, plan_way, stock_way
from tawa.plan.enumeration import Form, RankedPlan, Space, enumerate_plans, forms_of, way_of, workload_of
from tawa.plan.expectation import Expectation, expect
from tawa.plan.plan import Plan

CLEAR = 1.03
"""The factor by which another number of groups must be predicted to be faster than the usual one."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """The prospect of one kernel.

    space: its forms; a persistent one only if launches of many programs may get it. written, raised: the usual launches
    of each workload; what is expected is the mean over them.
    """

    space: Space
    written: tuple[Launch, ...]
    raised: tuple[Launch, ...]

    @staticmethod
    def of(space: Space) -> Prospect:
        """The prospect for the usual launches."""
        raised = usual_launches(space.raised) if space.raised is not None else ()
        return Prospect(space, usual_launches(space.written), raised)

    @property
    def stock(self) -> Way:
        """Stock Triton's kernel."""
        return stock_way(self.space.written, self.space.num_warps, self.space.num_stages)

    def expected(self, plan: Plan) -> Expectation | None:
        """The expectation of a Plan, with or without schedules; None if stock Triton's kernel does not fit."""
        if not self.stock.fits:
            return None
        way = plan_way(plan)
        raised = any(it.path in ("raised", "raised_in_kernel") for it in plan.operands)
        form = Form(way.groups, way.persistent, raised or None if way.by_tma else False)
        chained = any(dot.chained for dot in workload_of(self.space, form).dots)
        undecided = all(it.schedule is None and it.stages is None for it in plan.loops if it.loop is not None)
        own = self._expect(form, replace(way, staged=way.staged or (chained and undecided)))
        return self._in_turn(form, own)

    def of_form(self, form: Form) -> Expectation:
        """The expectation of a form, before the planner's decisions."""
        return self._in_turn(form, self._expect(form, way_of(self.space, form)))

    def _in_turn(self, form: Form, own: Expectation) -> Expectation:
        """The expectation of the persistent form, if launches of many programs get that and it is faster."""
        if form.persistent or not self.space.persistent:
            return own
        other = replace(form, persistent=True)
        return min(own, self._expect(other, way_of(self.space, other)), key=lambda it: it.own_us)

    def forms(self, groups: Sequence[int] | None = None, persistent: bool = False) -> tuple[Form, ...]:
        """The forms of the kernel as it is written, or persistent, with one of these numbers of groups."""
        found = (it for it in forms_of(self.space) if groups is None or it.groups in groups)
        return tuple(replace(it, persistent=persistent) for it in found if not it.persistent)

    def groups(self, usual: int, persistent: bool = False) -> tuple[int, ...]:
        """The numbers of consumer groups to try: the usual one first, unless another is clearly faster."""
        times = {1: float("inf"), 2: float("inf")}
        for form in self.forms(persistent=persistent):
            times[form.groups] = min(times[form.groups], self.of_form(form).own_us)
        other = 3 - usual
        first = other if times[other] * CLEAR < times[usual] else usual
        return (first,) if first == 1 else (first, 1)

    def ranked(self) -> tuple[RankedPlan, ...]:
        """Stock Triton's kernel and every Plan worth a try, in the order of their mean predicted times."""
        times: dict[Plan, list[float]] = {}
        words: dict[Plan, str] = {}
        for launch, raised in zip(self.written, self.raised or self.written, strict=True):
            for it in enumerate_plans(self.space, launch, raised):
                times.setdefault(it.plan, []).append(it.predicted_us or 0.0)
                words[it.plan] = it.words
        found = (RankedPlan(plan, geometric_mean(them), words[plan]) for plan, them in times.items())
        return tuple(sorted(found, key=lambda it: it.predicted_us or 0.0))

    def _expect(self, form: Form, way: Way) -> Expectation:
        workload = workload_of(self.space, form)
        launches = self.raised if workload is self.space.raised else self.written
        found = [expect(workload, launch, way, self.stock) for launch in launches]
        stock = [predict(self.space.written, it.visits, it.programs, self.stock, it.processors) for it in self.written]
        return replace(found[-1], stock_us=geometric_mean(stock), own_us=geometric_mean(it.own_us for it in found))


__all__ = ["Prospect"]
