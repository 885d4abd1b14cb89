"""Slices of stores: a tile of 32-bit elements is staged in slices where the whole of it would shorten the rings.

A staged tile of float32 is as large as the accumulators: 128 KiB for 128 x 256, which leaves two slots of 48 KiB. In
two slices through one buffer it takes 64 KiB, as much as in 16 bits, and the rings keep their usual depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tawa.analysis.layout.sliced_stores import why_no_slices
from tawa.analysis.names import name_of
from tawa.dialects.tt import TMAStore, tma_store
from tawa.ir import Module, ScalarType, TensorType, parse_type
from tawa.plan.cost.budget import Channels
from tawa.plan.defaults import DEFAULT_DEPTH
from tawa.plan.fields import StorePlan
from tawa.plan.plan import Plan

SLICES = (2, 4)
WHY = "in slices, so that the rings keep their slots"
_WIDE_BITS = 32


def sliced(module: Module, plan: Plan, channels: Channels, deepest: Callable[[Plan], int]) -> Plan:
    """The Plan with the fewest slices that leave the usual depth to the rings; without them if they do not help.

    plan: so far. deepest: the largest D that fits for a Plan. Stores whose slices the Plan says, or that cannot leave
    in slices, are left as they are.
    """
    stores = list(_open(module, plan))
    before = deepest(plan) if stores and channels else DEFAULT_DEPTH
    for slices in SLICES if before < DEFAULT_DEPTH else ():
        entries = tuple(
            StorePlan(*name_of(it.op), slices=slices, buffers=1) for it in stores if not why_no_slices(it, slices)
        )
        found = plan.over(Plan(stores=entries))
        if entries and deepest(found) >= DEFAULT_DEPTH:
            return found
    return plan


def _open(module: Module, plan: Plan) -> Iterator[TMAStore]:
    """The stores of wide elements that a Plan leaves in one piece or several."""
    for store in (view for op in module.walk() if (view := tma_store(op))):
        tile, asked = parse_type(store.source.type), plan.store(name_of(store.op))
        element = parse_type(tile.element) if isinstance(tile, TensorType) else None
        wide = isinstance(element, ScalarType) and element.bits >= _WIDE_BITS
        if wide and asked.slices is None and asked.buffers is None and asked.staged is not False:
            yield store
