"""Instead: what a launch gets that violates a condition which only one decision of Tawa needs.

    c is stored by TMA          N % 8 == 0          N = 4092   →   the kernel with stores="pointers"
    rows for the next dot       rows % 2 == 0       rows = 151 →   the kernel with rows="in_order"

Such a condition names the decision (`Condition.only_for`). The launcher compiles the kernel without the decision when
the first launch needs it. If the user's Plan pins the decision, the launch gets the stock kernel, as it does if it
violates another condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawa.plan.fields import OperandPlan, StorePlan
from tawa.plan.plan import Plan
from tawa.symbolic.host.expr import Choice
from tawa.symbolic.host.launch_spec import LaunchSpec

IN_ORDER = Plan(operands=(OperandPlan(rows="in_order"),))
"""Asks for rows in the order of memory."""
STORED_BY_POINTERS = Plan(stores=(StorePlan(path="pointers"),))
"""Asks for no store by TMA that the kernel makes through pointers."""
_WITHOUT: Mapping[Choice, Plan] = {"rows": IN_ORDER, "stores": STORED_BY_POINTERS}


def plans_without(spec: LaunchSpec, pins: Plan) -> dict[Choice, Plan]:
    """The Plans without a decision that brings conditions, for each such decision that the user leaves open.

    pins: the user's Plan.
    """
    pinned = {
        "rows": any(it.rows == "for_next_dot" for it in pins.operands),
        "stores": any(it.path == "promoted" for it in pins.stores),
    }
    needed = {it.only_for for it in spec.conditions}
    return {it: plan.over(pins) for it, plan in _WITHOUT.items() if it in needed and not pinned[it]}


def plan_instead(spec: LaunchSpec, without: Mapping[Choice, Plan], arguments: Sequence[int]) -> Plan | None:
    """The Plan of the kernel for a launch that violates conditions; None if it violates none, or other ones.

    without: as `plans_without` returns it. arguments: of the kernel's function, pointers as addresses.
    """
    broken = {it.only_for for it in spec.all_broken(arguments)}
    if not broken or not broken <= without.keys():
        return None
    found = Plan()
    for choice, plan in without.items():
        found = found.over(plan) if choice in broken else found
    return found
