"""`arith`: arithmetic on scalars and tiles. All operations are pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import ClassVar

from tawa.dialects.declare.declaration import OpView, op_names
from tawa.dialects.declare.families import BinaryOp, UnaryOp
from tawa.dialects.declare.fields import attribute, operand
from tawa.dialects.tt import BroadcastOp, SplatOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, Value
from tawa.ir.attributes import int_attr, read_int


class ArithmeticOp(BinaryOp):
    """Two operands and a result of one type."""

    PROPERTIES: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def create(cls, builder: Builder, lhs: Value, rhs: Value, hint: str = "") -> Value:
        """Makes one at the builder's point."""
        properties = dict(cls.PROPERTIES)
        return builder.create(cls.NAME, (lhs, rhs), (lhs.type,), properties=properties, hints=(hint,)).result


class WrappingOp(ArithmeticOp):
    """Integer arithmetic whose result wraps around."""

    PROPERTIES: ClassVar[Mapping[str, str]] = {"overflowFlags": "#arith.overflow<none>"}


# fmt: off
class BitcastOp(UnaryOp): NAME = "arith.bitcast"
class ExtFOp(UnaryOp): NAME = "arith.extf"
class ExtSIOp(UnaryOp): NAME = "arith.extsi"
class ExtUIOp(UnaryOp): NAME = "arith.extui"
class FPToSIOp(UnaryOp): NAME = "arith.fptosi"
class FPToUIOp(UnaryOp): NAME = "arith.fptoui"
class IndexCastOp(UnaryOp): NAME = "arith.index_cast"
class IndexCastUIOp(UnaryOp): NAME = "arith.index_castui"
class NegFOp(UnaryOp): NAME = "arith.negf"
class SIToFPOp(UnaryOp): NAME = "arith.sitofp"
class TruncFOp(UnaryOp): NAME = "arith.truncf"
class TruncIOp(UnaryOp): NAME = "arith.trunci"
class UIToFPOp(UnaryOp): NAME = "arith.uitofp"

class AddFOp(ArithmeticOp): NAME = "arith.addf"
class AddIOp(WrappingOp): NAME = "arith.addi"
class AndIOp(ArithmeticOp): NAME = "arith.andi"
class CeilDivSIOp(ArithmeticOp): NAME = "arith.ceildivsi"
class CeilDivUIOp(ArithmeticOp): NAME = "arith.ceildivui"
class DivFOp(ArithmeticOp): NAME = "arith.divf"
class DivSIOp(ArithmeticOp): NAME = "arith.divsi"
class DivUIOp(ArithmeticOp): NAME = "arith.divui"
class FloorDivSIOp(ArithmeticOp): NAME = "arith.floordivsi"
class MaximumFOp(ArithmeticOp): NAME = "arith.maximumf"
class MaxNumFOp(ArithmeticOp): NAME = "arith.maxnumf"
class MaxSIOp(ArithmeticOp): NAME = "arith.maxsi"
class MaxUIOp(ArithmeticOp): NAME = "arith.maxui"
class MinimumFOp(ArithmeticOp): NAME = "arith.minimumf"
class MinNumFOp(ArithmeticOp): NAME = "arith.minnumf"
class MinSIOp(ArithmeticOp): NAME = "arith.minsi"
class MinUIOp(ArithmeticOp): NAME = "arith.minui"
class MulFOp(ArithmeticOp): NAME = "arith.mulf"
class MulIOp(WrappingOp): NAME = "arith.muli"
class MulSIExtendedOp(BinaryOp): NAME = "arith.mulsi_extended"
class MulUIExtendedOp(BinaryOp): NAME = "arith.mului_extended"
class AddUIExtendedOp(BinaryOp): NAME = "arith.addui_extended"
class OrIOp(ArithmeticOp): NAME = "arith.ori"
class RemFOp(ArithmeticOp): NAME = "arith.remf"
class RemSIOp(ArithmeticOp): NAME = "arith.remsi"
class RemUIOp(ArithmeticOp): NAME = "arith.remui"
class ShLIOp(ArithmeticOp): NAME = "arith.shli"
class ShRSIOp(ArithmeticOp): NAME = "arith.shrsi"
class ShRUIOp(ArithmeticOp): NAME = "arith.shrui"
class SubFOp(ArithmeticOp): NAME = "arith.subf"
class SubIOp(WrappingOp): NAME = "arith.subi"
class XOrIOp(ArithmeticOp): NAME = "arith.xori"
# fmt: on


class Predicate(IntEnum):
    """How ``arith.cmpi`` compares: for equality, with a sign, or without one."""

    EQ, NE, SLT, SLE, SGT, SGE, ULT, ULE, UGT, UGE = range(10)

    @property
    def is_unsigned(self) -> bool:
        """Whether it compares numbers without a sign."""
        return self > Predicate.SGE

    @property
    def mirrored(self) -> Predicate:
        """The predicate that holds for the operands in the other order."""
        return Predicate((0, 1, 4, 5, 2, 3, 8, 9, 6, 7)[self])

    @property
    def negated(self) -> Predicate:
        """The predicate that holds where this one does not."""
        return Predicate((1, 0, 5, 4, 3, 2, 9, 8, 7, 6)[self])

    @property
    def compare(self) -> Callable[[int, int], bool]:
        """Compares two numbers, which have a sign or not as the predicate wants."""
        return (operator.eq, operator.ne, *_ORDERS, *_ORDERS)[self]

    def holds(self, left: int, right: int) -> int | None:
        """The result for two numbers, 0 or 1; None without a sign if one is negative: that depends on their width."""
        return None if self.is_unsigned and min(left, right) < 0 else int(self.compare(left, right))


_ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)


def read_predicate(text: str) -> Predicate:
    """The predicate of an attribute: ``2 : i64``."""
    return Predicate(read_int(text))


class CmpIOp(BinaryOp):
    """``arith.cmpi``: a comparison of integers. Result: an i1, or a tile of them."""

    NAME = "arith.cmpi"
    predicate = attribute("predicate", read_predicate)

    @staticmethod
    def create(builder: Builder, predicate: Predicate, lhs: Value, rhs: Value, hint: str = "") -> Value:
        """Makes a comparison of two scalars at the builder's point."""
        properties = {"predicate": int_attr(predicate, "i64")}
        return builder.create(CmpIOp.NAME, (lhs, rhs), ("i1",), properties=properties, hints=(hint,)).result


class CmpFOp(BinaryOp):
    """``arith.cmpf``: a comparison of floats. Result: an i1, or a tile of them."""

    NAME = "arith.cmpf"
    predicate = attribute("predicate", read_int)


class SelectOp(OpView):
    """``arith.select``: one of two values, by an i1 or a tile of them."""

    NAME = "arith.select"
    condition, true_value, false_value = operand(0), operand(1), operand(2)

    @staticmethod
    def create(builder: Builder, condition: Value, true_value: Value, false_value: Value, hint: str = "") -> Value:
        """Makes one at the builder's point."""
        operands = (condition, true_value, false_value)
        return builder.create(SelectOp.NAME, operands, (true_value.type,), hints=(hint,)).result


class ConstantOp(OpView):
    """``arith.constant``: a number or a dense tile. Pure. Every partition has its own copy."""

    NAME = "arith.constant"
    text = attribute("value", str)  # the value as MLIR spells it


def constant_int(value: Value) -> int | None:
    """The integer value of a constant; None if `value` is not one."""
    view = ConstantOp.of(value.defining_op)
    if view is None:
        return None
    try:
        return read_int(view.text)
    except ValueError:
        return None


_ZERO = re.compile(r"(?:dense<)?(?:0|0x0+|0\.0+(?:e\+00)?|false)>?(?:\s*:.*)?", re.DOTALL | re.IGNORECASE)
_KEEPS_ZERO = op_names(SplatOp, BroadcastOp, ConvertLayoutOp, ExtFOp, SIToFPOp, TruncFOp)


def is_zero(value: Value) -> bool:
    """Whether `value` is a number or a tile whose bits are provably all 0."""
    op = value.defining_op
    while op is not None and op.name in _KEEPS_ZERO:
        op = op.operands[0].defining_op
    view = ConstantOp.of(op)
    return view is not None and _ZERO.fullmatch(view.text.strip()) is not None
