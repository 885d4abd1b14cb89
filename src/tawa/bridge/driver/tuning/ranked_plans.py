"""Ranked Plans: the Plans of one kernel that are worth a measurement, the most promising first.

    stock Triton                                         unless the user demands a specialised kernel
    the Plan that automatic mode takes                   complete: every decision of it is pinned
    the Plans with the least predicted times             partial: the planner decides the rest

The times are those of the model (`tawa.plan.cost.time_model`) for the usual launches: arguments are not known yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launch_is_ours, may_be_one
from tawa.bridge.triton.versions import nested_descriptors
from tawa.flow import Flow, run
from tawa.ir import Module, copy_module
from tawa.pipeline import PATHS
from tawa.plan import Plan
from tawa.plan.cost.programs import Program
from tawa.plan.decide.paths import Launching
from tawa.plan.options import PlanOptions
from tawa.plan.space import RankedPlan, Space, allowed, variant_words
from tawa.plan.thresholds import MOST_MEASURED


def ranked_plans(
    kernel: Module, num_warps: int, num_stages: int, request: Request, chosen: Plan | None,
    max_registers: int | None = None,
) -> tuple[RankedPlan, ...]:  # fmt: skip
    """The Plans to measure, in the order in which they are tried; `MOST_MEASURED` at most.

    kernel: TTIR. num_warps, num_stages, max_registers (``maxnreg``): of the launch. request: what the user pinned
    stands in every Plan. chosen: the Plan of automatic mode, complete; None if it leaves the kernel to stock Triton.
    """
    space = space_of(kernel, num_warps, num_stages, max_registers)
    if space is None:
        return ()
    stock, *others = sorted(space.ranked(), key=lambda it: it.plan.form != "stock")
    found = [] if request.pinned else [stock]
    if chosen is not None:
        words = f"{space.words(chosen)}, {variant_words(Program(chosen))} (automatic)"
        found.append(RankedPlan(replace(chosen, launches=None), None, words))
    rest = allowed(tuple(others), request.plan or Plan(), replace(request.options, mode=None, only_if_faster=None))
    return (*found, *_forms_first(rest))[:MOST_MEASURED]


def _forms_first(plans: Sequence[RankedPlan]) -> list[RankedPlan]:
    """The best Plan of each form, then the second of each, and so on: forms differ more than the depths of rings."""
    before: Counter[tuple[object, ...]] = Counter()
    places: list[int] = []
    for it in plans:
        form = it.plan.form, it.plan.groups, it.plan.split, it.plan.operands
        places.append(before[form])
        before[form] += 1
    return [it for _, it in sorted(zip(places, plans, strict=True), key=lambda pair: pair[0])]


def space_of(kernel: Module, num_warps: int, num_stages: int, max_registers: int | None = None) -> Space | None:
    """The space of a kernel with all its forms; None if its control flow is not structured."""
    launching, options = (
        Launching(launch_is_ours(), may_be_one(), nested_descriptors()),
        PlanOptions(only_if_faster=False),
    )
    flow = Flow(copy_module(kernel), options=options, launching=launching)
    run(flow, PATHS[:1])
    structured = copy_module(flow.module)
    raised = flow.raised if run(flow, PATHS[1:]) is None else 0
    return Space.of(structured, raised, (num_warps, num_stages, max_registers), options, launching.ours, measured=True)


__all__ = ["RankedPlan", "ranked_plans", "space_of"]
