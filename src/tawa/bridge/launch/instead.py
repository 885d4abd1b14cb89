"""Instead: what a launch gets that violates a condition which only one decision of Tawa needs.

    c is stored by TMA          N % 8 == 0          N = 4092   →   the kernel with stores="pointers"
    rows for the next dot       rows % 2 == 0       rows = 151 →   the kernel with rows="in_order"

Such a condition names the decision (`Condition.only_for`). The launcher compiles the kernel without the decision when
the first launch needs it. If the user's Plan pins the decision, the launch gets the stock kernel, as it does if it
violates another condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawa.plan.entries import OperandPlan, StorePlan
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
    asked = {"rows": {it.rows for it in pins.operands}, "stores": {it.path for it in pins.stores}}
    pinned = [choice for choice, words in (("rows", "for_next_dot"), ("stores", "raised")) if words in asked[choice]]
    found = dict.fromkeys(it.only_for for it in spec.conditions)
    return {it: _WITHOUT[it].over(pins) for it in found if it is not None and it not in pinned}


def plan_instead(spec: LaunchSpec, without: Mapping[Choice, Plan], arguments: Sequence[int]) -> Plan | None:
    """The Plan of the kernel for a launch that violates conditions; None if it violates none, or other ones.

    without: as `plans_without` returns it. arguments: of the kernel's function, pointers as addresses.
    """
    found = Plan()
    for choice in dict.fromkeys(it.only_for for it in spec.all_broken(arguments)):
        if choice not in without:
            return None
        found = found.over(without[choice])
    return None if found == Plan() else found


__all__ = ["IN_ORDER", "STORED_BY_POINTERS", "plan_instead", "plans_without"]
