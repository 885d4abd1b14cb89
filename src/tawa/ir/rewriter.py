"""Building, cloning and replacing operations.

`Builder` inserts at a point and gives every new operation the location of the operation it serves.
`clone_op` copies an operation with its regions under a value map, `copy_module` a whole program.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.ir.attributes import int_attr
from tawa.ir.core import Block, Module, Operation, Region, Value

ValueMap = dict[Value, Value]


class Builder:
    """An insertion point with a location: every `create` goes before `anchor`, or to the end of `block`."""

    def __init__(self, block: Block, anchor: Operation | None = None, loc: str | None = None) -> None:
        self.block = block
        self.anchor = anchor
        self.loc = loc if loc is not None else (anchor.loc if anchor else "unknown")

    @staticmethod
    def before(op: Operation) -> Builder:
        """A builder that inserts right before `op`, with its location."""
        assert op.parent is not None
        return Builder(op.parent, op)

    @staticmethod
    def after(op: Operation) -> Builder:
        """A builder that inserts right behind `op`, with its location."""
        block = op.parent
        assert block is not None
        index = block.index_of(op) + 1
        anchor = block.ops[index] if index < len(block.ops) else None
        return Builder(block, anchor, op.loc)

    @staticmethod
    def at_end(block: Block, loc: str = "unknown") -> Builder:
        """A builder that appends to `block`."""
        return Builder(block, None, loc)

    @staticmethod
    def at_start(block: Block, loc: str = "unknown") -> Builder:
        """A builder that inserts at the start of `block`."""
        return Builder(block, block.ops[0] if block.ops else None, loc)

    def insert(self, op: Operation) -> Operation:
        """Puts a finished operation at the point."""
        if self.anchor is None:
            return self.block.append(op)
        return self.block.insert(self.block.index_of(self.anchor), op)

    def create(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[str] = (),
        *,
        properties: dict[str, str] | None = None,
        attributes: dict[str, str] | None = None,
        regions: Sequence[Region] = (),
        hints: Sequence[str] = (),
    ) -> Operation:
        """Builds an operation at the point, with this builder's location."""
        return self.insert(
            Operation(
                name,
                operands,
                result_types,
                properties=properties,
                attributes=attributes,
                regions=regions,
                loc=self.loc,
                hints=hints,
            )
        )

    def constant(self, value: int, type: str = "i32") -> Value:
        """An ``arith.constant`` integer; i1 takes 0 and 1."""
        text = ("true" if value else "false") if type == "i1" else int_attr(value, type)
        return self.create("arith.constant", (), (type,), properties={"value": text}).result


def clone_op(op: Operation, mapping: ValueMap) -> Operation:
    """A detached copy of `op` with its regions. Operands go through `mapping`, which learns the new results."""
    copy = Operation(
        op.name,
        [mapping.get(operand, operand) for operand in op.operands],
        [result.type for result in op.results],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        loc=op.loc,
        hints=[result.hint for result in op.results],
    )
    mapping.update(zip(op.results, copy.results, strict=True))
    for region in op.regions:
        copy.add_region(clone_region(region, mapping))
    return copy


def copy_module(module: Module) -> Module:
    """An independent copy of the module."""
    return Module(clone_op(module.op, {}), dict(module.aliases), dict(module.locs))


def clone_region(region: Region, mapping: ValueMap) -> Region:
    """A detached copy of a region; branches between its own blocks stay inside the copy."""
    blocks = {block: Block() for block in region.blocks}
    for block, copy in blocks.items():
        for arg in block.args:
            mapping[arg] = copy.add_arg(arg.type, arg.hint, arg.loc)
    for block, copy in blocks.items():
        for op in block.ops:
            nested = copy.append(clone_op(op, mapping))
            nested.successors = [blocks.get(successor, successor) for successor in op.successors]
    return Region(list(blocks.values()))


def replace_op(op: Operation, values: Sequence[Value]) -> None:
    """Replaces the results of `op` by `values` and erases `op`."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
