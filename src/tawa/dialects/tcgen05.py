"""`ttng` on Blackwell: tensor memory, tcgen05, and programs that the hardware hands out (CLC).

    %d, %t = ttng.tmem_alloc                                  tensor memory: 128 lanes × 512 columns of 32 bits
    ttng.tc_gen5_mma %a, %b, %d, %use_d, %pred {is_async}     D += A·B, issued by one thread
    ttng.tc_gen5_commit %barrier                              arrives when all of them are complete
    %tile = ttng.tmem_load %d                                 by the warps whose lanes they are

Properties and segments of Triton 3.6 to 3.9. Contracts follow PTX ISA, "TensorCore 5th Generation Family Instructions"
and "clusterlaunchcontrol".
"""

from __future__ import annotations

import re

from tawa.dialects.declare.declaration import Effect, OpView, Space, op_names
from tawa.dialects.declare.families import UnaryOp
from tawa.dialects.declare.fields import attribute, operand, operands, optional_operand, segment
from tawa.ir import MemDescType, Operation, ScalarType, Value, parse_type
from tawa.ir.attributes import read_array, read_int
from tawa.ir.encodings import aliases_at


def space_of(buffer: Value) -> Space:
    """The memory space of a memdesc."""
    type = parse_type(buffer.type)
    return "tensor" if isinstance(type, MemDescType) and type.in_tensor_memory else "shared"


def pitch_of(op: Operation, type: MemDescType) -> int:
    """Bits from one column of a buffer in tensor memory to the next, at `op`: elements may lie some columns apart."""
    return ScalarType(type.element).bits * column_stride(op, type)


def column_stride(op: Operation, type: MemDescType) -> int:
    """The distance of two neighbours of a row in tensor memory, in elements, at `op`: 2 for an accumulator of f16."""
    found = _STRIDE.search(aliases_at(op).get(type.encoding, type.encoding))
    return int(found[1]) if found else 1


_STRIDE = re.compile(r"colStride = (\d+)")

# -- tensor memory -----------------------------------------------------------------------------------------------------


class TMEMAllocOp(OpView):
    """``ttng.tmem_alloc``: allocates tensor memory, initialised if it has an operand.

    Results: memdesc, maybe a token.
    """

    NAME = "ttng.tmem_alloc"
    EFFECTS = (Effect("allocate", "tensor"),)
    source = optional_operand(0)

    @property
    def buffer(self) -> Value:
        """The memdesc."""
        return self.op.results[0]


class TMEMLoadOp(OpView):
    """``ttng.tmem_load``: tcgen05.ld and its wait. Operands: memdesc, maybe a token. Results: tile, maybe a token."""

    NAME = "ttng.tmem_load"
    EFFECTS = (Effect("read", "tensor", "buffer"),)
    buffer = operand(0)


class TMEMStoreOp(OpView):
    """``ttng.tmem_store``: tcgen05.st and its wait. Operands: memdesc, maybe a token, tile, predicate."""

    NAME = "ttng.tmem_store"
    EFFECTS = (Effect("write", "tensor", "buffer"),)
    buffer, source, predicate = operand(0), operand(-2), operand(-1)


class TMEMSubsliceOp(UnaryOp):
    """``ttng.tmem_subslice``: the columns (3.9: or rows) of a buffer from `start` on. Pure."""

    NAME = "ttng.tmem_subslice"

    @property
    def start(self) -> int:
        """The first column, or row."""
        properties = self.op.properties
        return read_int(properties["N"] if "N" in properties else properties["offset"])

    @property
    def dim(self) -> int:
        """The dimension that is sliced."""
        return read_int(self.op.properties.get("dim", "1 : i32"))


class TMEMCopyOp(OpView):
    """``ttng.tmem_copy``: tcgen05.cp from shared to tensor memory.

    It is in order with the dots of its thread, and complete at a commit.
    """

    NAME = "ttng.tmem_copy"
    EFFECTS = (Effect("read", "shared", "source"), Effect("write", "tensor", "target"))
    source, target = operand(0), operand(1)
    barriers = operands(2)


class TMEMWaitOp(OpView):
    """``ttng.tmem_wait`` (3.9): waits for the loads or stores of tensor memory of these threads."""

    NAME = "ttng.tmem_wait"
    EFFECTS = (Effect("order"),)


# -- tcgen05.mma -------------------------------------------------------------------------------------------------------


class TCGen5Dot(OpView):
    """A dot by one thread: D = A·B (+ D if `use_d`), in tensor memory, if `predicate` holds.

    It is in flight, reading its operands and writing D, until a commit of the same thread covers it: those to
    `barriers`, each under its own predicate, or a later one. Dots of a thread with one accumulator are in order. Only
    one that is not ``is_async`` and is ordered by tokens waits for itself: Triton's pass `triton-nvidia-mma-lowering`,
    which ends the tokens, inserts the wait. Gluon has neither that pass nor tokens.
    """

    a, b, d = operand(0), operand(1), operand(2)
    token = optional_operand(3)

    _use_d, _predicate, _barriers, _predicates = segment(4), segment(5), segment(6), segment(7)

    @property
    def use_d(self) -> Value:
        """Whether D is added."""
        return self._use_d[0]

    @property
    def predicate(self) -> Value:
        """Whether the dot is executed."""
        return self._predicate[0]

    @property
    def scales(self) -> tuple[Value, ...]:
        """The scales of A and B, in shared or tensor memory."""
        return ()

    @property
    def commits(self) -> list[tuple[Value, Value]]:
        """The barriers that it commits to, each with its predicate."""
        return list(zip(self._barriers, self._predicates, strict=True))

    def effects(self) -> tuple[Effect, ...]:
        """A, and the scales, may lie in tensor memory."""
        read = [Effect("read", space_of(value), name) for name, value in (("a", self.a), ("b", self.b))]
        scales = [Effect("read", space_of(value)) for value in self.scales]
        commits = [Effect("order")] if self.commits or self.waits else []
        return (*read, *scales, Effect("read", "tensor", "d"), Effect("write", "tensor", "d"), *commits)

    @property
    def waits(self) -> bool:
        """Whether it waits for itself."""
        return "is_async" not in self.op.properties and self.token is not None

    @property
    def two_ctas(self) -> bool:
        """Whether two CTAs of a cluster issue it together."""
        return "two_ctas" in self.op.properties


class TCGen5MMAOp(TCGen5Dot):
    """``ttng.tc_gen5_mma``: a dot without scales."""

    NAME = "ttng.tc_gen5_mma"


class TCGen5MMAScaledOp(TCGen5Dot):
    """``ttng.tc_gen5_mma_scaled``: a dot with a scale for each block of a row of A, and of a column of B."""

    NAME = "ttng.tc_gen5_mma_scaled"
    a_scale, b_scale = segment(4), segment(5)
    _use_d, _predicate, _barriers, _predicates = segment(6), segment(7), segment(8), segment(9)

    @property
    def scales(self) -> tuple[Value, ...]:
        """The scales of A and B, in shared or tensor memory."""
        return (*self.a_scale, *self.b_scale)


DOTS = op_names(TCGen5MMAOp, TCGen5MMAScaledOp)
ISSUED_BY_ONE_THREAD = DOTS | op_names(TMEMCopyOp)
"""The asynchronous operations of tcgen05."""
ACCUMULATOR = "tawa.accumulator"
"""The attribute of a dot whose accumulator is still a tile: the type that it will have in tensor memory."""
CORRECTED = "tawa.corrected"
"""The attribute of a dot, of a buffer and of what is computed from it, if the partition for corrections rewrites it."""
UNSIGNED = "tawa.unsigned"
"""The attribute of such a dot whose operands are unsigned integers."""
SCALED = {"a_type": "tawa.a_type", "b_type": "tawa.b_type"}
"""The attributes of such a dot with scales, by the property that they become: the kinds of A and B.

The scales are its last two operands.
"""
SCALES = "#ttng.tensor_memory_scales_encoding"
"""The layout of scales in tensor memory."""


def dot_of(op: Operation) -> TCGen5Dot | None:
    """The view of a dot by one thread; None for any other operation."""
    return TCGen5MMAOp.of(op) or TCGen5MMAScaledOp.of(op)


class TCGen5CommitOp(OpView):
    """``ttng.tc_gen5_commit``: one arrival, when all earlier tcgen05 operations of the thread are complete."""

    NAME = "ttng.tc_gen5_commit"
    EFFECTS = (Effect("order"),)
    barrier = operand(0)

    @property
    def predicate(self) -> Value | None:
        """Whether it arrives; None if it always does."""
        return next((it for it in self.op.operands[1:] if it.type == "i1"), None)

    @property
    def descriptors(self) -> list[Value]:
        """Buffers whose readers in other CTAs of the cluster it also informs (3.7 and later)."""
        sizes = self.op.properties.get("operandSegmentSizes")
        return self.op.operands[sum(read_array(sizes)[:2]) :] if sizes else []


# -- programs that the hardware hands out (3.8 and later) --------------------------------------------------------------


class CLCTryCancelOp(OpView):
    """``ttng.clc_try_cancel``: asks for a program that has not started.

    The answer, 16 bytes, arrives in a buffer and at a barrier.
    """

    NAME = "ttng.clc_try_cancel"
    EFFECTS = (Effect("write", "shared", "buffer"), Effect("order"))
    buffer, barrier = operand(0), operand(1)


class CLCTryCancelSyncOp(OpView):
    """``ttng.clc_try_cancel_sync`` (3.9): as `CLCTryCancelOp`, and waits for the answer."""

    NAME = "ttng.clc_try_cancel_sync"
    EFFECTS = (Effect("any"),)
    RECURSIVE = True
    OPAQUE = True


class CLCLoadResultOp(OpView):
    """``ttng.clc_load_result``: the answer in a buffer, as an i128."""

    NAME = "ttng.clc_load_result"
    EFFECTS = (Effect("read", "shared", "buffer"),)
    buffer = operand(0)


class CLCIsCanceledOp(UnaryOp):
    """``ttng.clc_is_canceled``: whether an answer names a program. Pure."""

    NAME = "ttng.clc_is_canceled"


class CLCGetProgramIdOp(UnaryOp):
    """``ttng.clc_get_program_id``: the program that an answer names, along an axis. Pure."""

    NAME = "ttng.clc_get_program_id"
    axis = attribute("dim", read_int)
