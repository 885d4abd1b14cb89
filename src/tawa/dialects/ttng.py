"""`ttng`: Hopper's own operations: wgmma, mbarriers, TMA copies, proxy fences.

Contracts follow PTX ISA: "Asynchronous Warpgroup Level Matrix Multiply-Accumulate", "mbarrier",
"Data Movement and Conversion: cp.async.bulk.tensor", "cp.async.mbarrier.arrive", "Async proxy".
"""

from __future__ import annotations

from tawa.dialects.registry import Effect, OpSpec, declare
from tawa.dialects.view import OpView
from tawa.ir import MemDescType, TensorType, Value, parse_type
from tawa.ir.attributes import read_bool, read_int

declare(
    OpSpec("ttng.warp_group_dot"),
    OpSpec("ttng.warp_group_dot_wait", (Effect("order"),)),
    OpSpec("ttng.init_barrier", (Effect("write", "shared", 0),)),
    OpSpec("ttng.inval_barrier", (Effect("write", "shared", 0),)),
    OpSpec("ttng.wait_barrier", (Effect("order"),)),
    OpSpec("ttng.arrive_barrier", (Effect("order"),)),
    OpSpec("ttng.async_copy_mbarrier_arrive", (Effect("order"),)),
    OpSpec("ttng.barrier_expect", (Effect("order"),)),
    OpSpec("ttng.fence_async_shared", (Effect("order"),)),
    OpSpec("ttng.async_tma_copy_global_to_local", (Effect("read", "global", 0), Effect("write", "shared", 4))),
    OpSpec("ttng.async_tma_copy_local_to_global", (Effect("write", "global", 0), Effect("read", "shared", 3))),
    OpSpec("ttng.async_tma_store_wait", (Effect("order"),)),
)


class WarpGroupDotOp(OpView):
    """``ttng.warp_group_dot``: D = A·B + C on the tensor cores.

    Operands: A (memdesc, or a tile in registers), B (memdesc), C (tile), optional i1 ``useC``. Result: the tile D.
    With ``isAsync`` the operands are read, and D is written, until a ``warp_group_dot_wait`` that leaves fewer groups
    pending; the accumulator may not be touched before. Executed by the consumer. Becomes ``wgmma.mma_async``.
    """

    NAME = "ttng.warp_group_dot"
    __slots__ = ()

    @property
    def a(self) -> Value:
        """Left operand."""
        return self.op.operands[0]

    @property
    def b(self) -> Value:
        """Right operand."""
        return self.op.operands[1]

    @property
    def accumulator(self) -> Value:
        """C."""
        return self.op.operands[2]

    @property
    def is_async(self) -> bool:
        """Whether the result is complete only after a wait."""
        return read_bool(self.op.properties.get("isAsync", "false"))

    @property
    def a_in_registers(self) -> bool:
        """Whether A is a tile in registers, which must not change while the wgmma is in flight."""
        return self.a.type.startswith("tensor<")

    @property
    def adds_partial_sums(self) -> bool:
        """Whether Triton splits an fp8 dot into short sums that it adds up itself: wgmma keeps 14 bits of an fp8 sum.

        Such a dot waits for its own wgmmas and holds a second accumulator.
        """
        a = parse_type(self.a.type)
        if not isinstance(a, TensorType | MemDescType) or not a.element.startswith("f8"):
            return False
        return read_int(self.op.properties.get("maxNumImpreciseAcc", "0 : i32")) <= a.shape[-1]


class WarpGroupDotWaitOp(OpView):
    """``ttng.warp_group_dot_wait``: waits until at most `pendings` committed wgmma groups are in flight.

    Operands: values that wgmmas in flight write or read. Results: the same values, usable as far as the wait reaches.
    Becomes ``wgmma.wait_group``.
    """

    NAME = "ttng.warp_group_dot_wait"
    __slots__ = ()

    @property
    def pendings(self) -> int:
        """Groups that may stay in flight."""
        return read_int(self.op.properties["pendings"])
