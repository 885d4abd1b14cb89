"""Classes of operations: what the planner's model of time, the scheduler and the simulator's clock tell apart.

An operation of no class computes: `tawa.machine.work` says how much.
"""

from __future__ import annotations

from tawa.dialects import arith, tcgen05, tt, ttg, ttng
from tawa.dialects.aref import ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, LandedOp
from tawa.dialects.builtin import AssumeOp, CastOp, GpuBarrierOp, PoisonOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ConditionOp
from tawa.dialects.warp import EndOp, GroupOp

FREE = op_names(
    arith.ConstantOp, arith.BitcastOp, PoisonOp, AssumeOp, CastOp, tt.SplatOp, tt.UnsplatOp, tt.BroadcastOp,
    tt.ExpandDimsOp, tt.MakeRangeOp, tt.ReshapeOp, tt.TransOp, tt.JoinOp, tt.SplitOp, tt.CatOp, tt.BitcastOp,
    tt.AssertOp, tt.PrintOp, tt.GridDependencyWaitOp, tt.GridDependencyLaunchDependentsOp, tt.ReturnOp, ConditionOp,
    CreateOp, FirstOp, FilledOp, EndOp, ttg.LocalDeallocOp, ttg.GlobalScratchAllocOp, ttg.AsyncCommitGroupOp,
    ttg.AsyncWaitOp, ttg.WarpYieldOp, ttg.WarpReturnOp, ttng.WarpGroupDotWaitOp, ttng.AsyncTMAStoreWaitOp,
    ttng.ReinterpretTensorDescOp, tcgen05.TMEMSubsliceOp, tcgen05.TMEMWaitOp,
) | ttg.VIEWS  # fmt: skip
"""Operations that become no instruction, or only wait."""
BARRIERS = op_names(
    GetOp, ConsumedOp, LandedOp, GpuBarrierOp, ttg.BarrierOp, ttng.WaitBarrierOp, ttng.ArriveBarrierOp,
    ttng.BarrierExpectOp, ttng.InitBarrierOp, ttng.InvalBarrierOp, ttng.AsyncCopyMbarrierArriveOp,
    tcgen05.TCGen5CommitOp,
)  # fmt: skip
FENCES = op_names(ttng.FenceAsyncSharedOp, ttng.TensormapCreateOp, ttng.TensormapFenceproxyAcquireOp)
FORKS = op_names(ttg.WarpSpecializeOp, GroupOp)
TILE_STORES = op_names(tt.DescriptorStoreOp, tt.DescriptorReduceOp, tt.DescriptorScatterOp)
"""Stores by TMA of tiles that are in registers."""
TMA_LOADS = op_names(
    ttng.AsyncTMACopyGlobalToLocalOp, ttng.AsyncTMAGatherOp, tt.DescriptorLoadOp, tt.DescriptorGatherOp
)
"""Loads by TMA. At the aref level, the loads in an ``aref.put`` determine its unit."""
TMA_STORES = TILE_STORES | op_names(ttng.AsyncTMACopyLocalToGlobalOp, ttng.AsyncTMAReduceOp, ttng.AsyncTMAScatterOp)
LOADS = op_names(tt.LoadOp, ttg.AsyncCopyGlobalToLocalOp) | TMA_LOADS
STORES = op_names(tt.StoreOp, tt.AtomicRMWOp, tt.AtomicCASOp) | TMA_STORES
DOTS = op_names(ttng.WarpGroupDotOp, tt.DotOp)
COPIES = op_names(ttg.LocalAllocOp, ttg.LocalStoreOp, ttg.LocalLoadOp)
"""Between registers and shared memory."""
TENSOR_COPIES = op_names(tcgen05.TMEMAllocOp, tcgen05.TMEMLoadOp, tcgen05.TMEMStoreOp)
"""Between registers and tensor memory."""
