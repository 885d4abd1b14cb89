"""When the persistent form of a kernel is worth more than the kernel with one tile a program.

Each program of the persistent form loads the next tile's operands while it stores this one. For that it keeps tiles in
shared memory that the other form does not have: slots for what is loaded in front of a tile's loops, and staging
buffers for its stores. They may leave the rings of the loops fewer slots.
"""

from __future__ import annotations

from dataclasses import replace

from tawa.machine.hopper import ENOUGH_SLOTS
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan

OFFERED = "launches of more programs than SMs get a persistent form of the kernel, compiled at the first of them"
NOT_OFFERED = "no persistent form for launches of more programs than SMs"


def options_of_persistent(options: PlanOptions) -> PlanOptions:
    """The options under which the persistent form of a kernel is planned and compiled without the user's request."""
    return replace(options, enable_warp_specialization=None, mode=None, only_if_faster=True, persistent=True)


def why_shallower(persistent: Plan, single: Plan) -> str:
    """Why the rings of a persistent form are too shallow to replace a form with one tile a program; empty if not.

    The persistent form has the rings of the other one, and maybe more, for tiles in front of its loops: its deepest
    rings are compared with those of the other form.
    """
    ours = sorted((ring.slots for ring in persistent.rings), reverse=True)
    theirs = sorted((ring.slots for ring in single.rings), reverse=True)
    for mine, other in zip(ours, theirs, strict=False):
        if mine < min(other, ENOUGH_SLOTS):
            return f"its tiles leave a ring D = {mine}, where the form with one tile a program has D = {other}"
    return ""


__all__ = ["NOT_OFFERED", "OFFERED", "options_of_persistent", "why_shallower"]
