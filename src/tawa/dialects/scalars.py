"""Evaluation of scalar integer operations: `arith` on i1, i8 … i64 and index, in two's complement.

    evaluate(%c = "arith.cmpi"(%a, %b) <{predicate = 2 : i64}>, (3, 5))   →  (1,)

An i1 is 0 or 1; a value of any other type is a signed number, wrapped to its width; an index has 64 bits. None is an
unknown value; the result of undefined behaviour (a division by zero, a shift past the width) is unknown too.

Source: MLIR, "'arith' Dialect".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence

from tawa.dialects import arith
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.dialects.inline.markers import SameNumberOp
from tawa.ir import Operation
from tawa.ir.attributes import read_int

Scalar = Callable[..., int | None]
"""A function from known operands to the result of an operation."""

_INTEGER = re.compile(r"i([1-9]\d*)")


def width_of(type: str) -> int | None:
    """Bits of an integer type (i1, i32, index …); None for any other type."""
    if type == "i32":
        return 32
    if type == "index":
        return 64
    found = _INTEGER.fullmatch(type)
    return int(found.group(1)) if found else None


def wrap(number: int, width: int) -> int:
    """`number` wrapped to `width` bits: 0 or 1 for an i1, signed for any other width."""
    if width == 1:
        return number & 1
    half = 1 << (width - 1)
    return ((number + half) & ((1 << width) - 1)) - half


def unsigned(number: int, width: int) -> int:
    """The same bits as an unsigned number."""
    return number & ((1 << width) - 1)


def signed(number: int, width: int) -> int:
    """The same bits as a signed number: the i1 value 1 is −1; any other number is signed already."""
    return -number if width == 1 else number


def evaluate(op: Operation, inputs: Sequence[int | None]) -> tuple[int | None, ...]:
    """The results of `op` for these operands; None for each that is unknown or not an integer.

    A result can be known although an operand is unknown: a select with a known condition, a product with 0.
    """
    if len(op.results) != 1:
        return (None,) * len(op.results)
    if arith.SelectOp.matches(op):
        condition, yes, no = inputs
        if condition is not None:
            return (yes if condition else no,)
        return (yes if yes == no else None,)
    if None in inputs:
        absorbing = (
            0 in inputs
            and (arith.MulIOp.matches(op) or arith.AndIOp.matches(op))
            and width_of(op.result.type) is not None
        )
        return (0 if absorbing else None,)
    scalar = scalar_of(op)
    return (scalar(*inputs) if scalar else None,)


def scalar_of(op: Operation) -> Scalar | None:
    """A function from known operands to the result; None where `op` is not scalar integer arithmetic."""
    if len(op.results) != 1:
        return None
    if not op.name.startswith("arith."):
        return _same if SameNumberOp.matches(op) else None
    width = width_of(op.results[0].type)
    if width is None:
        return None
    if op.name == arith.ConstantOp.NAME:
        return _constant(op, width)
    if op.name == arith.CmpIOp.NAME:
        return _comparison(op)
    if op.name == arith.SelectOp.NAME:
        return _select if op.operands[0].type == "i1" else None
    taken = width_of(op.operands[0].type) if op.operands else None
    if taken is None:
        return None
    if op.name in _CASTS:
        return _CASTS[op.name](taken, width)
    arithmetic = _ARITHMETIC.get(op.name)
    if arithmetic is None:
        return None
    read = unsigned if op.name in _UNSIGNED else signed
    if op.name in _SHIFTS:
        return _shift(arithmetic, read, width)
    half, mask = 1 << (width - 1), (1 << width) - 1

    def compute(left: int, right: int) -> int | None:
        number = arithmetic(read(left, width), read(right, width))
        return None if number is None else wrap(number, width)

    def compute_signed(left: int, right: int) -> int | None:
        number = arithmetic(left, right)
        return None if number is None else ((number + half) & mask) - half

    return compute if width == 1 or op.name in _UNSIGNED else compute_signed


def _constant(op: Operation, width: int) -> Scalar | None:
    try:
        number = wrap(read_int(op.properties["value"]), width)
    except (KeyError, ValueError):
        return None
    return lambda: number


def _comparison(op: Operation) -> Scalar | None:
    width = width_of(op.operands[0].type)
    if width is None:
        return None
    predicate = arith.CmpIOp(op).predicate
    holds, read = predicate.compare, unsigned if predicate.is_unsigned else signed

    def compute(left: int, right: int) -> int:
        return int(holds(read(left, width), read(right, width)))

    return compute


def _same(number: int) -> int:
    return number


def _select(condition: int, yes: int, no: int) -> int:
    return yes if condition else no


def _shift(shift: Callable[[int, int], int | None], read: Callable[[int, int], int], width: int) -> Scalar:
    def compute(number: int, amount: int) -> int | None:
        amount = unsigned(amount, width)
        shifted = shift(read(number, width), amount) if amount < width else None
        return None if shifted is None else wrap(shifted, width)

    return compute


def _extend(read: Callable[[int, int], int]) -> Callable[[int, int], Scalar]:
    def cast(taken: int, width: int) -> Scalar:
        def compute(number: int) -> int:
            return wrap(read(number, taken), width)

        return compute

    return cast


def _divide(left: int, right: int) -> int | None:
    """Rounds towards zero."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int | None:
    """Has the sign of the dividend."""
    quotient = _divide(left, right)
    return None if quotient is None else left - quotient * right


def _floor_divide(left: int, right: int) -> int | None:
    return left // right if right else None


def _ceil_divide(left: int, right: int) -> int | None:
    return -(-left // right) if right else None


def _shift_left(number: int, amount: int) -> int:
    return number << amount


def _shift_right(number: int, amount: int) -> int:
    return number >> amount


def _and(left: int, right: int) -> int:
    return left & right


def _or(left: int, right: int) -> int:
    return left | right


def _exclusive_or(left: int, right: int) -> int:
    return left ^ right


_CASTS: dict[str, Callable[[int, int], Scalar]] = by_name(
    {
        **dict.fromkeys((arith.ExtSIOp, arith.IndexCastOp, arith.BitcastOp), _extend(signed)),
        **dict.fromkeys((arith.TruncIOp, arith.ExtUIOp, arith.IndexCastUIOp), _extend(unsigned)),
    }
)
_ARITHMETIC: dict[str, Callable[[int, int], int | None]] = by_name(
    {
        arith.AddIOp: operator.add,
        arith.SubIOp: operator.sub,
        arith.MulIOp: operator.mul,
        arith.DivSIOp: _divide,
        arith.DivUIOp: _divide,
        arith.RemSIOp: _remainder,
        arith.RemUIOp: _remainder,
        arith.FloorDivSIOp: _floor_divide,
        arith.CeilDivSIOp: _ceil_divide,
        arith.CeilDivUIOp: _ceil_divide,
        arith.MinSIOp: min,
        arith.MinUIOp: min,
        arith.MaxSIOp: max,
        arith.MaxUIOp: max,
        arith.AndIOp: _and,
        arith.OrIOp: _or,
        arith.XOrIOp: _exclusive_or,
        arith.ShLIOp: _shift_left,
        arith.ShRSIOp: _shift_right,
        arith.ShRUIOp: _shift_right,
    }
)
_SHIFTS = op_names(arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)
_UNSIGNED = op_names(
    arith.DivUIOp, arith.RemUIOp, arith.CeilDivUIOp, arith.MinUIOp, arith.MaxUIOp, arith.ShRUIOp
)  # for the others, operands are signed or the sign does not matter
