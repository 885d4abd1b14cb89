"""The target that a program needs, found by its operations.

ttng.tmem_alloc, ttng.tc_gen5_mma, …             SM_100
ttng.warp_group_dot, ttng.warp_group_dot_wait    SM_90
everything else                                  any
"""

from __future__ import annotations

from tawa.dialects import op_class, op_names, tcgen05
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Module, Operation
from tawa.machine.machines import SM_90, SM_100, Machine

_WGMMA = op_names(WarpGroupDotOp, WarpGroupDotWaitOp)


def needed_target(module: Module) -> tuple[Machine, Operation] | None:
    """The target whose own operations a program has, and the first of them; None if any target will do."""
    for op in module.walk():
        declared = op_class(op.name)
        if declared is not None and declared.__module__ == tcgen05.__name__:
            return SM_100, op
        if op.name in _WGMMA:
            return SM_90, op
    return None
