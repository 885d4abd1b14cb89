"""Whether fp32 results that are stored through pointers leave from the layout of the dot."""

from __future__ import annotations

from tawa.analysis.layout.direct_stores import DirectStore, find_direct_stores
from tawa.ir import Module
from tawa.plan.plan import Plan


def choose_direct(module: Module, groups: int, plan: Plan) -> tuple[Plan, tuple[DirectStore, ...]]:
    """The decision, and the stores: all whose conversion would take memory beside the rings, unless the Plan says no.

    groups: consumer groups. Where there are none, nothing is decided.
    """
    found = find_direct_stores(module, groups)
    if not found or plan.direct_stores is False:
        return Plan(), ()
    return Plan(direct_stores=True), found
