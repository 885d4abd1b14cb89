"""Order rows: the rows of a dot's operand are loaded in the order in which its result becomes the next dot's operand.

    %d = K as 2 x S/2 x D                              an argument that the launcher adds
    %k = descriptor_load K[%n, 0]                      %r = descriptor_load %d[0, %n / 2, 0] : 2x64x128
    %s = dot %q, trans %k                              %k = reshape %r : 128x128          even rows, then odd rows
    %i = make_range {0..128}                    →      %s = dot %q, trans %k
    %p = f(%s, %n + %i) : f32                          %i = reshape (trans (reshape (make_range) : 64x2) : 2x64)
    %a = fp_to_fp %p : f8                              %p = f(%s, %n + %i)                these columns, too
    %acc = dot %a, %v, %acc                            %w = reshape (trans (reshape %p : 128x2x64) : 128x64x2)
                                                       %a = fp_to_fp %w
                                                       %acc = dot %a, %v, %acc            the rows of v: as before

The order follows from the layouts of the two dots (`tawa.analysis.layout.next_operand`), such that Triton makes both
reshapes and the conversion of layouts a renaming of registers. Nothing between the dots changes: it works on the same
elements in another order. Values that are computed from scalars alone (indices, masks) are computed again in that order
from the ranges that they come from; where that is not known, the value itself is permuted.

The order of a sum over the columns changes, hence its rounding. The sums of the second dot keep their order.

Requires: TTIR without layouts, and dimensions that `tawa.analysis.dims.free_dims` found to be free.
Ensures: the same program up to the rounding of such sums, if the launch satisfies the conditions of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.tma.ordered_rows import OrderedDim, RowLoad
from tawa.dialects.arith import ConstantOp, DivSIOp, TruncFOp
from tawa.dialects.builtin import PoisonOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import DescriptorLoadOp, DotOp, FpToFpOp, FuncOp, ReshapeOp, SplatOp, TransOp
from tawa.ir import Builder, Module, Operation, ScalarType, TensorType, Value, clone_op, parse_type, shape_of, source_of
from tawa.ir.attributes import array_attr
from tawa.machine.row_order import RowOrder
from tawa.remarks import Remark
from tawa.symbolic.dim_relations import FREE, SHAPING, MixedError, demanded, is_splat
from tawa.symbolic.host.expr import Condition
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_descriptor

_NARROWING = op_names(FpToFpOp, TruncFOp)
_REGISTER_BITS = 32
_RECOMPUTED = FREE | SHAPING
_UNIFORM = op_names(SplatOp, PoisonOp)


@dataclass(frozen=True, slots=True)
class OrderResult(PassResult):
    """The result. launch: what launches need afterwards."""

    launch: LaunchSpec = field(default_factory=LaunchSpec)


@dataclass(frozen=True, slots=True)
class OrderRows:
    """Options.

    dims: what to order, found in the module. launch: what its launches need so far. nested: whether descriptor
    types are spelled as in Triton 3.6.
    """

    dims: tuple[OrderedDim, ...]
    launch: LaunchSpec = field(default_factory=LaunchSpec)
    nested: bool = True

    def run(self, module: Module) -> OrderResult:
        """Orders the rows."""
        if not self.dims:
            return OrderResult(False, launch=self.launch)
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        rewrite = _Rewrite(function, self.launch, self.nested)
        remarks: list[Remark] = []
        for it in self.dims:
            place = source_of(module, it.dim.first)
            text = f"{it.dim.size} columns of this dot stand in the order of the next dot's operand"
            remarks.append(Remark("note", text, place))
            rewrite.dim(it)
        DropDead().run(module)
        return OrderResult(True, tuple(remarks), launch=rewrite.launch)


@dataclass(slots=True)
class _Rewrite:
    """The rewrite of one kernel."""

    function: FuncOp
    launch: LaunchSpec
    nested: bool
    known: dict[DescriptorSpec, Value] = field(default_factory=dict[DescriptorSpec, Value])

    def dim(self, found: OrderedDim) -> None:
        """Orders one dimension."""
        places = _Places(found.order)
        for op, index, dim in found.dim.uses:
            op.set_operand(index, places.of(op.operands[index], dim))
        ends: dict[Value, Value] = {}
        for dot in found.dim.ends:
            operand = dot.operands[DotOp.a.index]
            if operand not in ends:
                ends[operand] = _in_rows(operand, found.order)
            dot.set_operand(DotOp.a.index, ends[operand])
        for load in found.loads:
            self.load(load, found.order)

    def load(self, found: RowLoad, order: RowOrder) -> None:
        """Replaces a load by one through a descriptor whose dimensions are the runs of the order."""
        load, old = found.load, found.load.op
        descriptor = self.descriptor(found.ordered(order), found.conditions(order))
        builder = Builder.before(old)
        first, zero = load.indices[found.rows], builder.constant(0)
        indices = [zero] * len(order.runs)
        unit = builder.constant(order.unit)
        indices[order.top] = DivSIOp.create(builder, first, unit, first.hint)
        outer = [it for at, it in enumerate(load.indices[:-1]) if at != found.rows]
        tile = load.tile
        runs = str(replace(tile, shape=(*order.by_place, tile.shape[-1])))
        made = builder.insert(
            Operation(DescriptorLoadOp.NAME, (descriptor, *outer, *indices, load.indices[-1]), (runs,),
                      properties=dict(old.properties), attributes=dict(old.attributes), loc=old.loc,
                      hints=(old.result.hint,))
        )  # fmt: skip
        old.result.replace_all_uses_with(_reshaped(builder, made.result, tile.shape))
        old.erase()

    def descriptor(self, spec: DescriptorSpec, conditions: Sequence[Condition]) -> Value:
        """The argument for a descriptor, which the launcher makes."""
        if spec not in self.known:
            made = replace(spec, argument=len(self.function.body.args))
            value = add_descriptor(self.function, made, len(self.launch.descriptors), self.nested)
            every = dict.fromkeys((*self.launch.conditions, *conditions))
            descriptors = (*self.launch.descriptors, made)
            self.launch = replace(self.launch, descriptors=descriptors, conditions=tuple(every))
            self.known[spec] = value
        return self.known[spec]


class _Places:
    """Values that are computed from scalars alone, with their elements at the places of an order."""

    def __init__(self, order: RowOrder) -> None:
        self.order = order
        self.made: dict[tuple[Value, int], Value] = {}

    def of(self, value: Value, dim: int) -> Value:
        """`value` with its elements along `dim` in the order; the same value if they are all equal."""
        if shape_of(value)[dim] != self.order.size:
            return value
        if (value, dim) not in self.made:
            self.made[value, dim] = self._make(value, dim)
        return self.made[value, dim]

    def _make(self, value: Value, dim: int) -> Value:
        op = value.defining_op
        assert op is not None
        if op.name in _UNIFORM or (ConstantOp.matches(op) and is_splat(op)):
            return value
        sources = _sources(op, dim)
        if sources is None:
            return _to_places(value, dim, self.order)
        operands = {index: self.of(op.operands[index], at) for index, at in sources.items()}
        if all(op.operands[index] is made for index, made in operands.items()):
            return value
        copy = clone_op(op, {})
        for index, made in operands.items():
            copy.set_operand(index, made)
        Builder.after(op).insert(copy)
        return copy.results[value.index]


def _sources(op: Operation, dim: int) -> dict[int, int] | None:
    """The dimension of each operand along which the results have their dimension `dim`; None if that is not known."""
    try:
        return demanded(op, dim) if op.name in _RECOMPUTED else None
    except MixedError:
        return None


def _to_places(value: Value, dim: int, order: RowOrder) -> Value:
    """`value` with its elements along `dim`, which are in the order of rows, at their places."""
    op = value.defining_op
    assert op is not None
    return _permuted(Builder.after(op), value, dim, order.by_row, order.to_places)


def _in_rows(operand: Value, order: RowOrder) -> Value:
    """The operand of a dot with its columns, which are at their places, in the order of rows.

    It is permuted before its elements become narrow: a register has one wide element, and several narrow ones.
    """
    op = operand.defining_op
    assert op is not None
    if op.name not in _NARROWING or _bits(op.operands[0]) != _REGISTER_BITS:
        return _permuted(Builder.after(op), operand, 1, order.by_place, order.to_rows)
    builder = Builder.after(op)
    wide = _permuted(builder, op.operands[0], 1, order.by_place, order.to_rows)
    narrow = builder.insert(clone_op(op, {}))
    narrow.set_operand(0, wide)
    return narrow.result


def _permuted(builder: Builder, value: Value, dim: int, sizes: Sequence[int], order: Sequence[int]) -> Value:
    """Splits a dimension into `sizes`, permutes these, and joins them again."""
    shape = shape_of(value)
    before, behind = shape[:dim], shape[dim + 1 :]
    split = _reshaped(builder, value, (*before, *sizes, *behind))
    dims = [*range(dim), *(dim + at for at in order), *(dim + len(sizes) + at for at in range(len(behind)))]
    transposed = replace(_tile(split), shape=tuple(shape_of(split)[at] for at in dims))
    properties = {"order": array_attr(dims)}
    moved = builder.create(TransOp.NAME, (split,), (str(transposed),), properties=properties, hints=(value.hint,))
    return _reshaped(builder, moved.result, shape)


def _reshaped(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    type = str(replace(_tile(value), shape=shape))
    return builder.create(ReshapeOp.NAME, (value,), (type,), hints=(value.hint,)).result


def _tile(value: Value) -> TensorType:
    type = parse_type(value.type)
    assert isinstance(type, TensorType)
    return type


def _bits(value: Value) -> int:
    element = parse_type(_tile(value).element)
    return element.bits if isinstance(element, ScalarType) else 0
