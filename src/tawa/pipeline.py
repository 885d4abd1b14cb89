"""The pipeline: the lists that a kernel flows through, and what comes of it.

    TTIR     structured → pointer accesses by TMA → persistent → rows split               [Triton lays it out]
    TTGIR    gather loads → rings decided → arefs → partitions → P, schedules decided → stages → stores     [credits]
    aref     lowered → slots told apart → outlined                                                        [barriers]

`tawa.flow.run` is the one runner: compiles, tests, benches, the simulator and `tawa verify` go through it.
"""

from __future__ import annotations

from tawa import steps
from tawa.errors import PlanError, ResourceError
from tawa.flow import Flow, Outcome, Step, barriers_checked, credits_checked, outcome_of, passing, run
from tawa.ir import parse_module
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tawa.transforms.drop_names import DropNames
from tawa.transforms.epilogue.sink_epilogue import SinkEpilogue
from tawa.transforms.epilogue.stage_stores import StageStores
from tawa.transforms.lowering.duplicate_slot_views import DuplicateSlotViews
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tawa.transforms.lowering.outline_partitions import OutlinePartitions
from tawa.transforms.partition.early_puts import EarlyPuts
from tawa.transforms.partition.hoist_row_loads import HoistRowLoads
from tawa.transforms.partition.insert_arefs import InsertArefs
from tawa.transforms.partition.lay_out_producer import LayOutProducer
from tawa.transforms.partition.partition import Partition
from tawa.transforms.partition.resolve_groups import ResolveGroups
from tawa.transforms.pipelining.ping_pong import PingPong
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tawa.transforms.pipelining.pipeline_stages import PipelineStages
from tawa.transforms.pipelining.prefetch_loads import PrefetchLoads
from tawa.transforms.pipelining.register_operands import KeepInRegisters
from tawa.transforms.pipelining.scale_behind_max import ScaleBehindMax
from tawa.transforms.ttir.structure_flow import StructureFlow
from tawa.transforms.ttir.unit_strides import AssumeUnitStrides
from tawa.verify.effort import Verification

PATHS = (
    passing(StructureFlow),  # before anything looks at the kernel
    Step("plan strides", steps.decide_strides),
    passing(AssumeUnitStrides),  # before tiles are looked at
    Step("plan paths", steps.decide_raises),
    Step("PromoteToTma", steps.raise_loads),
    passing(DropNames),
)
FORMS = (
    Step("MakePersistent", steps.make_persistent),  # of the whole tile
    Step("SplitRows", steps.split_rows),
)
RINGS = (
    Step("names", steps.name),
    passing(HoistRowLoads),
    Step("plan", steps.decide_rings),
)
PARTITIONS = (
    passing(InsertArefs),
    passing(Partition),  # behind the arefs: puts and consumers are what it slices by
    passing(ResolveGroups),  # before anything else looks at a group
    passing(LayOutProducer),
    passing(ScaleBehindMax),  # before the costs of operations count
    Step("plan kept operands", steps.decide_kept),
    passing(KeepInRegisters),
    passing(EarlyPuts),  # behind the split: only the producer's first loop is cut
    passing(PipelineMma),  # behind the split: only consumers have wgmmas
)
STAGES = (
    Step("schedule", steps.decide_loops),
    passing(PrefetchLoads),  # before loops are staged, which moves their loads by itself
    passing(PipelineStages),
    Step("turns", steps.decide_turns),
    passing(PingPong),  # behind the stages: turns are around the dots as they are issued
    passing(SinkEpilogue),  # behind the releases that pipelining moved: they decide where the epilogue begins
    passing(StageStores),  # of the stores that are left in the consumer
    passing(DropNames),
    Step("check credits", credits_checked),
)
BARRIERS = (
    passing(LowerArefs),
    passing(DuplicateSlotViews),
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
    pinned = plan is not None if pinned is None else pinned
    flow = Flow(parse_module(ttgir), plan or Plan(), options, target, pinned, verification)
    return outcome_of(flow, run(flow, TTGIR))


def plan_only(ttgir: str, options: PlanOptions, target: Target, plan: Plan | None = None) -> Plan | Remark:
    """The Plan that `specialise` would begin with for the same module, or the remark with which it would decline."""
    flow = Flow(parse_module(ttgir), plan or Plan(), options, target)
    try:
        return run(flow, RINGS) or flow.plan
    except (PlanError, ResourceError) as error:
        return Remark("declined", str(error))


__all__ = [
    "FORMS", "PATHS", "RINGS", "TTGIR", "Outcome", "Target", "outcome_of", "plan_only", "specialise",
]  # fmt: skip
