"""Split rows: rewrites the program for a whole tile into the program of one consumer group, on TTIR.

    %r = make_range {0..128}                     %g = elementwise_inline_asm "tawa.group"(2)
    %rows = addi splat(%row), %r                 %offset = muli %g, 64
    %q = descriptor_load %d, %row, 0        →    %r = addi make_range {0..64}, splat(%offset)
    %s = dot %q, %k, %zeros : 128x128            %rows = addi splat(%row), %r
    descriptor_store %o, %s, %row, 0             %q = descriptor_load %d, (addi %row, %offset), 0
                                                 %s = dot %q, %k, %zeros : 64x128
                                                 descriptor_store %o, %s, (addi %row, %offset), 0

The boxes of %d and %o are halved in the types of the kernel's arguments, because the launcher reads the box of a host
descriptor from there. The group index stays a marker (`tawa.dialects.inline.markers.GroupIndexOp`) until the consumer's
partition is cloned. Loop bounds and branches do not change, so all groups have the same trip counts.

Requires: TTIR without layouts.
Ensures: running the program once per group index computes and stores the same elements as the whole program.
Declines: never; `tawa.analysis.dims.split_dims` finds the operations that need more than the group's part of a tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.analysis.dims.split_dims import SplitInfo
from tawa.dialects.arith import AddIOp, ConstantOp, MulIOp
from tawa.dialects.inline.markers import GroupIndexOp, PartOfTileOp, WholeTileOp
from tawa.dialects.tt import DescriptorLoadOp, FuncOp, GatherOp, MakeRangeOp, SplatOp, TMAStore, tma_store
from tawa.ir import Builder, Module, Operation, TensorDescType, TensorType, Value, clone_op, parse_type, source_of
from tawa.ir.attributes import int_attr, read_int
from tawa.remarks import Remark
from tawa.symbolic.dim_relations import demanded, shape_of
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class SplitRows:
    """info: what the groups divide, and what follows from it, found in the module."""

    info: SplitInfo

    def run(self, module: Module) -> PassResult:
        """Rewrites the kernel for one group."""
        info = self.info
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        _Rewrite(function, info).run()
        text = f"{info.size} {info.axis} are split over {info.groups} groups of {info.part}"
        return PassResult(True, (Remark("note", text, source_of(module, function.op)),))


class _Rewrite:
    """The rewrite of one kernel."""

    def __init__(self, function: FuncOp, info: SplitInfo) -> None:
        self.function = function
        self.info = info
        self.top = Builder.at_start(function.body, function.op.loc)
        self.group = GroupIndexOp.create(self.top, info.groups)
        self.offsets: dict[int, Value] = {}
        self.versions: dict[tuple[Value, int], Value] = {}

    def run(self) -> None:
        """Rewrites freely splittable values first, while all types are still those of the whole tile."""
        for (op, index), dim in self.info.uses.items():
            op.set_operand(index, self.version(op.operands[index], dim))
        views = [DescriptorLoadOp.of(op) or tma_store(op) for op in self.function.op.walk()]
        for access in views:
            if access and access.descriptor in self.info.dims:
                self.shift(access, self.info.dims[access.descriptor])
        for value, dim in self.info.dims.items():
            value.type = part_type(value.type, dim, self.info.groups)
        for op in list(self.function.op.walk()):
            if (part := PartOfTileOp.of(op)) or WholeTileOp.of(op):
                self.hand_over(op, "part" if part else "whole")
        self.retype_function()
        self.drop_unused()

    def offset(self, part: int) -> Value:
        """The offset of a group's part of `part` elements; emitted once, at the top of the function."""
        if part not in self.offsets:
            self.offsets[part] = MulIOp.create(self.top, self.group, self.top.constant(part), "offset")
        return self.offsets[part]

    def hand_over(self, op: Operation, what: str) -> None:
        """Lets a marker have an operand and a result of different sizes; the indices of the gather mean nothing."""
        source = op.operands[0]
        changed = [
            dim for dim, it in enumerate(zip(shape_of(source), shape_of(op.result), strict=True)) if it[0] != it[1]
        ]
        if not changed:
            op.result.replace_all_uses_with(source)
            op.erase()
            return
        type = parse_type(op.result.type)
        assert isinstance(type, TensorType)
        builder = Builder.after(op)
        indices = builder.create(ConstantOp.NAME, (), (str(replace(type, element="i32")),), properties={}).result
        assert indices.defining_op is not None
        indices.defining_op.properties["value"] = f"dense<0> : {indices.type}"
        gathered = builder.create(GatherOp.NAME, (op.result, indices), (op.result.type,), hints=(op.result.hint,))
        gathered.properties["axis"] = int_attr(changed[0])
        for use in [use for use in op.result.uses if use.op is not gathered]:
            use.op.set_operand(use.index, gathered.result)
        op.result.type = source.type

    def shift(self, access: DescriptorLoadOp | TMAStore, dim: int) -> None:
        """Adds the group's offset to the index of a box along `dim`."""
        start = access.indices[dim]
        offset = self.offset(shape_of(access.descriptor)[dim] // self.info.groups)
        shifted = AddIOp.create(Builder.before(access.op), start, offset, start.hint)
        access.op.set_operand(type(access).indices.first + dim, shifted)

    def version(self, value: Value, dim: int) -> Value:
        """The group's part along `dim` of a value that can be split along any dimension (a range, a constant, …)."""
        known = self.versions.get((value, dim))
        if known is not None:
            return known
        op = value.defining_op
        assert op is not None
        if MakeRangeOp.matches(op):
            made = [self.part_of_range(op)]
        else:
            copy = clone_op(op, {})
            for index, at in demanded(op, dim).items():
                copy.set_operand(index, self.version(op.operands[index], at))
            for result in copy.results:
                result.type = part_type(result.type, dim, self.info.groups)
            if ConstantOp.matches(op):
                copy.properties["value"] = f"{op.properties['value'].rpartition(' : ')[0]} : {copy.result.type}"
            made = Builder.after(op).insert(copy).results
        self.versions.update({(result, dim): part for result, part in zip(op.results, made, strict=True)})
        return self.versions[value, dim]

    def part_of_range(self, op: Operation) -> Value:
        """``start .. start + size/G`` plus the group's offset."""
        start = read_int(op.properties["start"])
        part = (read_int(op.properties["end"]) - start) // self.info.groups
        type = part_type(op.result.type, 0, self.info.groups)
        builder = Builder.after(op)
        properties = {"end": int_attr(start + part), "start": int_attr(start)}
        numbers = builder.create(MakeRangeOp.NAME, (), (type,), properties=properties, hints=(op.result.hint,)).result
        offset = builder.create(SplatOp.NAME, (self.offset(part),), (type,)).result
        return AddIOp.create(builder, numbers, offset, op.result.hint)

    def retype_function(self) -> None:
        """Updates the function's type to the types of its arguments."""
        _, arrow, results = self.function.op.properties["function_type"].rpartition(" -> ")
        arguments = ", ".join(arg.type for arg in self.function.body.args)
        self.function.op.properties["function_type"] = f"({arguments}){arrow}{results}"

    def drop_unused(self) -> None:
        """Erases the whole-tile versions of freely splittable values that have no uses left."""
        free = {value.owner: None for value, _ in self.versions if isinstance(value.owner, Operation)}
        for op in reversed([op for op in self.function.op.walk() if op in free]):
            if not any(result.uses for result in op.results):
                op.erase()


def part_type(text: str, dim: int, groups: int) -> str:
    """The type of a group's part of a tile or box, in the same spelling as the type of the whole."""
    type = parse_type(text)
    whole = type.block if isinstance(type, TensorDescType) else type
    assert isinstance(whole, TensorType)
    part = replace(whole, shape=(*whole.shape[:dim], whole.shape[dim] // groups, *whole.shape[dim + 1 :]))
    return str(replace(type, block=part) if isinstance(type, TensorDescType) else part)
