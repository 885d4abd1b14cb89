"""Plans: what a user may ask for (`options`), what was decided (`plan`), and who decides (`planner`)."""

from tawa.plan.fields import LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, RingPlan, StorePlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan

__all__ = [
    "LaunchPlan", "LoopPlan", "OperandPlan", "PartitionPlan", "Plan", "PlanOptions", "RingPlan", "StorePlan",
]  # fmt: skip
