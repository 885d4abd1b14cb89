"""Checks that launch options do not contradict the Plan that they are given with."""

from __future__ import annotations

from collections.abc import Iterator

from tawa.errors import PlanError
from tawa.plan.decision import declared
from tawa.plan.fields import Path
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan

STOCK = Plan(form="stock")
"""Asks for stock Triton's kernel."""
_BY_TMA: frozenset[Path | None] = frozenset({"promoted", "promoted_in_kernel"})
_BY_POINTERS: frozenset[Path | None] = frozenset({"pointers", "cp.async", "registers"})


def check_agreement(options: PlanOptions, plan: Plan | None) -> None:
    """Raises PlanError if an option contradicts the Plan."""
    found = contradictions(options, plan) if plan is not None else {}
    for name, said in found.items():
        value = getattr(options, name)
        raise PlanError(f"{name}={value!r} contradicts the plan, which has {said}; cure: give one of them")


def contradictions(options: PlanOptions, plan: Plan) -> dict[str, str]:
    """The options that the Plan contradicts, by name, each with what the Plan has instead."""
    return {name: said for name, said in _said(options, plan) if said}


def _said(options: PlanOptions, plan: Plan) -> Iterator[tuple[str, str]]:
    if options.enable_warp_specialization is False and plan.form != "stock":
        yield "enable_warp_specialization", "decisions for a specialised kernel"
    if options.enable_warp_specialization and plan.form == "stock":
        yield "enable_warp_specialization", "form='stock'"
    loaded = [it for it in plan.rings if it.is_loaded]
    depths = sorted({it.depth for it in loaded if it.depth is not None})
    if options.aref_depth is not None and depths not in ([], [options.aref_depth]):
        yield "aref_depth", f"D = {depths}"
    # A loop with a schedule has P = 0, whatever the option says.
    deep = [it.mma_depth for it in plan.loops if it.mma_depth is not None and it.schedule is None]
    if options.mma_depth is not None and deep and max(deep) != options.mma_depth:
        yield "mma_depth", f"P = {max(deep)}"
    groups = plan.groups or plan.consumer_groups
    if options.num_consumer_groups is not None and groups and groups != options.num_consumer_groups:
        yield "num_consumer_groups", f"groups={groups}"
    for it in declared(Plan):
        own = getattr(plan, it.name)
        if it.option == it.name and own is not None and getattr(options, it.option) not in (None, own):
            yield it.option, f"{it.name}={own!r}"
    if options.precision == "exact":
        yield from (("precision", said) for said in plan.reordering)
    yield from _persistent(options, plan)
    paths = {entry.path for entry in (*plan.operands, *plan.stores)}
    loads = {entry.path for entry in plan.operands if entry.path is not None}
    if options.pointer_loads == "cp.async" and paths & _BY_TMA:
        yield "pointer_loads", f"path={min(str(it) for it in paths & _BY_TMA)!r}"
    if options.pointer_loads == "tma" and loads and loads <= _BY_POINTERS:
        yield "pointer_loads", f"path={min(str(it) for it in loads)!r}"


def _persistent(options: PlanOptions, plan: Plan) -> Iterator[tuple[str, str]]:
    if options.persistent is not None and plan.form is not None and (plan.form == "persistent") != options.persistent:
        stock = plan.form == "stock" and not options.persistent
        yield "persistent", "" if stock else f"form={plan.form!r}"
