"""Host expressions: what the host computes from a kernel's arguments at a launch, and what must hold of it.

A `HostValue` is a tree over the scalar arguments of the kernel; a `Condition` says that one lies in a range or is a
multiple of something. Both are evaluated in plain Python, without generated code, from the arguments of the kernel's
function in their order: every parameter that is not a constant (a constexpr, or a 1 that Triton folded), with pointers
as addresses. Both convert to JSON and back, so that they can be stored beside a compiled kernel.

    ("sum", ("argument", 4), ("number", 127))      M + 127

The neighbouring modules find their ranges (`ranges`), simplify them (`simplify`, `conditions`) and print them (`text`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

Choice = Literal["rows", "stores"]
"""Decisions of Tawa that bring conditions of their own: rows in another order, stores by TMA."""
Operator = Literal["sum", "product", "divide", "ceiling", "remainder", "smallest", "largest"]
_OPERATORS: tuple[Operator, ...] = ("sum", "product", "divide", "ceiling", "remainder", "smallest", "largest")


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int

    def evaluate(self, arguments: Sequence[int]) -> int:
        """The constant."""
        return self.value

    @property
    def arguments(self) -> frozenset[int]:
        """None."""
        return frozenset()

    def to_json(self) -> list[Any]:
        """``["number", 127]``."""
        return ["number", self.value]

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument `index` of the kernel's function, as it was before any were added. name: for messages."""

    index: int
    name: str = ""

    def evaluate(self, arguments: Sequence[int]) -> int:
        """Its value at this launch."""
        return arguments[self.index]

    @property
    def arguments(self) -> frozenset[int]:
        """Itself."""
        return frozenset((self.index,))

    def to_json(self) -> list[Any]:
        """``["argument", 4, "M"]``."""
        return ["argument", self.index, self.name]

    def __str__(self) -> str:
        return self.name or f"argument {self.index}"


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator on values. divide and remainder round towards zero, as in a kernel; ceiling rounds up."""

    operator: Operator
    operands: tuple[HostValue, ...]

    @property
    def divisor(self) -> HostValue | None:
        """The divisor; None for an operator that does not divide."""
        return self.operands[1] if self.operator in ("divide", "ceiling", "remainder") else None

    def evaluate(self, arguments: Sequence[int]) -> int:
        """The result; raises ZeroDivisionError where the kernel's division is undefined."""
        values = [operand.evaluate(arguments) for operand in self.operands]
        match self.operator:
            case "sum":
                return sum(values)
            case "product":
                return prod(values)
            case "smallest":
                return min(values)
            case "largest":
                return max(values)
            case "divide":
                return _divide(*values)
            case "ceiling":
                return -(-values[0] // values[1])
            case "remainder":
                return values[0] - _divide(*values) * values[1]

    @property
    def arguments(self) -> frozenset[int]:
        """Those that its operands depend on."""
        return frozenset[int]().union(*(operand.arguments for operand in self.operands))

    def to_json(self) -> list[Any]:
        """``["sum", […], […]]``."""
        return [self.operator, *(operand.to_json() for operand in self.operands)]

    def __str__(self) -> str:
        words = {"sum": " + ", "product": " * ", "divide": " // ", "remainder": " % "}
        if self.operator in words:
            return f"({words[self.operator].join(map(str, self.operands))})"
        return f"{self.operator}({', '.join(map(str, self.operands))})"


HostValue = Number | Argument | Apply


def named(value: HostValue, name: Callable[[int], str]) -> HostValue:
    """The same value with each argument named by its index; those without a name keep the one that they have."""
    match value:
        case Argument(index, text):
            return Argument(index, name(index) or text)
        case Apply(operator, operands):
            return Apply(operator, tuple(named(it, name) for it in operands))
        case _:
            return value


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def host_value_from_json(data: list[Any]) -> HostValue:
    """The inverse of `to_json`. Raises ValueError on anything else."""
    match data:
        case ["number", int(value)]:
            return Number(value)
        case ["argument", int(index), str(name)]:
            return Argument(index, name)
        case [operator, *operands] if operator in _OPERATORS:
            return Apply(operator, tuple(host_value_from_json(operand) for operand in operands))
        case _:
            raise ValueError(f"not a host expression: {data!r}")


def add(*values: HostValue) -> HostValue:
    """The sum, with constants folded."""
    number = sum(value.value for value in values if isinstance(value, Number))
    rest = [value for value in values if not isinstance(value, Number)]
    parts = [*rest, Number(number)] if number or not rest else rest
    return parts[0] if len(parts) == 1 else Apply("sum", tuple(parts))


def multiply(*values: HostValue) -> HostValue:
    """The product, with constants folded."""
    number = prod(value.value for value in values if isinstance(value, Number))
    rest = [value for value in values if not isinstance(value, Number)]
    parts = [*rest, Number(number)] if number != 1 or not rest else rest
    return parts[0] if len(parts) == 1 else Apply("product", tuple(parts))


@dataclass(frozen=True, slots=True)
class Condition:
    """``least <= value <= most`` and ``value % multiple == 0``.

    reason: why a launch needs it. only_for: the decision that alone needs it; None if the kernel needs it anyway.
    """

    value: HostValue
    reason: str
    least: int | None = None
    most: int | None = None
    multiple: int = 1
    only_for: Choice | None = None

    def holds(self, arguments: Sequence[int]) -> bool:
        """Whether it holds at this launch; False if the value cannot be computed."""
        try:
            value = self.value.evaluate(arguments)
        except ZeroDivisionError:
            return False
        if self.least is not None and value < self.least:
            return False
        return (self.most is None or value <= self.most) and value % self.multiple == 0

    def to_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return {"value": self.value.to_json(), "reason": self.reason, "least": self.least, "most": self.most,
                "multiple": self.multiple, "only_for": self.only_for}  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> Condition:
        """The inverse of `to_json`."""
        return Condition(
            host_value_from_json(data["value"]), data["reason"], data["least"], data["most"], data["multiple"],
            data.get("only_for"),
        )  # fmt: skip

    def __str__(self) -> str:
        if self.least is not None and self.least == self.most:
            return f"{self.value} == {self.least}"
        parts = [f"{self.value} >= {self.least}"] if self.least is not None else []
        parts += [f"{self.value} <= {self.most}"] if self.most is not None else []
        parts += [f"{self.value} % {self.multiple} == 0"] if self.multiple != 1 else []
        return " and ".join(parts)
