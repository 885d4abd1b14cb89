"""Whether a kernel has a persistent form: whether its programs may run one after the other, in any order."""

from __future__ import annotations

from tawa.declines import PERSISTENT
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.effects import orders_programs
from tawa.dialects.tt import GetNumProgramsOp, GetProgramIdOp
from tawa.ir import Module, source_of
from tawa.ir.attributes import read_int
from tawa.remarks import Remark
from tawa.symbolic.words import word_of


def grid_axes(module: Module) -> int:
    """One more than the highest grid axis that the kernel reads; at least 1."""
    places = (op for op in module.walk() if op.name in (GetProgramIdOp.NAME, GetNumProgramsOp.NAME))
    return max((read_int(op.properties["axis"]) + 1 for op in places), default=1)


def why_not_persistent(module: Module) -> Remark | None:
    """Why the kernel must not be made persistent; None if it may be."""
    function = structured_kernel(module)
    if function is None:
        return PERSISTENT.remark(why="it has more than one function, or branches between blocks")
    for op in function.op.walk():
        if orders_programs(op):
            return PERSISTENT.remark(
                source_of(module, op), why=f"{word_of(op)} may give programs an order, which would change"
            )
    return None
