"""The pipeline: the ordered list of passes from TTGIR to barrier-level TTGIR.

text → IR → gather loads → analyses → Plan → insert arefs → partition → early puts → pipeline MMA → load ahead
                            → stages → sink epilogue → stage stores → [aref level, credits checked]
                            → lower arefs → outline partitions → [barrier level, barriers checked] → text
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tawa.analysis.chained_dots import has_chained_dots
from tawa.analysis.channels import ChannelInfo, channels_of_groups, find_channels, outer_channels
from tawa.analysis.kept_operands import operands_to_keep
from tawa.analysis.legality import check_loads, check_memory, check_module, check_producer, declined, taken_apart
from tawa.analysis.loads import DotLoadInfo, find_dot_loads, is_persistent, operand_bits
from tawa.analysis.memory import stores_must_not_wait
from tawa.analysis.resources import (
    SHARED_BYTES,
    producer_registers,
    shared_beside_rings,
    unfit_dots,
    wgmma_registers,
)
from tawa.dialects import structure_rules
from tawa.dialects.aref import Fill
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttng import WarpGroupDotWaitOp
from tawa.errors import PlanError, ProtocolError, ResourceError
from tawa.ir import Module, parse_module, print_module, source_of, verify_structure
from tawa.ir.attributes import attribute_of, int_attr, read_int
from tawa.plan import Plan, PlanOptions
from tawa.plan.planner import Budget, StockCopies, check_plan, choose_plan, pointer_loads_worth, why_not_worth_it
from tawa.plan.schedule import Schedule
from tawa.remarks import Remark
from tawa.transforms.early_puts import EarlyPuts
from tawa.transforms.gather_loads import GatherLoads
from tawa.transforms.insert_arefs import InsertArefs
from tawa.transforms.keep_operands import KeepOperands
from tawa.transforms.lay_out_producer import LayOutProducer
from tawa.transforms.load_ahead import LoadAhead
from tawa.transforms.lower_arefs import LowerArefs
from tawa.transforms.outline_partitions import OutlinePartitions
from tawa.transforms.partition import Partition
from tawa.transforms.ping_pong import PingPong
from tawa.transforms.pipeline_mma import PipelineMma
from tawa.transforms.pipeline_stages import PipelineStages, choose_schedules
from tawa.transforms.resolve_groups import ResolveGroups
from tawa.transforms.result import Pass
from tawa.transforms.scale_behind_max import ScaleBehindMax
from tawa.transforms.separate_slots import SeparateSlots
from tawa.transforms.sink_epilogue import SinkEpilogue
from tawa.transforms.stage_stores import StageStores
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.check import combine
from tawa.verify.credits import check_credits
from tawa.verify.effort import Effort, Verification
from tawa.verify.verdict import Refuted, Unknown, Verdict
from tawa.verify.witness import chrome_trace, describe

NOT_EXPECTED = "automatic mode would decline"
_MAX_REGISTERS = "ttg.maxnreg"
_TOO_LARGE = "the accumulator of a dot takes all registers of an SM: it spills to local memory with any compiler"
_POINTERS = "operands come through pointers, not by TMA, and stock Triton copies them ahead just as well"


@dataclass(frozen=True, slots=True)
class Target:
    """What the back end gives one CTA: warps of one consumer group, and bytes of shared memory.

    groups: consumer groups that the rows of the tile are split among; the program is then that of one of them.
    stock_copies: how stock Triton brings the tiles.
    """

    num_warps: int
    num_stages: int
    shared_bytes: int = SHARED_BYTES
    groups: int = 1
    stock_copies: StockCopies = "tma"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pipeline made of one kernel. Declined: `applied` False, `plan` None, both texts empty.

    `aref` and `barrier` are the two levels in generic form, `module` is the barrier level itself; `stage_ms` maps stage
    name to milliseconds. verdict: what the checks of both levels found; None where nothing was checked.
    """

    applied: bool
    plan: Plan | None
    remarks: tuple[Remark, ...]
    aref: str = ""
    barrier: str = ""
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])
    module: Module | None = None
    verdict: Verdict | None = None


def aref_passes(channels: tuple[ChannelInfo, ...], plan: Plan) -> tuple[Pass, ...]:
    """TTGIR to the aref level."""
    return (*splitting_passes(channels, plan), *staging_passes(plan))


def splitting_passes(channels: tuple[ChannelInfo, ...], plan: Plan) -> tuple[Pass, ...]:
    """TTGIR to partitions whose loops can be scheduled."""
    return (
        InsertArefs(channels, plan),
        Partition(plan),  # behind the arefs: puts and consumers are what it slices by
        ResolveGroups(),  # before anything else looks at a group
        LayOutProducer(),
        ScaleBehindMax(),  # before the costs of operations count
        KeepOperands(plan),
        EarlyPuts(plan),  # behind the split: only the producer's first loop is cut
        PipelineMma(plan),  # behind the split: only the consumer's loops have wgmmas
    )


def staging_passes(plan: Plan, schedules: tuple[Schedule, ...] | None = None) -> tuple[Pass, ...]:
    """From there to the aref level. schedules: those of the loops that `PipelineMma` left, None to find them."""
    staging: tuple[Pass, ...] = (StageStores(),) if plan.staged_stores else ()
    return (
        LoadAhead(plan, schedules),  # before loops are staged, whose schedules know them by number
        PipelineStages(plan, schedules),
        PingPong(plan),  # behind the stages: turns are around the dots as they are issued
        SinkEpilogue(),  # behind the releases that pipelining moved: they decide where the epilogue begins
        *staging,  # of the stores that are left in the consumer
    )


def barrier_passes() -> tuple[Pass, ...]:
    """The aref level to barrier-level TTGIR."""
    return (
        LowerArefs(),
        SeparateSlots(),
        OutlinePartitions(),  # last: it turns groups, which the others look for, into regions
    )


def specialise(
    ttgir: str, options: PlanOptions, target: Target, plan: Plan | None = None, verification: Verification = "fast"
) -> Outcome:
    """Specialises one module given as generic-form TTGIR text (before Triton's own pipeliner).

    Never raises on what a user wrote: a kernel that cannot be specialised, or whose protocol cannot be proved, gives
    ``applied=False`` and a `declined` remark first (a pinned one that cannot be proved is made, with a note).
    verification: the effort of the checks. Raises PlanError when a pinned `plan` or `options` cannot be met,
    ResourceError when a pinned depth does not fit, and any other exception only for a fault of its own, ProtocolError
    for a protocol that the checks refute among them (the caller turns it into InternalError).
    """
    clock = _Clock()
    module = parse_module(ttgir)
    GatherLoads().run(module)
    clock.lap("read")
    loads, refusals = _analyse(module, target)
    clock.lap("analyse")
    if refusals:
        return Outcome(False, None, tuple(refusals), stage_ms=clock.stages)
    channels = tuple(find_channels(loads))
    chosen = _plan(module, channels, loads, options, target, plan)
    if isinstance(chosen, Remark):
        return Outcome(False, None, (chosen,), stage_ms=clock.stages)
    pinned, (plan, notes) = plan is not None, chosen
    notes = (*notes, *taken_apart(module, loads))  # while the loads are where they were
    if plan.max_registers is not None:
        module.op.attributes[_MAX_REGISTERS] = int_attr(plan.max_registers)
    clock.lap("plan")
    plan, remarks = _to_aref_level(module, channels, plan, clock)
    refusal = next((remark for remark in remarks if remark.kind == "declined"), None)
    if refusal is not None:
        return Outcome(False, None, (refusal,), stage_ms=clock.stages)
    _require_structure(module, "aref")
    aref = print_module(module, locations=False)
    clock.lap("print aref")
    verdicts = _check_aref(module, verification, clock)
    remarks += _run(module, barrier_passes(), clock)
    _require_structure(module, "barrier")
    verdicts |= _check_barrier(module, aref, verification, clock)
    verdict = combine(verdicts) if verdicts else None
    if isinstance(verdict, Unknown):
        remark = _unproved(verdict, module, loads)
        if not (options.pinned or pinned):
            return Outcome(False, None, (remark,), stage_ms=clock.stages, verdict=verdict)
        notes = (*notes, Remark("note", remark.reason, remark.location))
    barrier = print_module(module)
    clock.lap("print barrier")
    applied = Remark("applied", _summary(plan))
    return Outcome(True, plan, (applied, *notes, *remarks), aref, barrier, clock.stages, module, verdict)


def plan_only(ttgir: str, options: PlanOptions, target: Target) -> Plan | Remark:
    """The Plan that `specialise` would begin with for the same module, or the remark with which it would decline."""
    module = parse_module(ttgir)
    GatherLoads().run(module)
    loads, refusals = _analyse(module, target)
    if refusals:
        return refusals[0]
    try:
        chosen = _plan(module, tuple(find_channels(loads)), loads, options, target, None)
    except (PlanError, ResourceError) as error:
        return Remark("declined", str(error))
    return chosen if isinstance(chosen, Remark) else chosen[0]


def _to_aref_level(
    module: Module, channels: tuple[ChannelInfo, ...], plan: Plan, clock: _Clock
) -> tuple[Plan, list[Remark]]:
    """Runs the passes up to the aref level. Returns the Plan with the schedules and P that came out, and remarks."""
    remarks = _run(module, splitting_passes(channels, plan), clock)
    if any(remark.kind == "declined" for remark in remarks):
        return plan, remarks
    reached = plan.mma_depth if _stays_in_flight(module) else 0
    schedules = choose_schedules(module, plan)
    clock.lap("schedule")
    staged = {schedule.location for schedule in schedules if schedule.location}
    # What keeps P at 0 in a loop is of no interest where the loop is staged instead.
    kept = [remark for remark in remarks if str(remark.location) not in staged]
    kept += _run(module, staging_passes(plan, schedules), clock)
    if not schedules:
        plan = replace(plan, mma_depth=reached)  # P is what the loops have, not what was planned
    return replace(plan, schedules=schedules), list(dict.fromkeys(kept))


def _stays_in_flight(module: Module) -> bool:
    """Whether a wait leaves a wgmma in flight, before loops are staged."""
    return any(wait.pendings > 0 for op in module.walk() if (wait := WarpGroupDotWaitOp.of(op)))


def _check_aref(module: Module, verification: Verification, clock: _Clock) -> dict[str, Verdict]:
    """The credit check; raises ProtocolError where it refutes."""
    if verification == "off":
        return {}
    found = _checked(check_credits, module, verification)
    clock.lap("check credits")
    return {"credits": _not_refuted(found, "aref", module)}


def _check_barrier(module: Module, aref: str, verification: Verification, clock: _Clock) -> dict[str, Verdict]:
    """The barrier check, and at full effort the refinement of the aref level; raises ProtocolError."""
    if verification == "off":
        return {}
    found = {"barriers": _not_refuted(_checked(check_barriers, module, verification), "barrier", module)}
    clock.lap("check barriers")
    if verification == "full":
        found["refinement"] = _not_refuted(check_refinement(parse_module(aref), module), "barrier", module)
        clock.lap("check refinement")
    return found


def _checked(check: Callable[..., Verdict], module: Module, effort: Effort) -> Verdict:
    """A fast check that cannot tell is followed by a full one: rare, and better than leaving the kernel to stock."""
    found = check(module, effort=effort)
    return check(module, effort="full") if isinstance(found, Unknown) and effort == "fast" else found


def _not_refuted(found: Verdict, level: str, module: Module) -> Verdict:
    if isinstance(found, Refuted):
        files = {f"{level}.mlir": print_module(module), "witness.json": chrome_trace(found.witness)}
        raise ProtocolError(f"the {level} level of the kernel is {describe(found)}", files)
    return found


def _unproved(found: Unknown, module: Module, loads: list[DotLoadInfo]) -> Remark:
    cure = (
        "tl.assume states what is known of an argument; enable_warp_specialization=True specialises all the same; "
        "TAWA_VERIFY=off checks nothing"
    )
    reason = f"the protocol of the specialised kernel cannot be proved: {found.reason}"
    return Remark("declined", reason, found.location or source_of(module, loads[0].load.op), cure)


def _analyse(module: Module, target: Target) -> tuple[list[DotLoadInfo], list[Remark]]:
    """The loads to move, or the refusals; cheap and general refusals come first."""
    refusals = list(check_module(module, target.num_warps))
    loads = [] if refusals else find_dot_loads(module)
    refusals = refusals or list(check_loads(module, loads))
    if not refusals:
        function = next(op for op in module.body.ops if FuncOp.of(op))
        refusals = [*check_memory(module, loads), *check_producer(module, loads, function, target.num_warps)]
    return loads, refusals


def _plan(
    module: Module,
    channels: tuple[ChannelInfo, ...],
    loads: list[DotLoadInfo],
    options: PlanOptions,
    target: Target,
    pinned: Plan | None,
) -> tuple[Plan, tuple[Remark, ...]] | Remark:
    """The pinned Plan, checked, or one of our own, with notes; in automatic mode a refusal where none fits or pays."""
    if pinned is not None:
        waits = stores_must_not_wait(module)
        check_plan(pinned, channels, target.num_warps, stores_must_not_wait=waits, groups=target.groups)
        return pinned, ()
    limit = attribute_of(module.op.attributes, _MAX_REGISTERS)
    budget = Budget(
        target.num_warps,
        target.num_stages,
        target.shared_bytes,
        shared_beside_rings(module, channels, target.groups),
        wgmma_registers(module, target.num_warps),
        operand_bits(loads),
        read_int(limit) if limit else None,
        target.groups,
        frozenset(channels_of_groups(module, channels)),
        frozenset(outer_channels(channels)),
        producer_registers(loads, module, target.num_warps, target.groups),
    )
    place = loads[0].load.op
    try:
        plan = choose_plan(channels, options, budget, staged_stores=not stores_must_not_wait(module))
        plan = replace(plan, keep_operands=bool(operands_to_keep(module.op, target.num_warps)))
    except ResourceError as error:
        if options.pinned or options.aref_depth is not None:
            raise
        return declined(module, place, str(error))
    chained = has_chained_dots(module)
    reason = _TOO_LARGE if budget.registers.fill_an_sm(target.num_warps, target.groups) else ""
    reason = reason or ("" if pointer_loads_worth(channels, chained) else _POINTERS)
    reason = reason or why_not_worth_it(plan, channels, budget, is_persistent(loads), chained, target.stock_copies)
    reason = reason or unfit_dots(module)
    if not reason:
        return plan, ()
    if options.wherever_legal:
        return plan, (Remark("note", f"{NOT_EXPECTED}: {reason}", source_of(module, place)),)
    cure = "enable_warp_specialization=True or only_if_faster=False specialises all the same"
    return declined(module, place, f"not expected to pay: {reason}", cure)


def _summary(plan: Plan) -> str:
    rings = ", ".join(f"{ring.name} with D = {ring.depth}{_FILLED[ring.fill]}" for ring in plan.rings)
    groups = plan.consumer_groups
    consumers = "one consumer" if groups == 1 else f"{groups} consumers, each with its rows of the tile,"
    turns = "; ping-pong" if plan.ping_pong else ""
    return f"one producer feeds {consumers} through {rings}; P = {plan.mma_depth}{turns}"


_FILLED: dict[Fill, str] = {"tma": "", "cp.async": " (by cp.async)", "registers": " (from registers)"}


def _run(module: Module, passes: tuple[Pass, ...], clock: _Clock) -> list[Remark]:
    remarks: list[Remark] = []
    for step in passes:
        remarks += step.run(module).remarks
        clock.lap(type(step).__name__)
        if any(remark.kind == "declined" for remark in remarks):
            break
    return remarks


def _require_structure(module: Module, level: str) -> None:
    errors = verify_structure(module, structure_rules())
    if errors:
        raise AssertionError(f"the {level} level is malformed: " + "; ".join(map(str, errors[:3])))


class _Clock:
    """Milliseconds since the last lap, by name."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.stages[name] = self.stages.get(name, 0.0) + (now - self.last) * 1e3
        self.last = now
