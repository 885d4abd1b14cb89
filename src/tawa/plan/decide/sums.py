"""Whether the sums of rows that a loop carries are added up across threads after the loop."""

from __future__ import annotations

from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan


def sums_late(plan: Plan, options: PlanOptions) -> bool:
    """Whether sums may leave the loop: the Plan says so, or the user allows another order of sums."""
    return (plan.sums or ("after_loops" if options.precision == "relaxed" else "in_order")) == "after_loops"


__all__ = ["sums_late"]
