"""Outline partitions: groups become the regions of one ``ttg.warp_specialize``.

    warp.group consumer { A }            ttg.warp_specialize(captures) {requestedRegisters = [24]}
    warp.group producer { B }      →       default   { A; warp_yield }
                                           partition0(args) num_warps(1) { B'; warp_return }

The first consumer becomes the default region: it runs in the kernel's own warps, may use values from above, and its
results are the results of the operation. The regions of the other consumers, of converters and of the producers are
isolated from above: the values that they use are captured as operands.

Requires: `lower_arefs`; at least one consumer group.
Ensures: plain TTGIR that Triton's back end accepts (3.6 spelling; see `tawa.bridge.triton.versions` for others).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.ttg import WarpReturnOp, WarpSpecializeOp, WarpSpecializePartitionsOp, WarpYieldOp
from tawa.dialects.warp import GroupOp, find_groups, order_beside
from tawa.ir import Block, Builder, Module, Operation, Region, Value
from tawa.ir.attributes import array_attr
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class OutlinePartitions:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Replaces the groups of the kernel."""
        groups = find_groups(module)
        if not groups:
            return PassResult(changed=False)
        consumers = [group for group in groups if group.role == "consumer"]
        beside = [group for group in groups if group.role != "consumer"]
        beside.sort(key=lambda group: order_beside(group.num_warps, group.role))
        others = [*consumers[1:], *beside]
        captures = _captures(others)
        regions = [_isolate(group, captures) for group in others]
        holder = Operation(WarpSpecializePartitionsOp.NAME, regions=regions, loc=groups[0].op.loc)
        registers = [group.registers for group in others]
        properties = {"partitionNumWarps": array_attr([group.num_warps for group in others])}
        if all(count is not None for count in registers):
            properties["requestedRegisters"] = array_attr([count for count in registers if count is not None])
        builder = Builder.before(groups[0].op)
        results = consumers[0].op.results
        joined = builder.create(
            WarpSpecializeOp.NAME,
            captures,
            [result.type for result in results],
            properties=properties,
            regions=[_take(consumers[0], WarpYieldOp.NAME), Region([_block_of(holder)])],
        )
        for result, new in zip(results, joined.results, strict=True):
            new.hint = result.hint
            result.replace_all_uses_with(new)
        for group in groups:
            group.op.erase()
        return PassResult(changed=True)


def _block_of(op: Operation) -> Block:
    block = Block()
    block.append(op)
    return block


def _captures(groups: list[GroupOp]) -> list[Value]:
    """Values from above that the groups use, in the order of first use."""
    captures: list[Value] = []
    for group in groups:
        inside: set[Value] = set()
        for op in group.op.walk():
            inside.update(op.results)
            inside.update(arg for region in op.regions for block in region.blocks for arg in block.args)
            captures += [value for value in dict.fromkeys(op.operands) if value not in inside and value not in captures]
    return captures


def _take(group: GroupOp, terminator: str) -> Region:
    """Moves the group's block into a new region and replaces its terminator."""
    block = group.body
    group.op.regions[0].blocks.remove(block)
    end = block.terminator
    values = list(end.operands)
    end.erase()
    block.append(Operation(terminator, values, loc=end.loc))
    return Region([block])


def _isolate(group: GroupOp, captures: list[Value]) -> Region:
    """Like `_take`, with the captured values as block arguments."""
    region = _take(group, WarpReturnOp.NAME)
    block = region.block
    for value in captures:
        arg = block.add_arg(value.type, value.hint)
        for use in list(value.uses):
            if _within(use.op, block):
                use.op.set_operand(use.index, arg)
    return region


def _within(op: Operation, block: Block) -> bool:
    return op.parent is block or any(outer.parent is block for outer in op.ancestors())
