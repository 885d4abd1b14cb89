"""What a launch of a specialised kernel needs: descriptors that the launcher makes, and conditions that it checks.

All of it is written in host expressions (`tawa.symbolic.host.expr`) and converts to JSON and back, so that it can be
stored beside a compiled kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tawa.symbolic.host.expr import Argument, Choice, Condition, HostValue, host_value_from_json

_FLOAT_BYTES = 4
_MOST_ALIGNED = 128


@dataclass(frozen=True, slots=True)
class DescriptorSpec:
    """A TMA descriptor that the launcher makes and passes as an added argument.

    base: index of the pointer argument that the memory belongs to. offset: of the tensor from that pointer, in
    elements. shape, strides: in elements, slowest first; the last stride is 1. block: the box. element: MLIR's name of
    the element type (f16, bf16, f8E4M3FN, i8 …). Elements outside of the tensor read as zero.
    argument: index of the descriptor in the rewritten function; its sizes (i32) and strides (i64) follow it, as
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


def alignment(address: int) -> int:
    """What decides over the conditions of an address that have a multiple up to 128, or ask that it is not 0."""
    return address % _MOST_ALIGNED or _MOST_ALIGNED * bool(address)


def _is_of_alignment(condition: Condition) -> bool:
    whole = condition.multiple if _MOST_ALIGNED % condition.multiple == 0 else None
    return (
        isinstance(condition.value, Argument)
        and whole is not None
        and (condition.least or 0) in (0, 1)
        and (condition.most is None)
    )


@dataclass(frozen=True, slots=True)
class Grouped:
    """Neighbouring programs of the grid that share a CTA. axis: of the grid. programs: how many in one CTA."""

    axis: int
    programs: int

    def ctas(self, grid: Sequence[int]) -> tuple[int, ...]:
        """The grid of CTAs for a grid of programs; three sizes."""
        sizes = [*grid, 1, 1][:3]
        sizes[self.axis] = -(-sizes[self.axis] // self.programs)
        return tuple(sizes)

    def size(self, grid: Sequence[int]) -> int:
        """The size of a grid of programs along the axis."""
        return (*grid, 1, 1)[self.axis]


@dataclass(frozen=True, slots=True)
class Shared:
    """Programs that share the loop of a tile. shares: how many. elements: of the partial sums of one, in float32."""

    shares: int
    elements: int

    def programs(self, grid: Sequence[int]) -> tuple[int, ...]:
        """The grid of a launch for a grid of tiles; three sizes."""
        x, *others = [*grid, 1, 1][:3]
        return (x * self.shares, *others)

    def workspace_bytes(self, grid: Sequence[int]) -> int:
        """Bytes of the partial sums of all tiles of a grid."""
        return prod(grid) * self.shares * self.elements * _FLOAT_BYTES


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a launch of a specialised kernel needs.

    descriptors: to be made, in the order of the added arguments. conditions: if one does not hold, another kernel is
    launched: one without the decision that needs it (`Condition.only_for`), else the stock kernel. grouped: programs
    that share a CTA; the kernel takes the size of the grid along their axis as the argument after the descriptors.
    axes: how many sizes of the grid of CTAs a persistent kernel takes as arguments after that; 0: it is not persistent.
    on_one: how many of its programs are launched for each SM.
    counter: whether it takes the address of a counter of tiles, as its last argument. shared: programs that share a
    tile; the kernel takes the addresses of a workspace and of semaphores as its last arguments.
    """

    descriptors: tuple[DescriptorSpec, ...] = ()
    conditions: tuple[Condition, ...] = ()
    axes: int = 0
    grouped: Grouped | None = None
    counter: bool = False
    shared: Shared | None = None
    on_one: int = 1

    def programs(self, grid: Sequence[int], processors: int) -> int:
        """The programs that a persistent kernel is launched with, for a grid of tiles."""
        return min(prod(grid), self.on_one * processors)

    @property
    def arguments(self) -> frozenset[int]:
        """The indices of all arguments that a descriptor or a condition depends on."""
        values = [value for spec in self.descriptors for value in (spec.offset, *spec.shape, *spec.strides)]
        values += [condition.value for condition in self.conditions]
        bases = frozenset(spec.base for spec in self.descriptors)
        return bases.union(*(value.arguments for value in values))

    @property
    def addresses(self) -> frozenset[int]:
        """The arguments of which only `alignment` decides how the kernel is launched: descriptors begin there."""
        values = [value for spec in self.descriptors for value in (spec.offset, *spec.shape, *spec.strides)]
        values += [condition.value for condition in self.conditions if not _is_of_alignment(condition)]
        return frozenset(spec.base for spec in self.descriptors).difference(*(value.arguments for value in values))

    def broken(self, arguments: Sequence[int]) -> Condition | None:
        """The first condition that these arguments violate (pointers as addresses)."""
        return next(iter(self.all_broken(arguments)), None)

    def all_broken(self, arguments: Sequence[int]) -> tuple[Condition, ...]:
        """All conditions that these arguments violate."""
        return tuple(condition for condition in self.conditions if not condition.holds(arguments))

    def without(self, choices: Collection[Choice]) -> LaunchSpec:
        """The same without the conditions that only these decisions need."""
        return replace(self, conditions=tuple(it for it in self.conditions if it.only_for not in choices))

    def to_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return {
            "descriptors": [spec.to_json() for spec in self.descriptors],
            "conditions": [condition.to_json() for condition in self.conditions],
            "axes": self.axes,
            "grouped": [self.grouped.axis, self.grouped.programs] if self.grouped else None,
            "counter": self.counter,
            "shared": [self.shared.shares, self.shared.elements] if self.shared else None,
            "on_one": self.on_one,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> LaunchSpec:
        """The inverse of `to_json`."""
        return LaunchSpec(
            tuple(DescriptorSpec.from_json(spec) for spec in data["descriptors"]),
            tuple(Condition.from_json(condition) for condition in data["conditions"]),
            data["axes"],
            Grouped(*data["grouped"]) if data.get("grouped") else None,
            data.get("counter", False),
            Shared(*data["shared"]) if data.get("shared") else None,
            data.get("on_one", 1),
        )
