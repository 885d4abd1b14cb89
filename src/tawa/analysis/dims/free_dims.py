"""Free dimensions: dimensions whose elements may stand in any order between one dot and the next.

    k = descriptor_load K, n, 0              its rows
    s = dot q, k.T                           the columns of s
    s = select mask(n + range), s, -inf      of the mask, which is computed from a range
    m = reduce s {axis = 1, max}             a maximum over them
    p = exp2 s - m; l += reduce p {axis = 1} of p; a sum over them
    acc = dot p, v, acc                      a sum over them: the second dot

All of these are one dimension, the keys: element i of one is element i of the others. It is free if nothing but sums,
maxima and dots look along it, and if it ends at the second dot. If the rows of k then stand in another order, so do the
columns of s and p, and the second dot needs them in the order of the rows of v again.

The dimension is a class of `tawa.analysis.dims.dim_classes`, except that the two operands of a dot are not tied along
the dimension that it sums over. Each use of a free value along the dimension is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tawa.analysis.dims.dim_classes import DimClasses, Node, Tie
from tawa.analysis.sums import rounds
from tawa.dialects import arith
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import has_side_effect
from tawa.dialects.tt import DescriptorLoadOp, DotOp, LoadOp, ReduceOp
from tawa.ir import Module, Operation, Value, shape_of
from tawa.symbolic.dim_relations import Place
from tawa.symbolic.words import word_of

_A = 0
_COMBINERS = op_names(
    arith.AddFOp, arith.AddIOp, arith.MaxNumFOp, arith.MaximumFOp, arith.MinNumFOp, arith.MinimumFOp, arith.MaxSIOp,
    arith.MaxUIOp, arith.MinSIOp, arith.MinUIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
)  # fmt: skip
"""Operations whose result does not depend on the order of what they combine, apart from rounding."""


@dataclass(frozen=True, slots=True)
class FreeDim:
    """One dimension between two dots.

    first: the dot whose columns it is. loads: the loads by descriptors along whose rows it runs. ends: the dots whose
    operand A has it as columns, which they sum over. uses: where a value computed from scalars alone has it, as
    (operation, number of the operand), with its dimension there. reads: loads through pointers that have it. rounded:
    a sum along it that rounds, so that another order gives other bits. reason: why it is not free, in words about its
    elements, at `place`; empty if it is.
    """

    size: int
    first: Operation
    loads: tuple[Operation, ...] = ()
    ends: tuple[Operation, ...] = ()
    uses: tuple[tuple[Operation, int, int], ...] = ()
    reads: tuple[Operation, ...] = ()
    rounded: Operation | None = None
    reason: str = ""
    place: Operation | None = None


def find_free_dims(module: Module) -> tuple[FreeDim, ...]:
    """The dimensions between a dot and the next in a kernel without layouts, free or not, in program order."""
    function = structured_kernel(module)
    if function is None:
        return ()
    ops = list(function.op.walk())
    if sum(op.name == DotOp.NAME for op in ops) < 2:
        return ()
    classes = DimClasses(ops, lambda op, tie: not _is_summed(op, tie))
    dots = [op for op in ops if op.name == DotOp.NAME]
    first = {classes.root(_columns(dot.result)): dot for dot in reversed(dots)}
    found: dict[Node, FreeDim] = {}
    for dot in dots:
        root = classes.root(_columns(dot.operands[_A]))
        if root in first and root not in found:
            found[root] = _OneDim(classes, root, first[root]).info()
    return tuple(found.values())


def _columns(tile: Value) -> Node:
    return tile, len(shape_of(tile)) - 1


def _is_summed(op: Operation, tie: Tie) -> bool:
    """Whether a tie relates the two operands of a dot along the dimension that it sums over."""
    return op.name == DotOp.NAME and all(place.user is op and place.index < DotOp.accumulator.index for place in tie)


class _NotFree(Exception):
    def __init__(self, op: Operation | None, reason: str) -> None:
        self.op, self.reason = op, reason


@dataclass(slots=True)
class _OneDim:
    """The checks of one class."""

    classes: DimClasses
    root: Node
    first: Operation
    dims: dict[Value, int] = field(default_factory=dict[Value, int])

    def info(self) -> FreeDim:
        """What is known of the dimension."""
        nodes = list(self.classes.members(self.root))
        self.dims = dict(nodes)
        size = shape_of(self.root[0])[self.root[1]]
        loads = tuple(op for op in self.classes.ops if DescriptorLoadOp.matches(op) and op.result in self.dims)
        ends = tuple(op for op in self.classes.ops if op.name == DotOp.NAME and self._is_columns(op.operands[_A]))
        try:
            if len(self.dims) < len(nodes):
                raise _NotFree(self.first, "a tile has them as rows and as columns")
            self._check_effects()
            self._check_loads(loads)
            rounded = self._check_mixed()
        except _NotFree as error:
            return FreeDim(size, self.first, loads, ends, reason=error.reason, place=error.op)
        reads = tuple(op for op in self.classes.ops if LoadOp.matches(op) and op.result in self.dims)
        return FreeDim(size, self.first, loads, ends, tuple(self._uses()), reads, rounded)

    def _in(self, place: Place) -> bool:
        return place.value not in self.classes.free and self.dims.get(place.value) == place.dim

    def _check_effects(self) -> None:
        for value in self.dims:
            for use in value.uses:
                if not use.op.regions and has_side_effect(use.op):
                    raise _NotFree(use.op, f"{word_of(use.op)} has an effect along them")

    def _check_loads(self, loads: tuple[Operation, ...]) -> None:
        for op in loads:
            shape, dim = shape_of(op.result), self.dims[op.result]
            if dim == len(shape) - 1:
                raise _NotFree(op, "a descriptor load runs along them in contiguous memory")
            if any(size > 1 for at, size in enumerate(shape[:-1]) if at != dim):
                raise _NotFree(op, "a loaded tile has further dimensions")

    def _check_mixed(self) -> Operation | None:
        """Raises if an operation depends on the order; returns a sum that rounds."""
        rounded: Operation | None = None
        for mixed in self.classes.mixed:
            if not self._in(mixed.place):
                continue
            op = mixed.op
            if op.name == DotOp.NAME and mixed.place.index == _A and len(shape_of(mixed.place.value)) == 2:
                continue
            if not _is_commutative(op):
                raise _NotFree(op, mixed.reason.replace("{}", "them"))
            rounded = rounded or (op if rounds(op) else None)
        return rounded

    def _is_columns(self, tile: Value) -> bool:
        return tile not in self.classes.free and self.dims.get(tile) == len(shape_of(tile)) - 1

    def _uses(self) -> Iterator[tuple[Operation, int, int]]:
        for op, tie in self.classes.ties:
            if any(self._in(place) for place in tie):
                for place in tie:
                    if place.value in self.classes.free and place.user is op:
                        yield op, place.index, place.dim


def _is_commutative(op: Operation) -> bool:
    """Whether a reduction of one tile depends on the order of its elements at most by rounding."""
    reduce = ReduceOp.of(op)
    if reduce is None or len(reduce.sources) != 1:
        return False
    inside = op.regions[0].block.ops
    return len(inside) == 2 and inside[0].name in _COMBINERS
