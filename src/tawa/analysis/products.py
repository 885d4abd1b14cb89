"""Products that LLVM may round together with a sum: those that reach it through operations that round nothing."""

from __future__ import annotations

from tawa.dialects import tt
from tawa.dialects.arith import MulFOp, NegFOp, SelectOp
from tawa.dialects.declare.declaration import op_names
from tawa.ir import Operation, Value

UNROUNDED = op_names(SelectOp, NegFOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.ReshapeOp, tt.TransOp)
"""Operations that round nothing. LLVM may fold a selection."""


def products_of(value: Value) -> list[Operation]:
    """The products that a sum with this value may be rounded together with."""
    found, work = list[Operation](), [value]
    while work:
        op = work.pop().defining_op
        if op is not None and MulFOp.matches(op):
            found.append(op)
        elif op is not None and op.name in UNROUNDED:
            work += op.operands
    return found
