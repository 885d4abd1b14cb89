"""Whether the persistent form of a kernel beats the form with one tile per program.

Each program of the persistent form loads the next tile's operands while it stores this one. This takes additional
shared memory: slots for loads before a tile's loops, and staging buffers for its stores. The rings of the loops may
then have fewer slots.
"""

from __future__ import annotations

from dataclasses import replace

from tawa.machine.hopper import ENOUGH_SLOTS
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan

OFFERED = "launches of more programs than SMs get a persistent form of the kernel, compiled at the first of them"
NOT_OFFERED = "no persistent form for launches of more programs than SMs"


def options_of_persistent(options: PlanOptions) -> PlanOptions:
    """The options for a persistent form that the user did not request."""
    return replace(options, enable_warp_specialization=None, mode=None, only_if_faster=True, persistent=True)


def why_shallower(persistent: Plan, single: Plan) -> str:
    """Why the rings of a persistent form are too shallow to replace a form with one tile per program; empty if not.

    The persistent form has the rings of the other form, and may have more for loads before its loops, so its deepest
    rings are compared with those of the other form.
    """
    ours = sorted((ring.slots for ring in persistent.rings), reverse=True)
    theirs = sorted((ring.slots for ring in single.rings), reverse=True)
    for mine, other in zip(ours, theirs, strict=False):
        if mine < min(other, ENOUGH_SLOTS):
            return f"shared memory allows D = {mine} for a ring that has D = {other} with one tile per program"
    return ""


__all__ = ["NOT_OFFERED", "OFFERED", "options_of_persistent", "why_shallower"]
