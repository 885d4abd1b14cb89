"""Tensor memory (Blackwell): rows of bytes that start as NaN, and their views as elements of a type.

    %s = ttng.tmem_alloc                    128 rows of 512 bytes
         as [128, 128] of f32               a column has 4 bytes
         as [128, 256] of f16               two columns in the bytes of one
         as [128, 128] of f16, colStride 2  every other one

Each byte has a state: `UNWRITTEN`, or `VISIBLE` once something was written or an operation that writes it was issued.
Whether that operation is still in flight, the operations in flight tell. There are no proxies. Buffers are as Triton's
types describe them; their places among the 512 columns are not modelled.

Source: PTX ISA, "Tensor Memory"; Triton's ``tensor_memory_encoding``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tawa.dialects.tcgen05 import column_stride
from tawa.ir import MemDescType, Operation
from tawa.sim.errors import OutOfBounds, TensorMemoryRace, UnsupportedOp, UnwrittenRead
from tawa.sim.machine.cta import TCGEN05, Action
from tawa.sim.machine.shared import UNWRITTEN, VISIBLE
from tawa.sim.machine.values import Buffer, SharedView
from tawa.sim.numbers import Array, memory_dtype


def allocate(op: Operation, name: str, type: MemDescType) -> SharedView:
    """A new buffer: all bits set (NaN), all bytes UNWRITTEN."""
    raw = np.full((*type.shape[:-1], _row_bytes(op, type)), 0xFF, np.uint8)
    state = np.full(raw.shape, UNWRITTEN, np.uint8)
    return _seen(op, Buffer(name, raw, state), raw, state, type, name)


def reinterpreted(op: Operation, view: SharedView, type: MemDescType) -> SharedView:
    """The first bytes of each row as elements of another type."""
    if view.type.shape[:-1] != type.shape[:-1] or _row_bytes(op, type) > _row_bytes(op, view.type):
        raise UnsupportedOp(f"{view.type} reinterpreted as {type}: other rows, or longer ones")
    buffer, shape = view.buffer, (*type.shape[:-1], _row_bytes(op, view.type))
    strides = (*view.bits.strides[:-1], 1)
    start = view.bits.__array_interface__["data"][0] - buffer.bits.__array_interface__["data"][0]
    raw, state = (np.ndarray(shape, np.uint8, whole, start, strides) for whole in (buffer.bits, buffer.state))
    return _seen(op, buffer, raw, state, type, view.label)


def subslice(view: SharedView, dim: int, start: int, type: MemDescType) -> SharedView:
    """``ttng.tmem_subslice``: some columns (dim = 1) or rows (dim = 0) of a matrix."""
    where = (*(slice(None),) * dim, slice(start, start + type.shape[dim]))
    bits, state = view.bits[where], view.state[where]
    if bits.shape != type.shape:
        raise OutOfBounds(f"a view of shape {type.shape} is outside {view.label}")
    return SharedView(view.buffer, bits, state, type, view.label)


def forget(view: SharedView) -> None:
    """What `view` holds must not be read any more."""
    view.state[...] = UNWRITTEN


def mark_written(view: SharedView) -> None:
    """The memory of `view` holds what was stored, or is the destination of an operation that was issued."""
    view.state[...] = VISIBLE


def require_written(view: SharedView) -> None:
    """Raises UnwrittenRead if no write of an element was issued."""
    missing = int((view.state == UNWRITTEN).any(axis=-1).sum())
    if missing:
        count = f"{missing} of {view.bits.size} elements"
        raise UnwrittenRead(f"{count} of {view.label}, in tensor memory, are read before they are written")


def require_quiet(
    view: SharedView, in_flight: Iterable[Action], *, written: bool, thread: int | None = None, whose: str = ""
) -> None:
    """Raises TensorMemoryRace if an operation in flight writes `view`, or also, if it becomes `written`, reads it.

    thread: the agent of a tcgen05 operation: those that it issued before are executed in the order of issue. whose: the
    operation that makes the access, for the message; empty for one of threads.
    """
    access = f"{view.label}, in tensor memory, is {'written' if written else 'read'}{whose and f' by {whose}'}"
    for action in in_flight:
        if action.kind not in TCGEN05 or action.owner.agent == thread:
            continue
        if action.fills is not None and overlaps(action.fills, view):
            raise TensorMemoryRace(f"{access} while {action.name} may still write it")
        if written and any(overlaps(it, view) for it in action.reads):
            raise TensorMemoryRace(f"{access} while {action.name} may still read it")


def overlaps(one: SharedView, other: SharedView) -> bool:
    """Whether two views have memory in common."""
    return one.buffer is other.buffer and np.shares_memory(one.bits, other.bits)


def _seen(op: Operation, buffer: Buffer, raw: Array, state: Array, type: MemDescType, label: str) -> SharedView:
    """The first bytes of each row as elements; each has the states of its bytes, in one more dimension."""
    dtype, stride, used = np.dtype(memory_dtype(type.element)), column_stride(op, type), _row_bytes(op, type)
    bits = raw[..., :used].view(dtype)[..., ::stride]
    states = state[..., :used].reshape(*type.shape, stride * dtype.itemsize)[..., : dtype.itemsize]
    return SharedView(buffer, bits, states, type, label)


def _row_bytes(op: Operation, type: MemDescType) -> int:
    width = np.dtype(memory_dtype(type.element)).itemsize
    return type.shape[-1] * column_stride(op, type) * width
