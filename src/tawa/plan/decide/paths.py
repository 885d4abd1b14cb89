"""The decisions on TTIR: pointer accesses to replace by TMA, and unit strides.

If Triton launches the kernel, the launcher creates the descriptors of promoted loads. Otherwise the kernel creates
them, which costs each CTA a few microseconds; loads are then not promoted if a CTA has little work (one tile of a GEMM,
`bench/results/pointers.json`), unless the user asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tawa.analysis.loops.chained_dots import has_chained_dots
from tawa.analysis.names import name_of, name_text
from tawa.analysis.rings.loads import find_dots
from tawa.analysis.tma.promotions import AccessInfo, Make, PromotionInfo, find_promotions
from tawa.analysis.tma.unit_strides import find_unit_strides
from tawa.declines import POINTER_LOADS
from tawa.dialects.scf import enclosing_loops
from tawa.errors import PlanError
from tawa.ir import Module, Operation
from tawa.plan.decide.operands import names_in
from tawa.plan.fields import OperandPlan, Path, StorePlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.reasons import operand_field
from tawa.remarks import Remark
from tawa.symbolic.dim_relations import has_rows
from tawa.symbolic.host.expr import Argument

BY_TMA: frozenset[Path] = frozenset({"promoted", "promoted_in_kernel"})

TOO_DEAR = (
    "loads stay with pointers: this compile is not for a launch by Triton, so the kernel would have to create its "
    "TMA descriptors, which costs more than it gains if a program computes one tile"
)


@dataclass(frozen=True, slots=True)
class Launching:
    """Who launches the kernel.

    ours: whether Triton launches the kernel; then arguments can be added. may_be_one: parameters that Triton does not
    specialise on the value 1. nested: whether descriptor types are spelled as in Triton 3.6 and 3.7.
    """

    ours: bool = False
    may_be_one: frozenset[str] = frozenset()
    nested: bool = True


@dataclass(frozen=True, slots=True)
class Promotion:
    """The accesses that TMA makes in place of pointers. info: the analysis of all accesses.

    why: the reasons for accesses that keep their pointers, by field of the Plan. refusal: why ``pointer_loads="tma"``
    cannot be met; None if it can, or was not asked for.
    """

    info: PromotionInfo
    loads: frozenset[Operation]
    stores: frozenset[Operation]
    plan: Plan
    why: dict[str, str] = field(default_factory=dict[str, str])
    refusal: Remark | None = None


def choose_unit_strides(module: Module, launching: Launching, pins: Plan) -> tuple[Argument, ...]:
    """The arguments that the kernel assumes to be 1. Raises PlanError if a pinned one is impossible."""
    found = find_unit_strides(module, launching.may_be_one)
    if pins.unit_strides is None:
        return found
    unknown = [name for name in pins.unit_strides if name not in {it.name for it in found}]
    if unknown:
        known = ", ".join(it.name for it in found) or "none"
        raise PlanError(
            f"the Plan assumes {', '.join(unknown)} to be 1; the kernel allows that for these strides: {known}; "
            "cure: unit_strides without it"
        )
    return tuple(it for it in found if it.name in pins.unit_strides)


def choose_promotions(module: Module, options: PlanOptions, launching: Launching, pins: Plan) -> Promotion | Remark:
    """Chooses the accesses of a named module that TMA replaces. A Remark says why there are none.

    Raises PlanError if a pinned one is impossible.
    """
    asked = [it for it in pins.operands if it.path in BY_TMA]
    persistent = pins.form == "persistent"
    may_make = bool(options.wherever_legal or options.pointer_loads or asked or _is_long(module))
    if not launching.ours and not may_make:
        return Remark("note", TOO_DEAR)
    make: Make = "host" if launching.ours else "kernel"
    promotions = find_promotions(module, make, launching.nested, tables=may_make, persistent=persistent)
    if make == "host" and any(_made_otherwise(promotions, it) for it in asked):
        promotions = find_promotions(module, "kernel", launching.nested, tables=may_make, persistent=persistent)
    _check(module, promotions.loads, asked, "operand", launching)
    _check(module, promotions.stores, [it for it in pins.stores if it.path in BY_TMA], "store", launching)
    entries = {it: pins.operand(name_of(it.op)) for it in promotions.loads}
    wanted = [it for it, entry in entries.items() if _wanted(entry.path) and not entry.prefetched]
    loads = [it for it in wanted if _path(it)]
    stores = (
        [it for it in promotions.stores if it.decision and _wanted(pins.store(name_of(it.op)).path)] if loads else []
    )
    plan = Plan(
        operands=tuple(OperandPlan(*name_of(it.op), _path(it), line=str(it.location or "")) for it in loads),
        stores=tuple(StorePlan(*name_of(it.op), "promoted", line=str(it.location or "")) for it in stores),
    )
    why = {operand_field(name_of(it.op)): f"by TMA: {it.reason}" for it in promotions.loads if it.reason}
    refusal = _why_not_all(promotions, loads, pins) if options.pointer_loads == "tma" else None
    return Promotion(
        promotions, frozenset(it.op for it in loads), frozenset(it.op for it in stores), plan, why, refusal
    )


def _why_not_all(promotions: PromotionInfo, loads: Sequence[AccessInfo], pins: Plan) -> Remark | None:
    """Why some tile of an operand keeps its pointers, though no Plan says so; None if TMA loads all of them."""
    kept = [it for it in promotions.loads if it not in loads and has_rows(it.op.result)]
    kept = [it for it in kept if _wanted(pins.operand(name_of(it.op)).path)]
    if kept:
        reason, place, own = f"{name_text(name_of(kept[0].op))}: {kept[0].reason}", kept[0].location, kept[0].cure
    elif promotions.declined is not None:
        reason, place, own = promotions.declined.reason, promotions.declined.location, promotions.declined.cure
    else:
        return None
    cure = "leave pointer_loads out: the producer's threads copy what TMA cannot load"
    return POINTER_LOADS.remark(place, f"{own}; or {cure}" if own else cure, why=reason)


def _wanted(path: Path | None) -> bool:
    return path is None or path in BY_TMA


def _path(access: AccessInfo) -> Path | None:
    """The path by which TMA makes a load; None if it cannot."""
    if access.decision is None:
        return None
    return "promoted" if access.decision.place is None else "promoted_in_kernel"


def _made_otherwise(promotions: PromotionInfo, entry: OperandPlan) -> bool:
    """Whether the launcher would create a descriptor that the kernel should create according to the Plan."""
    access = next((it for it in promotions.loads if name_of(it.op) == entry.key), None)
    return entry.path == "promoted_in_kernel" and access is not None and _path(access) == "promoted"


def _check(
    module: Module,
    accesses: Iterable[AccessInfo],
    asked: Iterable[OperandPlan | StorePlan],
    what: str,
    launching: Launching,
) -> None:
    """Raises PlanError if TMA cannot make an access as the Plan requires."""
    known = {name_of(it.op): it for it in accesses}
    named = {it for names in names_in(module) for it in names}
    for entry in asked:
        access = known.get(entry.key)
        if entry.argument is None or entry.key not in named:
            continue  # `check_names` reports names without an access
        own = _path(access) if access is not None else None
        if own == entry.path:
            continue
        line = str(access.location or "") if access is not None else entry.line
        where = f" ({line})" if line else ""
        cure = f"path={own or 'pointers'!r}"
        if entry.path == "promoted" and not launching.ours:
            reason = "this compile is not for a launch by Triton, so no launcher creates the descriptor"
        elif access is None:
            reason = "it feeds no dot" if what == "operand" else "no operand is loaded by TMA in place of pointers"
        else:
            maker = "the kernel" if own == "promoted_in_kernel" else "the launcher"
            reason, cure = access.reason or f"{maker} creates its descriptor", access.cure or cure
        raise PlanError(
            f"the Plan makes {what} {name_text(entry.key)}{where} by TMA ({entry.path}): {reason}; cure: {cure}"
        )


def _is_long(module: Module) -> bool:
    """Whether a program has much work for each descriptor: chained dots, or many tiles."""
    depths = [len(enclosing_loops(dot)) for dot in find_dots(module)]
    return has_chained_dots(module) or max(depths, default=0) > 1
