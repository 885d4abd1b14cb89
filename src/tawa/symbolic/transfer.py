"""Transfer functions: range and divisibility of the result of an operation, from those of its operands.

    remsi %x, %y        0 <= it < y if x is 0 or more and y is positive; a common divisor of x and y divides it

Sums and products have no transfer function: the interpreter sees them as polynomials (`tawa.symbolic.affine`), in which
equal terms cancel. Integers of 32 bits and more are assumed not to overflow, and unsigned ones to be less than 2³¹
(2⁶³), as for all addresses and indices; Triton's option `sanitize_overflow` reports an overflow as an error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, inf, nan

from tawa.dialects import arith
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.scalars import width_of
from tawa.dialects.tt import GetNumProgramsOp, GetProgramIdOp, LoadOp
from tawa.ir import Operation, Value
from tawa.symbolic.known import DIVISORS, LOADED, UNKNOWN, Known, Trust

_INDEX_BITS = 32
MOST_PROGRAMS = (1 << 31) - 1

KnownOf = Callable[[Value], Known]
Transfer = Callable[[Operation, KnownOf, Trust], Known]


def transfer(op: Operation, known: KnownOf, trust: Trust) -> Known:
    """Known facts about the result of an operation on scalars. known: returns those about an operand."""
    function = _TRANSFERS.get(op.name)
    return UNKNOWN if function is None else function(op, known, trust)


def _program(op: Operation, known: KnownOf, trust: Trust) -> Known:
    return Known(0, MOST_PROGRAMS)


def _programs(op: Operation, known: KnownOf, trust: Trust) -> Known:
    return Known(1, MOST_PROGRAMS)


def _loaded(op: Operation, known: KnownOf, trust: Trust) -> Known:
    return Known.from_operands((), 0, taken=LOADED) if trust >= Trust.MEMORY else UNKNOWN


def _select(op: Operation, known: KnownOf, trust: Trust) -> Known:
    return known(op.operands[1]).join(known(op.operands[2]))


def _extreme(op: Operation, known: KnownOf, trust: Trust) -> Known:
    left, right = map(known, op.operands)
    pick = min if arith.MinSIOp.matches(op) else max
    low, high = pick(left.low, right.low), pick(left.high, right.high)
    return Known.from_operands((left, right), low, high, gcd(left.multiple, right.multiple))


def _truncated(op: Operation, known: KnownOf, trust: Trust) -> Known:
    number, width = known(op.operands[0]), width_of(op.result.type) or 0
    if width >= _INDEX_BITS or (number.low >= -1 << (width - 1) and number.high < 1 << (width - 1)):
        return number
    return Known(multiple=gcd(number.multiple, 1 << width))  # it may wrap around


def _zero_extended(op: Operation, known: KnownOf, trust: Trust) -> Known:
    number = known(op.operands[0])
    if number.low >= 0:
        return number
    return Known(0, multiple=gcd(number.multiple, 1 << (width_of(op.operands[0].type) or 0)))


def _quotient(op: Operation, known: KnownOf, trust: Trust) -> Known:
    """Rounded towards zero."""
    left, right = map(known, op.operands)
    rounded_to_zero = right.low > 0 and left.low > -right.low
    if left.low < 0 and not rounded_to_zero:
        return UNKNOWN
    if right.low > 0:
        return Known.from_operands((left, right), 0, max(left.high, 0))
    return Known.from_operands((left, right), 0, taken=DIVISORS) if trust >= Trust.QUOTIENTS else UNKNOWN


def _remainder(op: Operation, known: KnownOf, trust: Trust) -> Known:
    """With the sign of the dividend."""
    left, right = map(known, op.operands)
    multiple = gcd(left.multiple, right.multiple)
    if left.low < 0:
        return Known(multiple=multiple)
    high = right.high - 1 if right.low > 0 else inf
    return Known.from_operands((left, right), 0, min(left.high, high), multiple)


def _unsigned_remainder(op: Operation, known: KnownOf, trust: Trust) -> Known:
    left, right = map(known, op.operands)
    multiple = gcd(left.multiple, right.multiple)
    if left.low < 0 or right.low < 0:  # with the bits of a negative number, only powers of two divide it
        multiple = gcd(multiple, 1 << (width_of(op.result.type) or 0))
    return Known(0, multiple=multiple)


def _unsigned(op: Operation, known: KnownOf, trust: Trust) -> Known:
    return Known(0)


def _shifted_right(op: Operation, known: KnownOf, trust: Trust) -> Known:
    left = known(op.operands[0])
    return Known.from_operands((left,), 0, left.high) if left.low >= 0 else UNKNOWN


def _and(op: Operation, known: KnownOf, trust: Trust) -> Known:
    left, right = map(known, op.operands)
    if left.low < 0 and right.low < 0:
        return UNKNOWN
    return Known.from_operands((left, right), 0, max(left.high, right.high))


def _rounded(op: Operation, known: KnownOf, trust: Trust) -> Known:
    """A float rounded to an integer. Kernels compute indices this way, as an index times a float constant."""
    wide = (width_of(op.result.type) or 0) >= _INDEX_BITS
    return _float(op.operands[0], known) if wide else UNKNOWN


def _float(value: Value, known: KnownOf) -> Known:
    """The sign of a float."""
    op = value.defining_op
    match op.name if op is not None else "":
        case arith.UIToFPOp.NAME:
            return Known(0)
        case arith.SIToFPOp.NAME if op is not None:
            number = known(op.operands[0])
            return Known.from_operands((number,), 0) if number.low >= 0 else UNKNOWN
        case arith.MulFOp.NAME | arith.AddFOp.NAME | arith.DivFOp.NAME | arith.ExtFOp.NAME | arith.TruncFOp.NAME if (
            op is not None
        ):
            operands = [_float(operand, known) for operand in op.operands]
            return Known.from_operands(operands, 0) if all(it.low >= 0 for it in operands) else UNKNOWN
        case arith.ConstantOp.NAME if op is not None:
            return Known(0) if _float_constant(op.properties["value"]) >= 0 else UNKNOWN
        case _:
            return UNKNOWN


def _float_constant(text: str) -> float:
    """A float as MLIR prints it; NaN for bits in hexadecimal."""
    text, _, _ = text.partition(" : ")
    try:
        return float(text)
    except ValueError:
        return nan


_TRANSFERS: dict[str, Transfer] = by_name(
    {
        GetProgramIdOp: _program,
        GetNumProgramsOp: _programs,
        LoadOp: _loaded,
        arith.SelectOp: _select,
        arith.MinSIOp: _extreme,
        arith.MaxSIOp: _extreme,
        arith.TruncIOp: _truncated,
        arith.ExtUIOp: _zero_extended,
        arith.DivSIOp: _quotient,
        arith.DivUIOp: _unsigned,
        arith.RemSIOp: _remainder,
        arith.RemUIOp: _unsigned_remainder,
        arith.ShRSIOp: _shifted_right,
        arith.ShRUIOp: _unsigned,
        arith.AndIOp: _and,
        arith.FPToSIOp: _rounded,
    }
)
"""Transfer functions by operation name; the results of all other operations are unknown."""
