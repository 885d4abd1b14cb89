"""Proxy fences around the slots of rings: who reads a slot by which proxy, and which fence is there already."""

from __future__ import annotations

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.ttg import LocalLoadOp
from tawa.dialects.ttng import FenceAsyncSharedOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Operation, Value

FENCE = FenceAsyncSharedOp.NAME


def read_by_async_proxy(view: Value) -> bool:
    """Whether a slot has readers other than loads into registers."""
    return len(loads_of(view)) < len(slot_readers(view))


def loads_of(view: Value) -> list[Operation]:
    """The loads into registers that read a slot."""
    return [reader for reader in slot_readers(view) if LocalLoadOp.matches(reader)]


def is_fenced(load: Operation, release: Operation) -> bool:
    """Whether a fence separates a load from a slot and the release of that slot, or the release is of another slot.

    The fence must follow the load in its block, with no release in between, which could be that of the same round. A
    release in another partition, or in a loop beside that of the load, is of another slot.
    """
    if _partition(load) is not _partition(release):
        return True
    block, other = load.parent, release.parent
    assert block is not None and other is not None
    if load.within(other) is None and release.within(block) is None:
        return True
    at = block.index_of(load)
    fence = next((place for place, op in enumerate(block.ops) if place > at and op.name == FENCE), None)
    inside = release.within(block)
    return fence is not None and (inside is None or not at < block.index_of(inside) < fence)


def next_fence(release: Operation, ring: Value) -> Operation | None:
    """The next fence in the block after `release`; None if the ring is used, or a region follows, before it."""
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
