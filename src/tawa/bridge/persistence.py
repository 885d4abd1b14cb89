"""Persistent forms of kernels that have one tile a program (`tawa.transforms.make_persistent`).

Which form is better depends on the grid, which only a launch knows. So the kernel is compiled as it is, and its launch
spec says what a persistent form would need; the launcher compiles that form when the first launch comes for which it is
expected to pay (`added_arguments.py`). A user who asks for ``persistent=True`` gets it at once, for every launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tawa.analysis.alike import programs_alike
from tawa.analysis.launch_values import LaunchSpec
from tawa.bridge.added_arguments import launch_is_ours
from tawa.bridge.generic_print import read_ttir
from tawa.ir import print_module
from tawa.plan import Plan
from tawa.plan.persistent import why_shallower
from tawa.remarks import Remark
from tawa.transforms.make_persistent import MakePersistent, grid_axes, why_not_persistent

OFFERED = "launches of more programs than SMs get a persistent form of the kernel, compiled at the first of them"
NOT_OFFERED = "no persistent form for launches of more programs than SMs"
_NOT_OURS = (
    "this compile is not for a launch of Triton's own: nobody would tell a persistent kernel the size of its grid"
)


def persistent_form(ttir: str, context: Any) -> tuple[str, int] | Remark:
    """The kernel with a loop over the tiles (generic form), and how many sizes of the grid it takes; or why not."""
    if not launch_is_ours():
        return Remark("declined", _NOT_OURS, cure="launch the kernel itself, or leave persistent=True out")
    module = read_ttir(ttir, context)
    result = MakePersistent().run(module)
    return (print_module(module), result.axes) if result.changed else result.remarks[0]


PlanOf = Callable[[str], Plan | Remark]
"""The Plan that a compile of a kernel, given as TTIR, would begin with, or why it would decline it."""


def offer(launch: LaunchSpec, plan: Plan, ttir: str, context: Any, plan_of: PlanOf) -> tuple[LaunchSpec, Remark | None]:
    """The launch spec of a kernel with one tile a program, with what its persistent form needs where one is offered.

    None is offered where programs may differ in their work, which the hardware deals out better than a loop; where
    several programs share an SM and hide what a persistent kernel would; and where the persistent form's own tiles
    leave its rings too few slots. Returns the spec, and the remark that says which it is: None where the kernel has no
    persistent form at all.
    """
    if plan.max_registers is not None or not launch_is_ours():
        return launch, None
    module = read_ttir(ttir, context)
    if why_not_persistent(module) is not None or not programs_alike(module):
        return launch, None
    axes = grid_axes(module)
    MakePersistent().run(module)
    form = plan_of(print_module(module))
    reason = form.reason if isinstance(form, Remark) else why_shallower(form, plan)
    if reason:
        return launch, Remark("done", f"{NOT_OFFERED}: {reason}")
    return replace(launch, offered=axes), Remark("done", OFFERED)


__all__ = ["OFFERED", "PlanOf", "offer", "persistent_form"]
