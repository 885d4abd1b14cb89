"""What consumer groups divide of a tile: its rows, or its columns."""

from __future__ import annotations

from tawa.analysis.dims.split_dims import Axis, SplitInfo, find_split, rows_suffice
from tawa.ir import Module
from tawa.plan.plan import Plan
from tawa.remarks import Remark


def choose_split(module: Module, groups: int, plan: Plan) -> tuple[Plan, SplitInfo] | Remark:
    """The axis that `groups` groups divide, with what follows from it: as asked, else rows if each gets enough of them.

    A remark says why nothing can be divided.
    """
    info = find_split(module, groups, axis_of(module, groups, plan))
    return info if isinstance(info, Remark) else (Plan(split=info.axis), info)


def axis_of(module: Module, groups: int, plan: Plan) -> Axis:
    """The axis that so many groups divide: as asked, else rows if each gets enough of them."""
    if plan.split is not None and plan.split != "programs":
        return plan.split
    return "rows" if rows_suffice(module, groups) else "columns"
