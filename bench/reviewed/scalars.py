"""Arithmetic on numbers, as MLIR defines it: two's complement, division towards zero."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from tawa.ir import Operation

_WIDTH = re.compile(r"(?:tensor<.*x)?i(\d+)")


def width_of(type: str) -> int:
    """The bits of an integer; 64 of anything else."""
    found = _WIDTH.match(type)
    return int(found[1]) if found else 64


def signed(value: int, bits: int) -> int:
    """The value of the lowest bits as a signed number; of one bit, 0 or 1."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    """The value of the lowest bits as an unsigned number."""
    return value & ((1 << bits) - 1)


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _wrapping(function: Callable[[int, int], int]) -> Callable[[Operation, list[Any]], Any]:
    def apply(op: Operation, values: list[Any]) -> Any:
        return signed(function(*values), width_of(op.result.type))

    return apply


def _of_unsigned(function: Callable[[int, int], int]) -> Callable[[Operation, list[Any]], Any]:
    def apply(op: Operation, values: list[Any]) -> Any:
        bits = width_of(op.operands[0].type)
        return signed(function(*(unsigned(it, bits) for it in values)), width_of(op.result.type))

    return apply


def _compare(op: Operation, values: list[Any]) -> int:
    a, b = values
    kind = int(op.properties["predicate"].split()[0])
    if kind > 5:
        bits = width_of(op.operands[0].type)
        a, b = unsigned(a, bits), unsigned(b, bits)
        kind -= 4
    return int((a == b, a != b, a < b, a <= b, a > b, a >= b)[kind])


def _compare_floats(op: Operation, values: list[Any]) -> int:
    a, b = values
    kind = int(op.properties["predicate"].split()[0])
    if math.isnan(a) or math.isnan(b):
        return int(kind >= 8)
    found = {1: a == b, 2: a > b, 3: a >= b, 4: a < b, 5: a <= b, 6: a != b, 0: False, 7: True}
    return int(found[kind - 7 if kind in (8, 9, 10, 11, 12, 13) else kind])


def _address(op: Operation, values: list[Any]) -> Any:
    base, offset = values
    return (base[0], base[1] + offset) if isinstance(base, tuple) and isinstance(offset, int) else None


def _identity(op: Operation, values: list[Any]) -> Any:
    return values[0]


OPERATIONS: dict[str, Callable[[Operation, list[Any]], Any]] = {
    "arith.addi": _wrapping(lambda a, b: a + b),
    "arith.subi": _wrapping(lambda a, b: a - b),
    "arith.muli": _wrapping(lambda a, b: a * b),
    "arith.divsi": _wrapping(_quotient),
    "arith.remsi": _wrapping(lambda a, b: a - b * _quotient(a, b)),
    "arith.divui": _of_unsigned(lambda a, b: a // b if b else 0),
    "arith.remui": _of_unsigned(lambda a, b: a % b if b else 0),
    "arith.andi": _wrapping(lambda a, b: a & b),
    "arith.ori": _wrapping(lambda a, b: a | b),
    "arith.xori": _wrapping(lambda a, b: a ^ b),
    "arith.shli": _wrapping(lambda a, b: a << b),
    "arith.shrsi": _wrapping(lambda a, b: a >> b),
    "arith.shrui": _of_unsigned(lambda a, b: a >> b),
    "arith.minsi": _wrapping(min),
    "arith.maxsi": _wrapping(max),
    "arith.minui": _of_unsigned(min),
    "arith.maxui": _of_unsigned(max),
    "arith.cmpi": _compare,
    "arith.cmpf": _compare_floats,
    "arith.select": lambda op, values: values[1] if values[0] else values[2],
    "arith.extui": lambda op, values: unsigned(values[0], width_of(op.operands[0].type)),
    "arith.extsi": lambda op, values: -values[0] if width_of(op.operands[0].type) == 1 else values[0],
    "arith.trunci": lambda op, values: signed(values[0], width_of(op.result.type)),
    "arith.index_cast": _identity,
    "arith.sitofp": lambda op, values: float(values[0]),
    "arith.addf": lambda op, values: values[0] + values[1],
    "arith.mulf": lambda op, values: values[0] * values[1],
    "tt.addptr": _address,
    "tt.int_to_ptr": lambda op, values: ("address", values[0]),
    "tt.bitcast": _identity,
}
