"""Keep operands: a left operand that does not change in a loop is read from shared memory once.

    %a = local_alloc %q                              %a = local_alloc %q
    for … {                                          %r = local_load %a → dot operand, in registers
      %s = warp_group_dot %a, %b, %c }         →     for … {
                                                       %s = warp_group_dot %r, %b, %c }

A wgmma reads A and B from shared memory at 128 bytes a cycle. One of 64 x 64 x 16 in fp16 wants 4 KiB, 32 cycles, and
computes for 32: together with the other dot of an attention loop, and TMA, shared memory sets the pace. With A in
registers it wants half. FlexAttention (64 keys at a time) on an H200: 568 → 590 TFLOP/s (bench/results/flex.json).

It is done where the tiles of the loop leave registers for it, for numbers of 16 bits.

Requires: `partition`.
Ensures: the same products of the same numbers. The tile is complete when it is loaded: what fills it stands before.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.scf import enclosing_loops
from tawa.dialects.ttg import LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Builder, MemDescType, Module, Operation, TensorType, Value, parse_type
from tawa.transforms.result import PassResult

_THREADS = 32
_HALVES = ("f16", "bf16")
MOST_REGISTERS = 168
"""Of a thread, for the results of a loop's dots and for operands that are kept; above, kernels were seen to spill."""


@dataclass(frozen=True, slots=True)
class KeepOperands:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites the dots of every loop of a consumer for whose operands there is room."""
        changed = False
        for group in find_groups(module):
            if group.role == "consumer":
                dots = [dot for op in group.op.walk() if (dot := WarpGroupDotOp.of(op)) and enclosing_loops(op)]
                loops = dict.fromkeys(enclosing_loops(dot.op)[0] for dot in dots)
                for loop in loops:
                    inside = [dot for dot in dots if enclosing_loops(dot.op)[0] is loop]
                    changed |= _keep([dot for dot in inside if _stays(dot, loop)], inside, group)
        return PassResult(changed)


def _stays(dot: WarpGroupDotOp, loop: Operation) -> bool:
    """Whether A is a tile of halves that the consumer itself puts into shared memory in front of the loop."""
    made = None if dot.a_in_registers else LocalAllocOp.of(dot.a.defining_op)
    tile = parse_type(dot.a.type)
    if made is None or made.source is None or loop.is_ancestor_of(made.op):
        return False
    return isinstance(tile, MemDescType) and tile.element in _HALVES


def _keep(found: list[WarpGroupDotOp], inside: list[WarpGroupDotOp], group: GroupOp) -> bool:
    """Keeps the operands of the dots that were found, if there is room beside the results of all dots inside."""
    threads = _THREADS * group.num_warps
    operands = dict.fromkeys((dot.a, _kept_type(dot)) for dot in found)
    tiles = [type for _, type in operands] + [parse_type(dot.op.result.type) for dot in inside]
    if not found or sum(tile.bytes for tile in tiles if isinstance(tile, TensorType)) > 4 * threads * MOST_REGISTERS:
        return False
    kept: dict[tuple[Value, TensorType], Value] = {}
    for a, type in operands:
        assert a.defining_op is not None
        builder = Builder.after(a.defining_op)
        kept[a, type] = builder.create("ttg.local_load", (a,), (str(type),), hints=(a.hint,)).result
    for dot in found:
        dot.op.set_operand(0, kept[dot.a, _kept_type(dot)])
    return True


def _kept_type(dot: WarpGroupDotOp) -> TensorType:
    tile, result = parse_type(dot.a.type), parse_type(dot.op.result.type)
    assert isinstance(tile, MemDescType) and isinstance(result, TensorType)
    layout = f"#ttg.dot_op<{{opIdx = 0, parent = {result.encoding}, kWidth = 2}}>"
    return TensorType(tile.shape, tile.element, layout)
