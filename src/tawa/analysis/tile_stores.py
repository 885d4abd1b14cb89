"""Stores of tiles through pointers that another tile follows: by TMA, such a store overlaps the next tile.

for tile in …: { for k in …: dot;  store C }         it ends a tile
for k in …: dot;  store C                            so does it where programs are done in turn
"""

from __future__ import annotations

from tawa.analysis.split_rules import shape_of
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DOTS, FuncOp, StoreOp
from tawa.ir import Operation


def tile_stores(function: FuncOp, in_turn: bool) -> list[Operation]:
    """Those stores, in textual order. in_turn: whether programs will be done in turn."""
    ops = [op for op in function.op.walk() if op.name == "tt.store" and _has_rows(op)]
    return [op for op in ops if _ends_a_tile(op, in_turn)]


def _has_rows(store: Operation) -> bool:
    return sum(size > 1 for size in shape_of(StoreOp(store).source)) > 1


def _ends_a_tile(store: Operation, in_turn: bool) -> bool:
    """Whether another tile, made by a loop of its own, follows what a store writes."""
    loops = enclosing_loops(store)
    dots = [dot for op in loops[:1] for dot in op.walk() if dot.name in DOTS]
    return any(enclosing_loops(dot)[0] is not loops[0] for dot in dots) if loops else in_turn


__all__ = ["tile_stores"]
