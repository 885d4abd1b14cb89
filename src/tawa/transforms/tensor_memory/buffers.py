"""Buffers that the partition of the dots and the threads access."""

from __future__ import annotations

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.tcgen05 import ISSUED_BY_ONE_THREAD, SCALES, TMEMAllocOp, TMEMCopyOp, pitch_of
from tawa.dialects.ttg import LocalAllocOp
from tawa.ir import Operation, Value, memdesc_type
from tawa.ir.encodings import aliases_at, kind_of
from tawa.machine.machines import TCGEN05

ROWS_OF_A = "#ttng.tensor_memory_encoding<blockM = {}, blockN = {}, colStride = 1>"
"""The layout of a left operand in tensor memory, by its shape."""
_LEAST_COLUMNS = 32
_ROWS, _BYTES = 32, 4
"""Of the scales in one column."""


def columns_of(buffer: Value) -> int:
    """The columns of 32 bits that a buffer takes: a power of two, 32 or more; none in shared memory.

    The second 128 rows have columns of their own. Scales take a column for 4 of 32 rows, of which each quarter of the
    lanes has a copy.
    """
    type, made = memdesc_type(buffer.type), buffer.defining_op
    if not type.in_tensor_memory or made is None:
        return 0
    if kind_of(aliases_at(made), type.encoding) == SCALES:
        rows, columns = type.shape
        return -(-rows // _ROWS) * -(-columns // _BYTES)
    columns = type.shape[-1] * pitch_of(made, type) // 32 * max(1, type.shape[0] // TCGEN05.rows)
    return max(_LEAST_COLUMNS, 1 << (columns - 1).bit_length())


def read_by_dots(alloc: LocalAllocOp) -> bool:
    """Whether a dot reads shared memory, directly or through views."""
    return any(reader.name in ISSUED_BY_ONE_THREAD for reader in slot_readers(alloc.op.result))


def changes_hands(op: Operation) -> bool:
    """Whether an operation makes a buffer that the dots and the threads access, and not the dots' thread alone."""
    if alloc := LocalAllocOp.of(op):
        return alloc.source is None and read_by_dots(alloc)
    return TMEMAllocOp.matches(op) and not any(TMEMCopyOp.matches(it) for it in slot_readers(op.result))
