"""Plans: what a user may ask for (`options`), what was decided (`plan`), and who decides (`planner`)."""

from tawa.plan.options import PlanOptions
from tawa.plan.plan import PartitionPlan, Plan, RingPlan

__all__ = ["PartitionPlan", "Plan", "PlanOptions", "RingPlan"]
