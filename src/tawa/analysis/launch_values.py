"""Values of a launch: what is computed on the host from a kernel's arguments, and what must hold of it.

A `HostValue` is a tree over the scalar arguments of the kernel; a `Condition` says that one lies in a range or is a
multiple of something. Both are evaluated in plain Python, from the arguments of the kernel's function in their order:
every parameter that is no constant (neither a constexpr nor a 1 that Triton folded), pointers as addresses. Both go to
JSON and back, so that they can be kept beside a compiled kernel.

    ("sum", ("argument", 4), ("number", 127))      M + 127
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

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
    """Argument `index` of the kernel's function, counted before any was added. name: for messages."""

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
    """An operator on values. divide and remainder are those of the kernel: towards zero; ceiling rounds up."""

    operator: Operator
    operands: tuple[HostValue, ...]

    @property
    def divisor(self) -> HostValue | None:
        """What it divides by; None for an operator that does not divide."""
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
            raise ValueError(f"not a value of a launch: {data!r}")


def add(*values: HostValue) -> HostValue:
    """The sum, numbers folded."""
    number = sum(value.value for value in values if isinstance(value, Number))
    rest = [value for value in values if not isinstance(value, Number)]
    parts = [*rest, Number(number)] if number or not rest else rest
    return parts[0] if len(parts) == 1 else Apply("sum", tuple(parts))


def multiply(*values: HostValue) -> HostValue:
    """The product, numbers folded."""
    number = prod(value.value for value in values if isinstance(value, Number))
    rest = [value for value in values if not isinstance(value, Number)]
    parts = [*rest, Number(number)] if number != 1 or not rest else rest
    return parts[0] if len(parts) == 1 else Apply("product", tuple(parts))


@dataclass(frozen=True, slots=True)
class Condition:
    """``least <= value <= most`` and ``value % multiple == 0``. reason: why a launch needs it."""

    value: HostValue
    reason: str
    least: int | None = None
    most: int | None = None
    multiple: int = 1

    def holds(self, arguments: Sequence[int]) -> bool:
        """Whether it holds at this launch; what cannot be computed does not hold."""
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
                "multiple": self.multiple}  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> Condition:
        """The inverse of `to_json`."""
        return Condition(
            host_value_from_json(data["value"]), data["reason"], data["least"], data["most"], data["multiple"]
        )

    def __str__(self) -> str:
        if self.least is not None and self.least == self.most:
            return f"{self.value} == {self.least}"
        parts = [f"{self.value} >= {self.least}"] if self.least is not None else []
        parts += [f"{self.value} <= {self.most}"] if self.most is not None else []
        parts += [f"{self.value} % {self.multiple} == 0"] if self.multiple != 1 else []
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class DescriptorSpec:
    """A TMA descriptor that the launcher makes and hands over as an added argument.

    base: index of the pointer argument that the memory belongs to. offset: where the tensor begins behind it, in
    elements. shape, strides: in elements, slowest first; the last stride is 1. block: the box. element: MLIR's name of
    the element type (f16, bf16, f8E4M3FN, i8 …). What lies outside the tensor reads as zero.
    argument: index, in the changed function, of the descriptor; its sizes (i32) and strides (i64) follow it, as
    Triton's launcher passes them.
    """

    base: int
    offset: HostValue
    shape: tuple[HostValue, ...]
    strides: tuple[HostValue, ...]
    block: tuple[int, ...]
    element: str
    element_bytes: int
    argument: int

    def evaluate(self, arguments: Sequence[int]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The address (bytes), the shape and the strides (elements) at this launch."""
        address = arguments[self.base] + self.element_bytes * self.offset.evaluate(arguments)
        shape = tuple(size.evaluate(arguments) for size in self.shape)
        return address, shape, tuple(stride.evaluate(arguments) for stride in self.strides)

    def to_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return {
            "base": self.base,
            "offset": self.offset.to_json(),
            "shape": [size.to_json() for size in self.shape],
            "strides": [stride.to_json() for stride in self.strides],
            "block": list(self.block),
            "element": self.element,
            "element_bytes": self.element_bytes,
            "argument": self.argument,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> DescriptorSpec:
        """The inverse of `to_json`."""
        return DescriptorSpec(
            base=data["base"],
            offset=host_value_from_json(data["offset"]),
            shape=tuple(host_value_from_json(size) for size in data["shape"]),
            strides=tuple(host_value_from_json(stride) for stride in data["strides"]),
            block=tuple(data["block"]),
            element=data["element"],
            element_bytes=data["element_bytes"],
            argument=data["argument"],
        )


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a launch of a changed kernel needs.

    descriptors: to be made, in the order of the added arguments. conditions: what must hold; where one does not, the
    kernel as it was is launched instead. work: cycles of one program, where launches that an SM is done with in fewer
    than least_cycles are left to the kernel as it was. alone: whether it pays only where no two programs share an SM.
    axes: how many sizes of the grid the kernel takes as its last arguments, being persistent; 0: it is not. offered:
    the same of a persistent form of the kernel, for launches of more programs than SMs; 0: there is none.
    """

    descriptors: tuple[DescriptorSpec, ...] = ()
    conditions: tuple[Condition, ...] = ()
    work: HostValue | None = None
    alone: bool = False
    axes: int = 0
    offered: int = 0
    least_cycles: int = 0

    @property
    def arguments(self) -> frozenset[int]:
        """All arguments that anything here depends on, by index."""
        values = [value for spec in self.descriptors for value in (spec.offset, *spec.shape, *spec.strides)]
        values += [condition.value for condition in self.conditions]
        values += [self.work] if self.work else []
        bases = frozenset(spec.base for spec in self.descriptors)
        return bases.union(*(value.arguments for value in values))

    def broken(self, arguments: Sequence[int]) -> Condition | None:
        """The first condition that does not hold for these arguments (pointers as addresses)."""
        return next((condition for condition in self.conditions if not condition.holds(arguments)), None)

    def not_worth(self, arguments: Sequence[int], rounds: int) -> str:
        """Why the kernel as it was is expected to be faster; empty if not.

        rounds: programs that an SM works on, one after the other or side by side.
        """
        if self.alone and rounds > 1:
            return "its programs share SMs, and boxes of short rows keep the TMA unit as busy as the dots the rest"
        return "the launch is over too soon to pay" if self._is_short(arguments, rounds) else ""

    def _is_short(self, arguments: Sequence[int], rounds: int) -> bool:
        if self.work is None:
            return False
        try:
            return rounds * self.work.evaluate(arguments) < self.least_cycles
        except ZeroDivisionError:
            return False

    def to_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return {
            "descriptors": [spec.to_json() for spec in self.descriptors],
            "conditions": [condition.to_json() for condition in self.conditions],
            "work": self.work.to_json() if self.work else None,
            "alone": self.alone,
            "axes": self.axes,
            "offered": self.offered,
            "least_cycles": self.least_cycles,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> LaunchSpec:
        """The inverse of `to_json`."""
        return LaunchSpec(
            tuple(DescriptorSpec.from_json(spec) for spec in data["descriptors"]),
            tuple(Condition.from_json(condition) for condition in data["conditions"]),
            host_value_from_json(data["work"]) if data["work"] else None,
            data["alone"],
            data["axes"],
            data["offered"],
            data["least_cycles"],
        )


__all__ = [
    "Apply",
    "Argument",
    "Condition",
    "DescriptorSpec",
    "HostValue",
    "LaunchSpec",
    "Number",
    "add",
    "host_value_from_json",
    "multiply",
]
