"""Which launches get the kernel: this one always, or the form that is predicted to be the fastest for each."""

from __future__ import annotations

from tawa.plan.fields import LaunchChoice, LaunchPlan
from tawa.plan.plan import Plan
from tawa.symbolic.host.launch_spec import LaunchSpec


def choose_launches(pins: Plan, made: Plan | None, *, ours: bool, planned: bool, forced: bool) -> LaunchChoice:
    """How launches are chosen for.

    pins: what the user pinned. made: the Plan of the specialised kernel; None if the kernel is stock Triton's. ours:
    whether Triton launches it. planned: whether the user gave a Plan. forced: whether the user wants the kernel
    specialised whether it pays or not.
    """
    choice = (pins.launches or LaunchPlan()).choice
    if not ours:
        return "always"
    if choice is None:
        choice = "always" if planned else "specialised" if forced else "predicted"
    unit_strides = made is not None and bool(made.unit_strides)
    return "specialised" if choice == "predicted" and unit_strides else choice


def needs_launch(plan: Plan) -> bool:
    """Whether a Plan needs a launch by Triton, whose launcher adds arguments or chooses between kernels."""
    launches = plan.launches or LaunchPlan()
    promoted = any(it.path == "promoted" for it in (*plan.operands, *plan.stores))
    return (
        promoted
        or any(it.rows == "for_next_dot" for it in plan.operands)
        or launches.choice in ("predicted", "specialised")
        or plan.form == "persistent"
        or bool(plan.unit_strides)
    )


def launch_plan(spec: LaunchSpec, choice: LaunchChoice) -> LaunchPlan:
    """A launch spec as an entry of the Plan, with how launches are chosen for."""
    return LaunchPlan(tuple(map(str, spec.conditions)), choice)
