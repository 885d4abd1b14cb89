"""Terms over numbers of 32 bits: what they are worth, and how they are written.

A term is worth what MLIR's `arith` makes of it: sums and products wrap around, quotients are cut towards zero, and a
remainder has the sign of the dividend. Values may be arrays of many iterations at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Number = Any
"""A whole number, or an array of 64-bit integers that each fit 32 bits. Truth values are 0 and 1."""
_HALF = 1 << 31


@dataclass(frozen=True, slots=True)
class Term:
    """An operation on terms; without operands a variable ("variable", with its name) or a constant ("constant")."""

    op: str
    args: tuple[Term, ...] = ()
    of: int | str = 0

    def __str__(self) -> str:
        if not self.args:
            return str(self.of)
        sign = _OPERATIONS[self.op].sign
        if len(self.args) != 2 or self.op in ("min", "max"):
            return f"{sign}({', '.join(map(str, self.args))})"
        return f"({self.args[0]} {sign} {self.args[1]})"

    def parts(self) -> Iterator[Term]:
        """The term and all terms in it."""
        yield self
        for arg in self.args:
            yield from arg.parts()

    def variables(self) -> set[str]:
        """The names of the variables in the term."""
        return {str(it.of) for it in self.parts() if it.op == "variable"}

    def constants(self) -> set[int]:
        """The constants in the term."""
        return {int(it.of) for it in self.parts() if it.op == "constant"}

    def value(self, numbers: Mapping[str, Number]) -> Number:
        """What the term is worth."""
        if self.op == "variable":
            return numbers[str(self.of)]
        if self.op == "constant":
            return int(self.of)
        return _OPERATIONS[self.op].value(*(arg.value(numbers) for arg in self.args))

    @property
    def is_truth(self) -> bool:
        """Whether the term is a truth value."""
        return self.op in COMPARISONS or self.op in TRUTHS


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: as people write it, its name and attributes in MLIR, and its value."""

    sign: str
    name: str
    value: Callable[..., Number]
    attributes: str = ""


def wrapped(value: Number) -> Number:
    """The value in 32 bits, signed."""
    return ((value + _HALF) & (2 * _HALF - 1)) - _HALF


def _quotient(a: Number, b: Number) -> Number:
    size = abs(a) // abs(b)
    return np.where((a < 0) != (b < 0), -size, size)


def _unsigned(value: Number) -> Number:
    return value & (2 * _HALF - 1)


_FLAGS = " <{overflowFlags = #arith.overflow<none>}>"
NUMBERS: dict[str, Operation] = {
    "add": Operation("+", "arith.addi", lambda a, b: wrapped(a + b), _FLAGS),
    "sub": Operation("-", "arith.subi", lambda a, b: wrapped(a - b), _FLAGS),
    "mul": Operation("*", "arith.muli", lambda a, b: wrapped(a * b), _FLAGS),
    "div": Operation("//", "arith.divsi", _quotient),
    "rem": Operation("%", "arith.remsi", lambda a, b: a - b * _quotient(a, b)),
    "bit_and": Operation("&", "arith.andi", lambda a, b: a & b),
    "bit_or": Operation("|", "arith.ori", lambda a, b: a | b),
    "bit_xor": Operation("^", "arith.xori", lambda a, b: a ^ b),
    "left": Operation("<<", "arith.shli", lambda a, b: wrapped(a << b), _FLAGS),
    "right": Operation(">>", "arith.shrsi", lambda a, b: a >> b),
    "min": Operation("min", "arith.minsi", np.minimum),
    "max": Operation("max", "arith.maxsi", np.maximum),
}
COMPARISONS: dict[str, Operation] = {
    op: Operation(sign, "arith.cmpi", value, f" <{{predicate = {code} : i64}}>")
    for op, sign, code, value in (
        ("eq", "==", 0, lambda a, b: (a == b) * 1),
        ("ne", "!=", 1, lambda a, b: (a != b) * 1),
        ("lt", "<", 2, lambda a, b: (a < b) * 1),
        ("le", "<=", 3, lambda a, b: (a <= b) * 1),
        ("gt", ">", 4, lambda a, b: (a > b) * 1),
        ("ge", ">=", 5, lambda a, b: (a >= b) * 1),
        ("ult", "below", 6, lambda a, b: (_unsigned(a) < _unsigned(b)) * 1),
    )
}
TRUTHS: dict[str, Operation] = {
    "and": Operation("and", "arith.andi", lambda a, b: a & b),
    "or": Operation("or", "arith.ori", lambda a, b: a | b),
    "xor": Operation("xor", "arith.xori", lambda a, b: a ^ b),
    "true": Operation("true", "", lambda: 1),
    "not": Operation("not", "arith.xori", lambda a: 1 - a),
}
EXTEND, SELECT = "int", "select"
_OPERATIONS: dict[str, Operation] = {
    **NUMBERS, **COMPARISONS, **TRUTHS,
    EXTEND: Operation("int", "arith.extui", lambda a: a),
    SELECT: Operation("select", "arith.select", lambda c, a, b: np.where(c, a, b)),
}  # fmt: skip
ALWAYS = Term("true", (), "True")


def variable(name: str) -> Term:
    """The variable of this name."""
    return Term("variable", (), name)


def number(value: int) -> Term:
    """A constant."""
    return Term("constant", (), value)


def term(op: str, *args: Term | int) -> Term:
    """An operation on terms and constants."""
    return Term(op, tuple(number(it) if isinstance(it, int) else it for it in args))


def operation(op: str) -> Operation:
    """The operation of this name."""
    return _OPERATIONS[op]
