"""Handed stores: whether a warp of its own can issue a store by TMA, while the consumers compute.

That warp executes the loops and branches around the store, and computes where the tile goes. It must be able to do so
from numbers alone: it holds no tiles, reads no memory, and makes no descriptors.
"""

from __future__ import annotations

from tawa.analysis.memory.provenance import own_maker
from tawa.analysis.rings.slices import slice_from
from tawa.dialects.effects import is_pure
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import CONTROL, enclosing_loops
from tawa.dialects.tt import FuncOp, TMAStore
from tawa.symbolic.words import word_of


def why_not_handed(function: FuncOp, store: TMAStore) -> str:
    """Why no other warp can issue a store; empty if one can."""
    if not enclosing_loops(store.op):
        return "it is not in a loop, so nothing is left to compute meanwhile"
    if own_maker(store.descriptor) is not None:
        return "a loop makes its descriptor"
    around = [op for op in store.op.ancestors() if op.name in CONTROL]
    if any(map(GroupIndexOp.matches, slice_from(around, function.op).ops)):
        return "consumer groups do not store equally often"
    for op in slice_from(around, function.op, values=[store.descriptor, *store.indices]).ops:
        if op.name in CONTROL or GroupIndexOp.matches(op):
            continue
        if not is_pure(op):
            return f"where it goes depends on {word_of(op)}"
        if any(it.type.startswith("tensor<") for it in op.results):
            return "where it goes depends on a tile"
    return ""
