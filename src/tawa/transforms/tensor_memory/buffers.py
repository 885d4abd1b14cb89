"""Buffers that the partition of the dots and the threads access."""

from __future__ import annotations

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.tcgen05 import DOTS, TMEMAllocOp, pitch_of
from tawa.dialects.ttg import LocalAllocOp
from tawa.ir import Operation, Value, memdesc_type

_LEAST_COLUMNS = 32


def columns_of(buffer: Value) -> int:
    """The columns of 32 bits that a buffer takes: a power of two, 32 or more; none in shared memory."""
    type, made = memdesc_type(buffer.type), buffer.defining_op
    if not type.in_tensor_memory or made is None:
        return 0
    columns = type.shape[-1] * pitch_of(made, type) // 32
    return max(_LEAST_COLUMNS, 1 << (columns - 1).bit_length())


def read_by_dots(alloc: LocalAllocOp) -> bool:
    """Whether a dot reads shared memory, directly or through views."""
    return any(reader.name in DOTS for reader in slot_readers(alloc.op.result))


def changes_hands(op: Operation) -> bool:
    """Whether an operation makes a buffer that the dots and the threads access."""
    if alloc := LocalAllocOp.of(op):
        return alloc.source is None and read_by_dots(alloc)
    return TMEMAllocOp.matches(op)


__all__ = ["changes_hands", "columns_of", "read_by_dots"]
