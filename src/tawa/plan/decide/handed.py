"""Stores of a warp of their own: only where a Plan asks for one."""

from __future__ import annotations

from tawa.analysis.names import name_of, name_text
from tawa.analysis.rings.handed_stores import why_not_handed
from tawa.dialects.tt import FuncOp, TMAStore, tma_store
from tawa.errors import PlanError
from tawa.ir import Module, source_of
from tawa.plan.plan import Plan


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


__all__ = ["check_handed"]
