"""Tile stores: pointer stores at the end of a tile. As TMA stores they overlap with the loads of the next tile.

for tile in …: { for k in …: dot;  store C }         qualifies
for k in …: dot;  store C                            qualifies if the kernel will be persistent

A store to the same address in every iteration does not qualify: TMA stores to one address are unordered.
"""

from __future__ import annotations

from tawa.dialects.control_flow import holder_of
from tawa.dialects.declare.declaration import global_address
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DOTS, FuncOp, StoreOp
from tawa.ir import Operation, Value, Worklist
from tawa.symbolic.dim_relations import has_rows


def tile_stores(function: FuncOp, persistent: bool) -> list[Operation]:
    """The tile stores, in textual order. persistent: whether the kernel will be persistent."""
    ops = [op for op in function.op.walk() if StoreOp.matches(op) and has_rows(StoreOp(op).source)]
    return [op for op in ops if _ends_a_tile(op, persistent)]


def _ends_a_tile(store: Operation, persistent: bool) -> bool:
    """Whether the store follows an inner loop with dots and another tile follows the store."""
    loops = enclosing_loops(store)
    if not loops:
        return persistent
    dots = [op for op in loops[0].walk() if op.name in DOTS]
    ends = any(enclosing_loops(dot)[0] is not loops[0] for dot in dots)
    return ends and all(_varies_in(global_address(store), loop) for loop in loops)


def _varies_in(address: Value, loop: Operation) -> bool:
    """Whether an address depends on the induction variable or on a loop-carried value of `loop`."""
    work = Worklist([address])
    for value in work:
        maker = holder_of(value)
        if maker is loop:
            return True
        if maker is not None and loop.is_ancestor_of(maker):
            work += maker.operands
            work += [end for region in maker.regions for block in region.blocks for end in block.terminator.operands]
    return False
