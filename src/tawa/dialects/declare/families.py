"""Families of operations with the same operands. A family declares no operation itself."""

from __future__ import annotations

from tawa.dialects.declare.declaration import OpView
from tawa.dialects.declare.fields import operand, operands


class UnaryOp(OpView):
    """One operand, and no effects."""

    source = operand(0)


class BinaryOp(OpView):
    """Two operands, and no effects."""

    lhs, rhs = operand(0), operand(1)


class YieldingOp(OpView):
    """A terminator that passes its operands to the enclosing operation."""

    TERMINATOR = True
    values = operands(0)
