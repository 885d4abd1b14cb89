"""Release fences: what threads loaded from a slot, TMA may write only behind a proxy fence of theirs.

A load may still be on its way when its thread arrives at a barrier. What another thread writes keeps behind it all the
same, but TMA writes through the async proxy: without a fence, tiles were overwritten while they were read (seen on an
H200 with two CTAs an SM, where loads queue behind the other's stores).

    local_load; fence; arrive(empty)                            a fence for the release
    local_load; local_store; fence; arrive(empty); wgmma        that for the operand computed meanwhile does, too

Source: PTX ISA, "Async proxy".
"""

from __future__ import annotations

from tawa.dialects.ttng import FenceAsyncSharedOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Operation, Value

FENCE = FenceAsyncSharedOp.NAME


def is_fenced(load: Operation, release: Operation) -> bool:
    """Whether a fence stands between a load from a slot and the release of that slot, or they are of two partitions.

    It stands behind the load, in its block; a release between the two may be that of the same round.
    """
    if _partition(load) is not _partition(release):
        return True
    block = load.parent
    assert block is not None
    at = block.index_of(load)
    fence = next((place for place, op in enumerate(block.ops) if place > at and op.name == FENCE), None)
    inside = release.within(block)
    return fence is not None and (inside is None or not at < block.index_of(inside) < fence)


def fence_behind(release: Operation, ring: Value) -> Operation | None:
    """The next fence of the block; None where the ring is used before, or the block ends."""
    block = release.parent
    assert block is not None
    for op in block.ops[block.index_of(release) + 1 :]:
        if op.name == FENCE:
            return op
        if op.regions or ring in op.operands:
            return None
    return None


def _partition(op: Operation) -> Operation | None:
    return next((outer for outer in op.ancestors() if GroupOp.of(outer)), None)


__all__ = ["FENCE", "fence_behind", "is_fenced"]
