"""The pipeline: the lists that a kernel flows through, and what comes of it.

    TTIR     structured → pointer accesses by TMA → persistent → rows split               [Triton lays it out]
    TTGIR    gather loads → rings decided → arefs → partitions → P, schedules decided → stages → stores     [credits]
    aref     lowered → slots told apart → outlined                                                        [barriers]

`tawa.flow.run` is the one runner: compiles, tests, benches, the simulator and `tawa verify` go through it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tawa.analysis.launch_values import Condition
from tawa.analysis.names import name_module
from tawa.dialects.aref import Fill
from tawa.errors import PlanError, ResourceError
from tawa.flow import Flow, Step, barriers_checked, credits_checked, passing, run
from tawa.ir import Module, parse_module, print_module, source_of
from tawa.ir.attributes import int_attr
from tawa.plan import Plan, PlanOptions
from tawa.plan.candidates import GROUP_WARPS, warps_of_group
from tawa.plan.decisions import MAX_REGISTERS, NOT_EXPECTED, Facts, Target, decide_rings, find_facts
from tawa.plan.loops import choose_ahead, choose_kept, choose_schedules, scheduled
from tawa.plan.paths import choose_launches, choose_raises, choose_unit_strides
from tawa.remarks import Remark
from tawa.transforms.drop_names import DropNames
from tawa.transforms.early_puts import EarlyPuts
from tawa.transforms.gather_loads import GatherLoads
from tawa.transforms.insert_arefs import InsertArefs
from tawa.transforms.keep_operands import KeepOperands
from tawa.transforms.lay_out_producer import LayOutProducer
from tawa.transforms.load_ahead import LoadAhead
from tawa.transforms.lower_arefs import LowerArefs
from tawa.transforms.make_persistent import MakePersistent
from tawa.transforms.outline_partitions import OutlinePartitions
from tawa.transforms.partition import Partition
from tawa.transforms.ping_pong import PingPong
from tawa.transforms.pipeline_mma import PipelineMma
from tawa.transforms.pipeline_stages import PipelineStages
from tawa.transforms.raise_loads import RaiseLoads
from tawa.transforms.resolve_groups import ResolveGroups
from tawa.transforms.scale_behind_max import ScaleBehindMax
from tawa.transforms.separate_slots import SeparateSlots
from tawa.transforms.sink_epilogue import SinkEpilogue
from tawa.transforms.split_rows import SplitRows
from tawa.transforms.stage_stores import StageStores
from tawa.transforms.structure_flow import StructureFlow
from tawa.transforms.unit_strides import UNIT_STRIDE, AssumeUnitStrides
from tawa.verify.check import combine
from tawa.verify.effort import Verification
from tawa.verify.verdict import Unknown, Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pipeline made of one kernel. Declined: `applied` False, `plan` None, both texts empty.

    `aref` and `barrier` are the two levels in generic form, `module` is the barrier level itself; `stage_ms` maps stage
    name to milliseconds. verdict: what the checks of both levels found; None where nothing was checked. why: why the
    planner decided as it did, by field of the Plan.
    """

    applied: bool
    plan: Plan | None
    remarks: tuple[Remark, ...]
    aref: str = ""
    barrier: str = ""
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])
    module: Module | None = None
    verdict: Verdict | None = None
    why: dict[str, str] = field(default_factory=dict[str, str])


NOT_OURS = (
    "this compile is not for a launch of Triton's own: nobody would tell a persistent kernel the size of its grid"
)


# -- steps that are more than one pass ---------------------------------------------------------------------------------


def _name(flow: Flow) -> None:
    name_module(flow.module, in_turn=flow.plan.form == "persistent")


def _decide_strides(flow: Flow) -> None:
    flow.strides = choose_unit_strides(flow.module, flow.launching, flow.plan)


def _decide_raises(flow: Flow) -> None:
    name_module(flow.module)
    found = choose_raises(flow.module, flow.options, flow.launching, flow.plan)
    if isinstance(found, Remark):
        flow.remarks.append(found)
    else:
        flow.raising, flow.plan = found, found.plan.over(flow.plan)
        flow.why |= found.why


def _raise_loads(flow: Flow) -> None:
    """Raises what was decided; which launches get the kernel is decided behind it, by what is left to do."""
    if flow.raising is None:
        return
    made = RaiseLoads(flow.raising.raises, flow.raising.loads, flow.raising.stores).run(flow.module)
    flow.remarks += made.remarks
    if not made.raised:
        return
    ones = tuple(Condition(it, UNIT_STRIDE, 1, 1) for it in flow.strides)
    spec = replace(made.launch, conditions=(*ones, *made.launch.conditions))
    flow.remarks += [Remark("done", f"taken for granted: {'; '.join(made.taken)}")] if made.taken else []
    by_element = bool(flow.strides)
    flow.launch, notes = choose_launches(
        flow.module, flow.options, flow.launching, flow.plan, spec, by_element, flow.pinned
    )
    flow.remarks += notes
    flow.raised = made.raised
    flow.plan = Plan(unit_strides=tuple(it.name for it in flow.strides)).over(flow.plan)
    flow.target = replace(flow.target, stock_copies="elements" if by_element else "rows")


def _make_persistent(flow: Flow) -> Remark | None:
    if flow.plan.form != "persistent":
        return None
    if not flow.launching.ours:
        return Remark("declined", NOT_OURS, cure="launch the kernel itself, or leave persistent=True out")
    made = MakePersistent().run(flow.module)
    if not made.changed:
        return made.remarks[0]
    flow.launch = replace(flow.launch, axes=made.axes)
    flow.plan = Plan(tile_order="launch").over(flow.plan)
    return None


def _split_rows(flow: Flow) -> Remark | None:
    groups = flow.plan.groups or 1
    if groups < 2:
        return None
    warps = warps_of_group(flow.target.num_warps, groups)
    if warps is None:
        reason = f"num_warps={flow.target.num_warps} does not make {groups} groups of {GROUP_WARPS} warps"
        cure = f"use num_warps={groups * GROUP_WARPS}"
        return Remark("declined", f"rows are not split: {reason}", None, cure)
    made = SplitRows(groups, flow.plan.split).run(flow.module)
    if not made.changed:
        return made.remarks[0]
    flow.plan = made.decided.over(flow.plan)
    flow.target = replace(flow.target, num_warps=warps, groups=groups)
    return None


def _decide_rings(flow: Flow) -> Remark | None:
    found = find_facts(flow.module, flow.target, flow.plan)
    if isinstance(found, Remark):
        return found
    flow.facts = found
    made = decide_rings(flow.module, found, flow.options, flow.target, flow.plan, flow.pinned)
    if isinstance(made, Remark):
        return made
    flow.plan, flow.why = made.plan, {**flow.why, **made.why}
    flow.notes += made.notes
    if made.plan.max_registers:
        flow.module.op.attributes[MAX_REGISTERS] = int_attr(made.plan.max_registers)
    return None


def _decide_kept(flow: Flow) -> None:
    flow.plan = flow.plan.over(choose_kept(flow.module, flow.plan))


def _decide_loops(flow: Flow) -> None:
    asked = (
        replace(flow.plan, loops=flow.pins.loops, numbering="staged") if flow.pins.numbering == "staged" else flow.plan
    )
    schedules = choose_schedules(flow.module, asked)
    flow.plan = scheduled(flow.plan, schedules).over(flow.plan)
    flow.plan = flow.plan.over(choose_ahead(flow.module, flow.plan))
    staged = {schedule.location for schedule in schedules.values() if schedule.location}
    # What keeps P at 0 in a loop is of no interest where the loop is staged instead.
    flow.remarks = [remark for remark in flow.remarks if str(remark.location) not in staged]


def _facts(flow: Flow) -> Facts:
    assert flow.facts is not None
    return flow.facts


PATHS = (
    passing(StructureFlow),  # before anything looks at the kernel
    Step("plan strides", _decide_strides),
    passing(lambda it: AssumeUnitStrides(it.strides), "AssumeUnitStrides"),  # before tiles are looked at
    Step("plan paths", _decide_raises),
    Step("RaiseLoads", _raise_loads),
    passing(DropNames),
)
FORMS = (
    Step("MakePersistent", _make_persistent),  # of the whole tile
    Step("SplitRows", _split_rows),
)
RINGS = (
    Step("names", _name),
    passing(lambda it: GatherLoads(it.plan), "GatherLoads"),
    Step("plan", _decide_rings),
)
PARTITIONS = (
    passing(lambda it: InsertArefs(_facts(it).channels, it.plan), "InsertArefs"),
    passing(lambda it: Partition(it.plan), "Partition"),  # behind the arefs: puts and consumers are what it slices by
    passing(ResolveGroups),  # before anything else looks at a group
    passing(LayOutProducer),
    passing(ScaleBehindMax),  # before the costs of operations count
    Step("plan kept operands", _decide_kept),
    passing(lambda it: KeepOperands(it.plan), "KeepOperands"),
    passing(lambda it: EarlyPuts(it.plan), "EarlyPuts"),  # behind the split: only the producer's first loop is cut
    passing(lambda it: PipelineMma(it.plan), "PipelineMma"),  # behind the split: only consumers have wgmmas
)
STAGES = (
    Step("schedule", _decide_loops),
    passing(lambda it: LoadAhead(it.plan), "LoadAhead"),  # before loops are staged, which moves their loads by itself
    passing(lambda it: PipelineStages(it.plan), "PipelineStages"),
    passing(
        lambda it: PingPong(it.plan), "PingPong"
    ),  # behind the stages: turns are around the dots as they are issued
    passing(SinkEpilogue),  # behind the releases that pipelining moved: they decide where the epilogue begins
    passing(lambda it: StageStores(it.plan), "StageStores"),  # of the stores that are left in the consumer
    passing(DropNames),
    Step("check credits", credits_checked),
)
BARRIERS = (
    passing(LowerArefs),
    passing(lambda it: SeparateSlots(it.plan), "SeparateSlots"),
    passing(OutlinePartitions),  # last: it turns groups, which the others look for, into regions
    Step("check barriers", barriers_checked),
)
TTGIR = (*RINGS, *PARTITIONS, *STAGES, *BARRIERS)


def specialise(
    ttgir: str,
    options: PlanOptions,
    target: Target,
    plan: Plan | None = None,
    verification: Verification = "fast",
    *,
    pinned: bool | None = None,
) -> Outcome:
    """Specialises one module given as generic-form TTGIR text (before Triton's own pipeliner).

    plan: what is pinned of the Plan. verification: the effort of the checks. pinned: whether to specialise or raise;
    None: where there is a Plan.
    Never raises on what a user wrote: a kernel that cannot be specialised, or whose protocol cannot be proved, gives
    ``applied=False`` and a `declined` remark first (a pinned one that cannot be proved is made, with a note).
    Raises PlanError when a pinned `plan` or `options` cannot be met, ResourceError when a pinned depth does not fit,
    and any other exception only for a fault of its own, ProtocolError for a protocol that the checks refute among them
    (the caller turns it into InternalError).
    """
    flow = Flow(
        parse_module(ttgir),
        plan or Plan(),
        options,
        target,
        plan is not None if pinned is None else pinned,
        verification,
    )
    refusal = run(flow, TTGIR)
    return outcome_of(flow, refusal)


def outcome_of(flow: Flow, refusal: Remark | None) -> Outcome:
    """What came of a kernel that went through all lists, or was declined on the way."""
    verdict = combine(flow.verdicts) if flow.verdicts else None
    if refusal is None and isinstance(verdict, Unknown):
        refusal = _unproved(verdict, flow)
        if flow.options.pinned or flow.pinned:
            flow.notes.append(Remark("note", refusal.reason, refusal.location))
            refusal = None
    if refusal is not None:
        return Outcome(False, None, (refusal,), stage_ms=flow.stage_ms, verdict=verdict)
    barrier = print_module(flow.module)
    applied = Remark("applied", _summary(flow.plan))
    remarks = (applied, *flow.notes, *dict.fromkeys(flow.remarks))
    return Outcome(True, flow.plan, remarks, flow.aref, barrier, flow.stage_ms, flow.module, verdict, flow.why)


def plan_only(ttgir: str, options: PlanOptions, target: Target, plan: Plan | None = None) -> Plan | Remark:
    """The Plan that `specialise` would begin with for the same module, or the remark with which it would decline."""
    flow = Flow(parse_module(ttgir), plan or Plan(), options, target)
    try:
        return run(flow, RINGS) or flow.plan
    except (PlanError, ResourceError) as error:
        return Remark("declined", str(error))


def _unproved(found: Unknown, flow: Flow) -> Remark:
    cure = (
        "tl.assume states what is known of an argument; enable_warp_specialization=True specialises all the same; "
        "TAWA_VERIFY=off checks nothing"
    )
    reason = f"the protocol of the specialised kernel cannot be proved: {found.reason}"
    return Remark("declined", reason, found.location or source_of(flow.module, _facts(flow).moved[0].load.op), cure)


def _summary(plan: Plan) -> str:
    rings = ", ".join(f"{ring.name} with D = {ring.depth}{_FILLED[ring.fill or 'tma']}" for ring in plan.rings)
    groups = plan.consumer_groups
    consumers = "one consumer" if groups == 1 else f"{groups} consumers, each with its rows of the tile,"
    turns = "; ping-pong" if plan.ping_pong else ""
    return f"one producer feeds {consumers} through {rings}; P = {plan.mma_depth}{turns}"


_FILLED: dict[Fill, str] = {"tma": "", "cp.async": " (by cp.async)", "registers": " (from registers)"}

__all__ = ["NOT_EXPECTED", "TTGIR", "Outcome", "Target", "outcome_of", "plan_only", "specialise"]
