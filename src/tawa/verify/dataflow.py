"""How values flow through loops, branches and partitions: what each block argument and each result may be."""

from __future__ import annotations

from tawa.dialects.ttg import WarpSpecializeOp
from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import read_array


def flow_of(ops: list[Operation]) -> dict[Value, list[Value]]:
    """For each block argument and each result of control flow: the values it may be."""
    flow: dict[Value, list[Value]] = {}

    def link(targets: list[Value], sources: list[Value]) -> None:
        for target, source in zip(targets, sources, strict=False):
            flow.setdefault(target, []).append(source)

    for op in ops:
        match op.name:
            case "scf.for":
                body = op.regions[0].block
                for targets in (body.args[1:], op.results):
                    link(targets, op.operands[3:])
                    link(targets, body.terminator.operands)
            case "scf.if":
                for region in op.regions:
                    if region.blocks and region.blocks[0].ops:
                        link(op.results, region.block.terminator.operands)
            case "scf.while":
                before, after = op.regions[0].block, op.regions[1].block
                link(before.args, op.operands)
                link(before.args, after.terminator.operands)
                link(after.args, before.terminator.operands[1:])
                link(op.results, before.terminator.operands[1:])
            case "ttg.warp_specialize":
                view = WarpSpecializeOp(op)
                link(op.results, view.default.terminator.operands)
                for block in view.partitions:
                    link(block.args, captures(op))
            case "warp.group":
                link(op.results, op.regions[0].block.terminator.operands)
            case "cf.br":
                link(op.successors[0].args, op.operands)
            case "cf.cond_br":
                for block, values in branches(op):
                    link(block.args, values)
            case _:
                pass
    return flow


def captures(op: Operation) -> list[Value]:
    """What ``ttg.warp_specialize`` hands to its partitions, in the spelling of 3.6 or 3.9."""
    return op.operands or op.regions[1].block.ops[0].operands


def branches(op: Operation) -> list[tuple[Block, list[Value]]]:
    """The two targets of ``cf.cond_br``, each with what it is given."""
    _, yes, no = read_array(op.properties.get("operandSegmentSizes", "array<i32: 1, 0, 0>"))
    given = op.operands[1:]
    return [(op.successors[0], given[:yes]), (op.successors[1], given[yes : yes + no])]
