"""Ordered rows: whether the launcher can describe a tensor such that TMA loads its rows in another order.

    tensor of S × D, boxes of BN × D        →    tensor of 2 × S/2 × D with strides of 1 row and 2 rows
      K[n, 0]                                      rows[0, n/2, 0]: the even rows of the tile, then the odd ones

The new descriptor is made from the descriptor that the user passes, or from one that Tawa has added. Its dimensions of
rows are the runs of the order (`tawa.machine.row_order`). A launch must have a number of rows that the run of the
highest rows divides; the first row of each tile is proved to be such a multiple.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tawa.analysis.dims.free_dims import FreeDim
from tawa.analysis.tma.boxes import MAX_RANK
from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import DescriptorLoadOp, FuncOp
from tawa.ir import Module, Operation, ScalarType, TensorDescType, TensorType, Value, parse_type
from tawa.machine.row_order import RowOrder
from tawa.symbolic.affine import Affine
from tawa.symbolic.host.expr import Apply, Argument, Condition, HostValue, Number, multiply
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec
from tawa.symbolic.value_ranges import ValueRanges

_ORDERED = "rows are loaded in another order"


@dataclass(frozen=True, slots=True)
class RowLoad:
    """A load whose rows may stand in another order.

    rows: their dimension in the descriptor. spec: of the descriptor, as the launcher knows it. user: the name of the
    parameter if it is a descriptor of the user's; else empty.
    """

    load: DescriptorLoadOp
    rows: int
    spec: DescriptorSpec
    user: str = ""

    @property
    def room(self) -> int:
        """The dimensions that a descriptor has left for rows."""
        return MAX_RANK - (len(self.spec.block) - 1)

    def ordered(self, order: RowOrder) -> DescriptorSpec:
        """The descriptor for an order. Its argument index is not known yet and is set to 0."""
        at, spec = self.rows, self.spec
        sizes: list[HostValue] = [Number(run.size) for run in order.runs]
        sizes[order.top] = _divided(spec.shape[at], order.unit)
        strides = [multiply(spec.strides[at], Number(run.stride)) for run in order.runs]
        return DescriptorSpec(
            base=spec.base,
            offset=spec.offset,
            shape=(*_outer(spec.shape, at), *sizes, spec.shape[-1]),
            strides=(*_outer(spec.strides, at), *strides, Number(1)),
            block=(*_outer(spec.block, at), *order.by_place, spec.block[-1]),
            element=spec.element,
            element_bytes=spec.element_bytes,
            argument=0,
        )

    def conditions(self, order: RowOrder) -> tuple[Condition, ...]:
        """What a launch must satisfy for it.

        The strides are within TMA's limit of 2 ** 40 bytes: the largest is that of `unit` rows, which are in memory.
        """
        rows = Condition(self.spec.shape[self.rows], _ORDERED, order.unit, multiple=order.unit, only_for="rows")
        if not self.user:
            return (rows,)
        reason = f"{_ORDERED}, with zeros outside of the tensor"
        return Condition(Argument(self.spec.base, self.user), reason, 1, only_for="rows"), rows


@dataclass(frozen=True, slots=True)
class OrderedDim:
    """A free dimension with the order that its elements get. loads: those of the dimension."""

    dim: FreeDim
    order: RowOrder
    loads: tuple[RowLoad, ...]


class OrderedRows:
    """What is known of the loads of a kernel with one function. launch: what its launches need so far."""

    def __init__(self, module: Module, launch: LaunchSpec) -> None:
        self.module, self.launch = module, launch

    @cached_property
    def _function(self) -> FuncOp:
        return next(view for op in self.module.body.ops if (view := FuncOp.of(op)))

    @cached_property
    def _ranges(self) -> ValueRanges:
        return ValueRanges(self._function, self._affine)

    @cached_property
    def _affine(self) -> Affine:
        return Affine()

    def find(self, op: Operation) -> RowLoad | str:
        """Finds the rows that `op` loads and their descriptor. A text is the reason that they cannot be ordered."""
        load = DescriptorLoadOp(op)
        descriptor, block = load.descriptor, parse_type(load.descriptor.type)
        assert isinstance(block, TensorDescType)
        if descriptor.owner is not self._function.body:
            return "its descriptor is not an argument of the kernel"
        rows = max(range(len(block.block.shape) - 1), key=lambda at: block.block.shape[at])
        added = next((it for it in self.launch.descriptors if it.argument == descriptor.index), None)
        if added is not None:
            return RowLoad(load, rows, added)
        name = parameter_name(self.module, descriptor, f"argument {descriptor.index}")
        return RowLoad(load, rows, _of_user(descriptor, block.block, name), name)

    def why_not(self, found: RowLoad, order: RowOrder) -> str:
        """Why a load cannot have an order; empty if it can."""
        if len(order.runs) > found.room:
            return f"a descriptor has {MAX_RANK} dimensions, and this one has {len(found.spec.block)} already"
        first = self._affine.poly(found.load.indices[found.rows])
        if self._ranges.multiple(first) % order.unit:
            return f"the first row of the tile is not known to be a multiple of {order.unit}"
        return ""


def _of_user(descriptor: Value, block: TensorType, name: str) -> DescriptorSpec:
    """A descriptor that the user passes; its sizes and strides follow it among the arguments of the function."""
    rank, first = len(block.shape), descriptor.index + 1
    element = parse_type(block.element)
    assert isinstance(element, ScalarType)
    return DescriptorSpec(
        base=descriptor.index,
        offset=Number(0),
        shape=tuple(Argument(first + at, f"{name}.shape[{at}]") for at in range(rank)),
        strides=tuple(Argument(first + rank + at, f"{name}.strides[{at}]") for at in range(rank)),
        block=block.shape,
        element=block.element,
        element_bytes=max(1, element.bits // 8),
        argument=descriptor.index,
    )


_T = TypeVar("_T")


def _outer(values: tuple[_T, ...], rows: int) -> tuple[_T, ...]:
    """The dimensions outside of the rows."""
    return tuple(it for at, it in enumerate(values[:-1]) if at != rows)


def _divided(value: HostValue, unit: int) -> HostValue:
    return Number(value.value // unit) if isinstance(value, Number) else Apply("divide", (value, Number(unit)))
