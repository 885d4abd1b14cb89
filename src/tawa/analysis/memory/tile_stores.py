"""Stores of tiles through pointers that another tile follows: by TMA, such a store overlaps the next tile.

for tile in …: { for k in …: dot;  store C }         it ends a tile
for k in …: dot;  store C                            so does it where programs are done in turn

One that goes to the same place in each turn of a loop is none: of two TMA stores nobody knows which comes last.
"""

from __future__ import annotations

from tawa.dialects.control_flow import holder_of
from tawa.dialects.declare.declaration import global_address
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DOTS, FuncOp, StoreOp
from tawa.ir import Operation, Value
from tawa.symbolic.dim_relations import has_rows


def tile_stores(function: FuncOp, in_turn: bool) -> list[Operation]:
    """Those stores, in textual order. in_turn: whether programs will be done in turn."""
    ops = [op for op in function.op.walk() if StoreOp.matches(op) and has_rows(StoreOp(op).source)]
    return [op for op in ops if _ends_a_tile(op, in_turn)]


def _ends_a_tile(store: Operation, in_turn: bool) -> bool:
    """Whether another tile, made by a loop of its own, follows what a store writes."""
    loops = enclosing_loops(store)
    if not loops:
        return in_turn
    dots = [op for op in loops[0].walk() if op.name in DOTS]
    ends = any(enclosing_loops(dot)[0] is not loops[0] for dot in dots)
    return ends and all(_moves_with(global_address(store), loop) for loop in loops)


def _moves_with(address: Value, loop: Operation) -> bool:
    """Whether an address depends on what changes from one turn of a loop to the next."""
    work, seen = [address], set[Value]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        maker = holder_of(value)
        if maker is loop:
            return True
        if maker is not None and loop.is_ancestor_of(maker):
            work += maker.operands
            work += [end for region in maker.regions for block in region.blocks for end in block.terminator.operands]
    return False


__all__ = ["tile_stores"]
