"""Whether the sums of rows that a loop carries are added up across threads after the loop."""

from __future__ import annotations

from tawa.analysis.loops.running_sums import RunningSum, running_sums
from tawa.ir import Module
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan


def choose_sums(module: Module, options: PlanOptions, plan: Plan) -> tuple[Plan, tuple[RunningSum, ...]]:
    """The order of the sums, and those that leave their loops: if the Plan says so, or the user allows another order.

    Where neither does, nothing is decided.
    """
    usual = "after_loops" if options.precision == "relaxed" else "in_order"
    if (plan.sums or usual) == "in_order":
        return Plan(), ()
    found = running_sums(module)
    return Plan(sums="after_loops" if found else "in_order"), found
