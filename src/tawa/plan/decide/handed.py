"""Stores of a warp of their own: reductions in loops, unless the Plan says otherwise.

A tile that is stored once per output tile leaves while the next one is computed anyway (`stage_stores`). A reduction in
the loop over the operands follows the last one too closely: the consumers would wait until TMA has read that.
"""

from __future__ import annotations

from tawa.analysis.memory.provenance import stores_must_not_wait
from tawa.analysis.names import Name, name_of, name_text
from tawa.analysis.rings.handed_stores import why_not_handed
from tawa.dialects.tt import DescriptorReduceOp, FuncOp, TMAStore, tma_store
from tawa.errors import PlanError
from tawa.ir import Module, source_of
from tawa.plan.cost.budget import Budget
from tawa.plan.plan import Plan


def handed_stores(module: Module, pins: Plan, budget: Budget, one_warp: bool) -> frozenset[Name]:
    """The stores that a warp of its own issues by default. one_warp: whether the producer is one warp.

    None if the producer's warp group has no room for that warp, or the Plan lists the partitions without it.
    """
    listed = bool(pins.partitions) and all(it.name and it.role != "storer" for it in pins.partitions)
    if listed or not one_warp or budget.one_issues or stores_must_not_wait(module):
        return frozenset()
    stores = [it for it in _stores(module) if DescriptorReduceOp.matches(it.op)]
    return frozenset(name_of(it.op) for it in stores if not why_not_handed(_function(module), it))


def check_handed(module: Module, plan: Plan) -> None:
    """Raises PlanError if the Plan gives a store to a warp of its own that cannot issue it."""
    for store in _stores(module):
        reason = why_not_handed(_function(module), store) if plan.store(name_of(store.op)).store_warp else ""
        if reason:
            where = f"{name_text(name_of(store.op))} ({source_of(module, store.op)})"
            raise PlanError(f"the Plan gives {where} to a store warp, but {reason}; cure: store_warp=false")


def _stores(module: Module) -> list[TMAStore]:
    return [view for op in module.walk() if (view := tma_store(op))]


def _function(module: Module) -> FuncOp:
    return next(view for op in module.body.ops if (view := FuncOp.of(op)))


__all__ = ["check_handed", "handed_stores"]
