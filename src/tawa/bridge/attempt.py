"""One attempt to specialise a kernel, from the text of its TTIR down to the cubin.

It works on copies and touches nothing that Triton still needs for the stock kernel.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tawa import pipeline
from tawa.analysis.launch_values import LaunchSpec
from tawa.analysis.memory import remakes_descriptors
from tawa.bridge.attempt_data import Source, Specialised, Toolchain, Worksheet
from tawa.bridge.generic_print import parse_module, print_generic
from tawa.bridge.handover import Handover, StageResult
from tawa.bridge.persistence import PlanOf, offer, persistent_form
from tawa.bridge.ptxas_log import kept_log
from tawa.bridge.raising import raise_loads
from tawa.bridge.request import Request
from tawa.plan.shared_use import LIMIT_BYTES, SharedUse, largest_depth, overflow_text, shared_use
from tawa.bridge.row_split import split_front, wanted_groups, warps_of_group
from tawa.bridge.spills import HARMLESS_BYTES, find_spills, keeps_dots_in_flight, must_spill, smaller_plans
from tawa.bridge.stages import clean_up
from tawa.bridge.stock_run import StockFailure, stock_failure
from tawa.bridge.structuring import structure_flow
from tawa.bridge.versions import installed_text
from tawa.errors import PlanError, ResourceError
from tawa.pipeline import NOT_EXPECTED, Outcome, Target
from tawa.plan import Plan, PlanOptions
from tawa.plan.persistent import options_of_persistent
from tawa.plan.planner import StockCopies
from tawa.remarks import Remark
from tawa.verify.verdict import Unknown

NO_STOCK = sys.maxsize

CROWDED = (
    "launches of more programs than SMs are left to the stock kernel: TMA takes as long to fetch the short rows of its "
    "boxes as the tensor cores to multiply them, and programs would share an SM"
)


class _DoesNotFit(Exception):
    def __init__(self, use: SharedUse) -> None:
        self.use = use


def attempt(tools: Toolchain, source: Source, request: Request, sheet: Worksheet) -> Specialised | Outcome:
    """Specialises one kernel; lowers D until it fits shared memory, unless the user fixed D.

    Returns what was made, or the declining `Outcome`. Raises PlanError and ResourceError for what the user pinned,
    StockFailure when Triton's front half refuses the kernel, and any other exception for a fault of ours.
    """
    with _garbage_uncollected():
        with sheet.timed("structure flow"):
            source = replace(source, ttir=structure_flow(source.ttir, source.context))
        return _attempt(tools, source, request, sheet)


@contextmanager
def _garbage_uncollected() -> Iterator[None]:
    """No garbage collection: an attempt makes many small objects at once, and each scan is of the whole process."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _attempt(tools: Toolchain, source: Source, request: Request, sheet: Worksheet) -> Specialised | Outcome:
    """First with the pointer loads raised to TMA, where they can be; then as the kernel is."""
    with sheet.timed("raise loads"):
        raised = raise_loads(source.ttir, source.context, request.options)
    if raised is None:
        return _in_form(tools, source, request, sheet)
    if raised.count:
        made = _in_form(tools, replace(source, ttir=raised.ttir, stock_copies=raised.stock_copies), request, sheet)
        if isinstance(made, Specialised):
            plan = made.outcome.plan
            shares = plan is not None and plan.max_registers is not None  # a cap lets more than one CTA in
            crowded = raised.launch.alone and shares and not request.pinned
            work = None if request.pinned else raised.launch.work
            own = made.launch
            launch = replace(raised.launch, work=work, alone=crowded, axes=own.axes, offered=own.offered)
            made = replace(made, raised=True, launch=launch)
            notes = (*raised.remarks, *[Remark("done", CROWDED)] * crowded)
            return replace(made, outcome=with_remarks(made.outcome, notes))
        declined = made
    else:
        declined = None
    made = _in_form(tools, source, request, sheet)
    if isinstance(made, Specialised):
        notes = raised.remarks if declined is None else ()
        return replace(made, outcome=with_remarks(made.outcome, notes))
    return with_remarks(declined or made, raised.remarks)


def _in_form(tools: Toolchain, source: Source, request: Request, sheet: Worksheet) -> Specialised | Outcome:
    """Persistent where that is asked for; as the kernel is otherwise, with what its launches need to have it so."""
    asked = request.options.persistent
    if asked:
        with sheet.timed("make persistent"):
            form = persistent_form(source.ttir, source.context)
        if isinstance(form, Remark):
            return Outcome(False, None, (form,))
        ttir, axes = form
        made = _with_groups(tools, replace(source, ttir=ttir), request, sheet)
        return replace(made, launch=LaunchSpec(axes=axes)) if isinstance(made, Specialised) else made
    made = _with_groups(tools, source, request, sheet)
    if not isinstance(made, Specialised) or made.outcome.plan is None or asked is False or request.plan is not None:
        return made
    with sheet.timed("offer persistent"):
        plan_of = _plan_of(tools, source, request, made.outcome.plan)
        launch, note = offer(made.launch, made.outcome.plan, source.ttir, source.context, plan_of)
    if note is None:
        return made
    return replace(made, launch=launch, outcome=with_remarks(made.outcome, (note,)))


def _plan_of(tools: Toolchain, source: Source, request: Request, plan: Plan) -> PlanOf:
    """Plans another form of a kernel, for as many consumer groups as `plan` has, without a trip to the back end."""

    def plan_of(ttir: str) -> Plan | Remark:
        groups = plan.consumer_groups
        if groups == 1:
            warps, ttgir = tools.options.num_warps, _front(tools, replace(source, ttir=ttir), Worksheet())
        else:
            warps = warps_of_group(tools.options.num_warps, groups) or 0
            ttgir, notes = split_front(tools, ttir, source.context, source.metadata, groups)
            if ttgir is None:
                return notes[0]
        target = Target(warps, tools.options.num_stages, LIMIT_BYTES, groups, source.stock_copies)
        return pipeline.plan_only(ttgir, options_of_persistent(request.options), target)

    return plan_of


def with_remarks(outcome: Outcome, remarks: tuple[Remark, ...]) -> Outcome:
    """The outcome with remarks behind its own; the first, which is the headline, stays."""
    return replace(outcome, remarks=tuple(dict.fromkeys((*outcome.remarks, *remarks))))


def _with_groups(tools: Toolchain, source: Source, request: Request, sheet: Worksheet) -> Specialised | Outcome:
    """First with the rows of the tile split among consumer groups, where that is asked for or expected to pay."""
    ttgir = _front(tools, source, sheet)  # also the proof that Triton takes the kernel
    groups, asked = wanted_groups(tools.options.num_warps, source.ttir, source.context, request)
    allowed = functools.partial(_stock_spills, tools, sheet)
    split_result: Specialised | None = None
    if groups > 1:
        with sheet.timed("split rows"):
            split, notes = split_front(tools, source.ttir, source.context, source.metadata, groups)
        if split is not None:
            sheet.texts["ttgir"] = split
            warps = warps_of_group(tools.options.num_warps, groups)
            shared = replace(tools, options=replace(tools.options, num_warps=warps))
            result = _with_registers(shared, source, request, sheet, split, groups, allowed)
            if isinstance(result, Specialised):
                split_result = result
            if asked or (split_result is not None and _holds(split_result, allowed)):
                return _unless_spilled(result, request, allowed)
            sheet.texts["ttgir"] = ttgir
        elif asked:
            return Outcome(False, None, notes)
    result = _with_registers(tools, source, request, sheet, ttgir, 1, allowed)
    if split_result is not None and not (
        isinstance(result, Specialised) and result.spills.bytes < split_result.spills.bytes
    ):
        result = split_result
    return _unless_spilled(result, request, allowed)


def _stock_spills(tools: Toolchain, sheet: Worksheet) -> int:
    """What the specialised kernel may spill: as much as the stock kernel, or what does no harm.

    Anything (`NO_STOCK`) where Triton cannot compile the stock kernel.
    """
    with sheet.timed("stock", ours=False), suppress(StockFailure):
        return max(HARMLESS_BYTES, tools.stock.spilled())
    return NO_STOCK


def _holds(made: Specialised, allowed: Callable[[], int]) -> bool:
    """Whether it spills no more than stock does, which is asked only if need be, and something runs beside its wgmmas.

    Where each of them is waited for, that is another group of consumers.
    """
    plan = made.outcome.plan
    if made.spills.bytes <= HARMLESS_BYTES or must_spill(plan, made.outcome.module):
        return True
    alone = plan is None or plan.consumer_groups == 1
    return not (made.spills.serialised and alone) and made.spills.bytes <= allowed()


def _with_registers(
    tools: Toolchain,
    source: Source,
    request: Request,
    sheet: Worksheet,
    ttgir: str,
    groups: int,
    allowed: Callable[[], int],
) -> Specialised | Outcome:
    """Where the kernel spills too much, tries Plans that need fewer registers; the first good one wins."""
    best = _with_depths(tools, source, request, sheet, ttgir, groups)
    if not isinstance(best, Specialised) or request.plan is not None or best.outcome.plan is None:
        return best
    first = best
    if _holds(best, allowed) or not keeps_dots_in_flight(best.outcome.plan, best.outcome.module):
        return best
    for plan, text in smaller_plans(best.outcome.plan, request.options):
        try:
            made = _with_depths(tools, source, replace(request, plan=plan), sheet, ttgir, groups)
        except ResourceError:
            continue
        if isinstance(made, Specialised) and not keeps_dots_in_flight(plan, made.outcome.module):
            made = replace(made, spills=replace(made.spills, serialised=True))
        proved = isinstance(made, Specialised) and not isinstance(made.outcome.verdict, Unknown)
        if isinstance(made, Specialised) and proved and made.spills.bytes < best.spills.bytes:
            reason = (
                f"{text}: with what was planned first, {first.spills.bytes} bytes of registers spill to local memory"
            )
            notes = [it for it in first.outcome.remarks if it.reason.startswith(NOT_EXPECTED)]
            remarks = (*made.outcome.remarks, *notes, Remark("note", reason))
            best = replace(made, outcome=replace(made.outcome, remarks=remarks))
            if _holds(best, allowed):
                break
    return best


def _unless_spilled(
    result: Specialised | Outcome, request: Request, allowed: Callable[[], int]
) -> Specialised | Outcome:
    """Declines in automatic mode what spills more than stock does, or waits for each wgmma; notes it otherwise."""
    if not isinstance(result, Specialised) or _holds(result, allowed):
        return result
    limit = allowed()
    much = "more than in the stock kernel" if result.spills.bytes > limit else "and each wgmma is waited for by itself"
    reason = f"{result.spills.bytes} bytes of registers spill to local memory, {much}"
    if request.pinned or request.options.wherever_legal or limit == NO_STOCK:
        remarks = (*result.outcome.remarks, Remark("note", reason, None, "smaller blocks, or more warps"))
        return replace(result, outcome=replace(result.outcome, remarks=remarks))
    cure = "smaller blocks, or more warps; only_if_faster=False specialises all the same"
    return Outcome(False, None, (Remark("declined", f"not expected to pay: {reason}", None, cure),))


def _with_depths(
    tools: Toolchain, source: Source, request: Request, sheet: Worksheet, ttgir: str, groups: int
) -> Specialised | Outcome:
    """Lowers D until the kernel fits."""
    options = request.options
    first: SharedUse | None = None
    while True:
        try:
            outcome = _specialise(tools, ttgir, options, request, sheet, groups, source.stock_copies)
            return outcome if not outcome.applied else _finish(tools, source, outcome, options, sheet)
        except _DoesNotFit as overflow:
            first = first or overflow.use
            depth = largest_depth(overflow.use)
            if request.depth_pinned or depth is None:
                return _declined_for_space(request, source, first)
            try:
                options = replace(options, aref_depth=depth)
            except PlanError:  # D under the P + 1 that the user asked for
                return _declined_for_space(request, source, first)
        except (PlanError, ResourceError):
            if first is None:
                raise
            return _declined_for_space(request, source, first)  # the lowered D, not the user's choice, was refused


def _front(tools: Toolchain, source: Source, sheet: Worksheet) -> str:
    """The kernel with layouts, as generic text, just before Triton's pipeliner."""
    with sheet.timed("copy"):
        mod = parse_module(source.ttir, source.context)
    with sheet.timed("front", ours=False):
        try:
            tools.split.front(mod, dict(source.metadata), tools.options, tools.capability)
        except Exception as error:
            raise stock_failure(error) from error
    with sheet.timed("print"):
        sheet.texts["ttgir"] = print_generic(mod)
    return sheet.texts["ttgir"]


def _specialise(
    tools: Toolchain,
    ttgir: str,
    options: PlanOptions,
    request: Request,
    sheet: Worksheet,
    groups: int,
    stock_copies: StockCopies,
) -> Outcome:
    target = Target(tools.options.num_warps, tools.options.num_stages, LIMIT_BYTES, groups, stock_copies)
    with sheet.timed("specialise"):
        outcome = pipeline.specialise(ttgir, options, target, request.plan, request.verification)
    sheet.stage_ms.update({f"specialise.{name}": ms for name, ms in outcome.stage_ms.items()})
    if outcome.applied:
        sheet.texts |= {"aref": outcome.aref, "barrier": outcome.barrier}
    return outcome


def _finish(tools: Toolchain, source: Source, outcome: Outcome, options: PlanOptions, sheet: Worksheet) -> Specialised:
    """Triton's back half and its later stages on our module."""
    metadata = dict(source.metadata)
    results: dict[str, StageResult] = {}
    with sheet.timed("respell"):
        sheet.texts["installed"] = installed_text(outcome.barrier, outcome.module)
    with sheet.timed("parse"):
        mod = parse_module(sheet.texts["installed"], source.context)
    with sheet.timed("back", ours=False):
        hoist = outcome.module is None or not remakes_descriptors(outcome.module)
        mod = clean_up(mod, tools.capability, hoist=hoist)
        mod = tools.split.back(mod, metadata, tools.options, tools.capability)
    results["ttgir"] = StageResult(Handover(str(mod), mod, source.context), dict(metadata))
    value: Any = mod
    said = ""
    for name, stage in tools.later:
        with sheet.timed(name, ours=False), kept_log() as log:
            value = stage(value, metadata)
        said = said or log.text
        results[name] = StageResult(value, dict(metadata))
        if name == "llir":
            use = shared_use(int(metadata.get("shared") or 0), outcome.plan)
            if not use.fits():
                raise _DoesNotFit(use)
    ptx, cubin = (results[name].value if name in results else None for name in ("ptx", "cubin"))
    spills = find_spills(ptx, cubin, tools.options, said)
    return Specialised(outcome, options, results, int(metadata.get("shared") or 0), spills)


def _declined_for_space(request: Request, source: Source, use: SharedUse) -> Outcome:
    text = overflow_text(source.kernel, use)
    if request.depth_pinned or request.pinned:
        from tawa.bridge.shared_memory_error import SharedMemoryError

        raise SharedMemoryError(use.total_bytes, LIMIT_BYTES, text)
    return Outcome(False, None, (Remark("declined", text),))
