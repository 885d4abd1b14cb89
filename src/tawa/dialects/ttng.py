"""`ttng`: operations specific to Hopper: wgmma, mbarriers, TMA copies, proxy fences.

Contracts follow PTX ISA: "Asynchronous Warpgroup Level Matrix Multiply-Accumulate", "mbarrier",
"Data Movement and Conversion: cp.async.bulk.tensor", "cp.async.mbarrier.arrive", "Async proxy".
"""

from __future__ import annotations

from tawa.dialects.declare.declaration import ANY_EFFECT, Effect, OpView
from tawa.dialects.declare.families import UnaryOp
from tawa.dialects.declare.fields import attribute, operand, operands, optional_operand, segment
from tawa.ir import MemDescType, TensorType, parse_type
from tawa.ir.attributes import read_bool, read_int

# -- wgmma -------------------------------------------------------------------------------------------------------------


class WarpGroupDotOp(OpView):
    """``ttng.warp_group_dot``: D = A·B + C on the tensor cores.

    Operands: A (memdesc, or a tile in registers), B (memdesc), C (tile), optional i1 ``useC``. Result: the tile D.
    With ``isAsync`` the wgmma is in flight, reading its operands and writing D, until a ``warp_group_dot_wait`` covers
    it; the accumulator must not be accessed before. Executed by the consumer. Becomes ``wgmma.mma_async``.
    """

    NAME = "ttng.warp_group_dot"
    a, b, accumulator = operand(0), operand(1), operand(2)
    is_async = attribute("isAsync", read_bool, "false")  # whether the result is complete only after a wait

    @property
    def a_in_registers(self) -> bool:
        """Whether A is a tile in registers, which must not change while the wgmma is in flight."""
        return self.a.type.startswith("tensor<")

    @property
    def adds_partial_sums(self) -> bool:
        """Whether Triton splits an fp8 dot into partial sums, because wgmma accumulates fp8 products with 14 bits.

        Such a dot is synchronous and needs a second accumulator.
        """
        a = parse_type(self.a.type)
        if not isinstance(a, TensorType | MemDescType) or not a.element.startswith("f8"):
            return False
        return read_int(self.op.properties.get("maxNumImpreciseAcc", "0 : i32")) <= a.shape[-1]


class WarpGroupDotWaitOp(OpView):
    """``ttng.warp_group_dot_wait``: waits until at most `pendings` committed wgmma groups are in flight.

    Operands: values that wgmmas in flight write or read. Results: the same values; those of covered wgmmas are usable.
    Becomes ``wgmma.wait_group``.
    """

    NAME = "ttng.warp_group_dot_wait"
    EFFECTS = (Effect("order"),)
    values = operands(0)
    pendings = attribute("pendings", read_int)


# -- mbarriers ---------------------------------------------------------------------------------------------------------


class InitBarrierOp(OpView):
    """``ttng.init_barrier``: initialises an mbarrier with an arrival count of `count`."""

    NAME = "ttng.init_barrier"
    EFFECTS = (Effect("write", "shared", "barrier"),)
    barrier = operand(0)
    count = attribute("count", read_int)


class InvalBarrierOp(OpView):
    """``ttng.inval_barrier``: invalidates an mbarrier, so that its memory can be reused."""

    NAME = "ttng.inval_barrier"
    EFFECTS = (Effect("write", "shared", "barrier"),)
    barrier = operand(0)


class WaitBarrierOp(OpView):
    """``ttng.wait_barrier``: waits until the phase with this parity is complete, if the predicate is true."""

    NAME = "ttng.wait_barrier"
    EFFECTS = (Effect("order"),)
    barrier, parity = operand(0), operand(1)
    predicate = optional_operand(2)


class ArriveBarrierOp(OpView):
    """``ttng.arrive_barrier``: `count` arrivals, if the predicate is true."""

    NAME = "ttng.arrive_barrier"
    EFFECTS = (Effect("order"),)
    barrier = operand(0)
    predicate = optional_operand(1)
    count = attribute("count", read_int, "1 : i32")


class AsyncCopyMbarrierArriveOp(OpView):
    """``ttng.async_copy_mbarrier_arrive``: each thread arrives when its own cp.async have landed."""

    NAME = "ttng.async_copy_mbarrier_arrive"
    EFFECTS = (Effect("order"),)
    barrier = operand(0)


class BarrierExpectOp(OpView):
    """``ttng.barrier_expect``: if the predicate is true, one arrival and `size` expected transaction bytes."""

    NAME = "ttng.barrier_expect"
    EFFECTS = (Effect("order"),)
    barrier = operand(0)
    predicate = optional_operand(1)
    size = attribute("size", read_int)


class FenceAsyncSharedOp(OpView):
    """``ttng.fence_async_shared``: orders accesses of shared memory by threads before later ones of the async proxy."""

    NAME = "ttng.fence_async_shared"
    EFFECTS = (Effect("order"),)


class FenceMBarrierInitReleaseClusterOp(OpView):
    """``ttng.fence_mbarrier_init_release_cluster``: makes initialised mbarriers visible to the cluster."""

    NAME = "ttng.fence_mbarrier_init_release_cluster"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True


# -- TMA ---------------------------------------------------------------------------------------------------------------


class AsyncTMACopyGlobalToLocalOp(OpView):
    """``ttng.async_tma_copy_global_to_local``: copies a block of a tensor to a buffer; an mbarrier counts the bytes.

    Operands: descriptor, coordinates, mbarrier, buffer, an i1. Becomes ``cp.async.bulk.tensor``.
    """

    NAME = "ttng.async_tma_copy_global_to_local"
    EFFECTS = (Effect("read", "global", "descriptor"), Effect("write", "shared", "buffer"))
    descriptor = operand(0)
    indices = operands(1, -3)
    barrier, buffer, predicate = operand(-3), operand(-2), operand(-1)


class AsyncTMACopyLocalToGlobalOp(OpView):
    """``ttng.async_tma_copy_local_to_global``: copies a buffer to a block of a tensor.

    Operands: descriptor, coordinates, buffer. The buffer is read until an ``async_tma_store_wait`` covers the copy.
    """

    NAME = "ttng.async_tma_copy_local_to_global"
    EFFECTS = (Effect("write", "global", "descriptor"), Effect("read", "shared", "buffer"))
    descriptor = operand(0)
    indices = operands(1, -1)
    buffer = operand(-1)


class AsyncTMAReduceOp(OpView):
    """``ttng.async_tma_reduce``: reduces a buffer into a block of a tensor. Operands as for a store."""

    NAME = "ttng.async_tma_reduce"
    EFFECTS = (
        Effect("read", "global", "descriptor"),
        Effect("write", "global", "descriptor"),
        Effect("read", "shared", "buffer"),
    )
    descriptor = operand(0)
    indices = operands(1, -1)
    buffer = operand(-1)


class AsyncTMAGatherOp(OpView):
    """``ttng.async_tma_gather``: copies rows of a tensor to a buffer."""

    NAME = "ttng.async_tma_gather"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    descriptor = operand(0)


class AsyncTMAScatterOp(OpView):
    """``ttng.async_tma_scatter``: copies the rows of a buffer to rows of a tensor."""

    NAME = "ttng.async_tma_scatter"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    descriptor = operand(0)


class AsyncTMAStoreWaitOp(OpView):
    """``ttng.async_tma_store_wait``: waits until at most `pendings` TMA stores still read their buffers."""

    NAME = "ttng.async_tma_store_wait"
    EFFECTS = (Effect("order"),)
    pendings = attribute("pendings", read_int)


class TensormapCreateOp(OpView):
    """``ttng.tensormap_create``: writes a descriptor to global memory."""

    NAME = "ttng.tensormap_create"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    target, base = operand(0), operand(1)
    box, shape, strides = segment(2), segment(3), segment(4)


class TensormapFenceproxyAcquireOp(OpView):
    """``ttng.tensormap_fenceproxy_acquire``: makes a descriptor that was written before visible to TMA."""

    NAME = "ttng.tensormap_fenceproxy_acquire"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    source = operand(0)


class ReinterpretTensorDescOp(UnaryOp):
    """``ttng.reinterpret_tensor_descriptor``: the descriptor in global memory at a pointer."""

    NAME = "ttng.reinterpret_tensor_descriptor"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
