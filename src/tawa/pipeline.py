"""The pipeline: the lists of steps that transform a kernel.

    TTIR     structured → conditions folded → loads joined → pointer accesses by TMA → rows ordered → programs grouped
             → persistent → rows split → late sums → tiles from a counter
             [Triton lays it out]
    TTGIR    grids waited for → reshapes viewed → transposes shared → row loads hoisted → rings decided → arefs
             → operands transposed → partitions → streams shared → P, schedules decided → stages → stores     [credits]
    aref     lowered → slot views duplicated → outlined                               [barriers]

    TTGIR    without partitions: loads prefetched [Triton's other passes] → loads parked → conversions out of loops
             → addresses recomputed

`tawa.flow.run` is the only runner: compiles, tests, benches, the simulator and `tawa verify` use it.
"""

from __future__ import annotations

from tawa import steps
from tawa.flow import Step, barriers_checked, credits_checked, passing
from tawa.transforms.drop_names import DropNames
from tawa.transforms.epilogue.sink_epilogue import SinkEpilogue
from tawa.transforms.epilogue.stage_stores import StageStores
from tawa.transforms.lowering.duplicate_slot_views import DuplicateSlotViews
from tawa.transforms.lowering.hold_slots import HoldSlots
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tawa.transforms.lowering.outline_partitions import OutlinePartitions
from tawa.transforms.partition.early_puts import EarlyPuts
from tawa.transforms.partition.exchange_parts import ExchangeParts
from tawa.transforms.partition.hand_stores import HandStores
from tawa.transforms.partition.hoist_grid_waits import HoistGridWaits
from tawa.transforms.partition.hoist_row_loads import HoistRowLoads
from tawa.transforms.partition.insert_arefs import InsertArefs
from tawa.transforms.partition.insert_exchanges import InsertExchanges
from tawa.transforms.partition.lay_out_producer import LayOutProducer
from tawa.transforms.partition.partition import Partition
from tawa.transforms.partition.resolve_groups import ResolveGroups
from tawa.transforms.partition.share_streams import ShareStreams
from tawa.transforms.partition.share_transposes import ShareTransposes
from tawa.transforms.partition.transpose_operands import TransposeOperands
from tawa.transforms.partition.view_reshapes import ViewReshapes
from tawa.transforms.pipelining.carry_numbers import CarryNumbers
from tawa.transforms.pipelining.chain_dots import ChainDots
from tawa.transforms.pipelining.early_loads import EarlyLoads
from tawa.transforms.pipelining.ping_pong import PingPong
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tawa.transforms.pipelining.pipeline_stages import PipelineStages
from tawa.transforms.pipelining.prefetch_loads import PrefetchLoads
from tawa.transforms.pipelining.register_operands import KeepInRegisters
from tawa.transforms.pipelining.scale_behind_max import ScaleBehindMax
from tawa.transforms.tensor_memory.accumulate import Accumulate
from tawa.transforms.tensor_memory.correct import Correct
from tawa.transforms.tensor_memory.hand_over import HandOver
from tawa.transforms.tensor_memory.issue_ahead import IssueAhead
from tawa.transforms.tensor_memory.read_dots import ReadDots
from tawa.transforms.tensor_memory.share_buffers import ShareBuffers
from tawa.transforms.tensor_memory.store_operands import StoreOperands
from tawa.transforms.ttir.kernel.fold_conditions import FoldConditions
from tawa.transforms.ttir.kernel.join_loads import JoinLoads
from tawa.transforms.ttir.kernel.structure_flow import StructureFlow
from tawa.transforms.ttir.unit_strides import AssumeUnitStrides

KERNEL = (
    passing(StructureFlow),  # first: the other steps need structured control flow
    passing(FoldConditions),
    passing(JoinLoads),  # after the conditions, which may leave one of two loads
)
PATHS = (
    Step("plan strides", steps.decide_strides),
    passing(AssumeUnitStrides),  # before tiles are analysed
    Step("plan paths", steps.decide_promotions),
    Step("PromoteToTma", steps.promote_loads),
    passing(DropNames),
)
FORMS = (
    Step("OrderRows", steps.order_rows),  # before the forms, which add arguments after the descriptors
    Step("SplitK", steps.split_k),  # before the tile is split: its sums are those of the whole tile
    Step("GroupPrograms", steps.group_programs),  # before the loop over tiles, which are then those of a CTA
    Step("MakePersistent", steps.make_persistent),  # before the tile is split
    Step("SplitRows", steps.split_rows),
    Step("LateSums", steps.sum_late),  # after the split: what is left is the program of one group
    Step("DynamicTiles", steps.take_tiles),  # after the split, which leaves programs with atomics alone
)
RINGS = (
    passing(ReadDots),  # first: the other steps know dots whose accumulators are tiles
    passing(HoistGridWaits),  # early: behind it, no access precedes the wait
    Step("names", steps.name),
    passing(ViewReshapes),  # before the rings, whose loads it changes
    passing(ExchangeParts),  # before transposes are shared: it takes those of exchanged tiles
    passing(ShareTransposes),
    passing(HoistRowLoads),
    Step("DirectStores", steps.store_directly),  # before the rings are decided: it leaves more memory to them
    Step("plan", steps.decide_rings),
)
PARTITIONS = (
    passing(InsertArefs),
    passing(TransposeOperands),  # after the arefs: between two rings is a partition of its own
    passing(Correct),  # before accumulators get their memory, which it gives to a partition
    passing(Accumulate),  # after the arefs, which put the operands in slots
    passing(ShareBuffers),
    passing(StoreOperands),
    passing(HandOver),
    passing(HandStores),
    passing(InsertExchanges),
    passing(Partition),  # after the arefs: it computes slices from puts and consumers
    passing(ShareStreams),  # before the groups are resolved, which then have the same control flow
    passing(ResolveGroups),  # before any other step inspects a group
    passing(IssueAhead),  # after the groups are resolved: the dots of all groups take turns
    passing(LayOutProducer),
    passing(ScaleBehindMax),  # before decisions that depend on the costs of operations
    Step("plan kept operands", steps.decide_kept),
    passing(KeepInRegisters),
    passing(EarlyPuts),  # after Partition: only the producer's first loop is peeled
    passing(PipelineMma),  # after Partition: only consumers have wgmmas
)
STAGES = (
    passing(CarryNumbers),  # before loads are prefetched: by numbers, addresses of the next iteration need no tiles
    Step("plan prefetched loads", steps.decide_ahead),
    passing(PrefetchLoads),  # before schedules, which count a prefetched load as work for the next iteration
    passing(ChainDots),  # before schedules, which are those of the iterations that are left
    Step("schedule", steps.decide_loops),
    passing(EarlyLoads),  # after the schedules: they place the loads of their loops
    passing(PipelineStages),
    Step("ping-pong sections", steps.decide_ping_pong),
    passing(PingPong),  # after the stages: sections enclose dots in their final order
    passing(SinkEpilogue),  # after pipelining, whose releases determine where the epilogue begins
    passing(StageStores),  # the stores that remain in the consumer
    passing(HoldSlots),  # after all that move releases
    passing(DropNames),
    Step("check credits", credits_checked),
)
BARRIERS = (
    passing(LowerArefs),
    passing(DuplicateSlotViews),
    passing(OutlinePartitions),  # last: it turns groups, which other passes look for, into regions
    Step("check barriers", barriers_checked),
)
UNPARTITIONED = (
    Step("names", steps.name),
    Step("plan unrolled loops", steps.decide_unrolled),
    Step("plan prefetched loads", steps.decide_ahead),
    passing(PrefetchLoads),
    passing(DropNames),
    Step("check credits", credits_checked),
    Step("check barriers", barriers_checked),
)
TTGIR = (*RINGS, *PARTITIONS, *STAGES, *BARRIERS)
