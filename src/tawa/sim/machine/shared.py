"""Shared memory: buffers that start as NaN, their views, and the visibility of writes to each proxy.

Each element has bits and a state (a view of wider elements has the states of the elements that they consist of, in one
more dimension):

    UNWRITTEN   never written                        IN_FLIGHT   destination of an asynchronous copy that has not landed
    VISIBLE     written and visible to both proxies
    dirty(a)    written through the generic proxy by agent a and not fenced: not visible to the async proxy
    filled(a)   the same, written by an immutable ``local_alloc`` with contents: Triton inserts the fence before a
                wgmma, but not before a TMA store. Gluon's allocations are mutable; no pass inserts a fence for them
    copied(n)   written by the nth cp.async that landed: visible to the async proxy after a later fence of the reader

Source: PTX ISA, "Async proxy" (accesses of one location through two proxies need a fence, whatever reads and whatever
writes); Triton's fence insertion for operands of wgmma.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tawa.dialects.ttg import MemDescIndexOp, MemDescReinterpretOp, MemDescReshapeOp, MemDescSubsliceOp, MemDescTransOp
from tawa.ir import MemDescType, Operation, parse_type
from tawa.ir.attributes import read_array
from tawa.ir.encodings import aliases_at, fields_of
from tawa.sim.errors import MissingFence, OutOfBounds, SharedMemoryRace, UnsupportedOp, UnwrittenRead
from tawa.sim.machine.values import Barrier, Buffer, SharedView
from tawa.sim.numbers import Array, memory_dtype

UNWRITTEN, VISIBLE, IN_FLIGHT = 0, 1, 2
_FIRST_AGENT = 16
_FIRST_COPY = 1 << 16


def dirty(agent: int) -> int:
    """State: written by a ``local_store`` or a mutable ``local_alloc`` of `agent`, not fenced."""
    return _FIRST_AGENT + 2 * agent


def filled(agent: int) -> int:
    """State: written by an immutable ``local_alloc`` of `agent`, not fenced."""
    return _FIRST_AGENT + 2 * agent + 1


def copied(number: int) -> int:
    """State: written by the cp.async of the CTA that landed as number `number`."""
    return _FIRST_COPY + number


def memdesc(type: str) -> MemDescType:
    """Parses a memdesc type; raises UnsupportedOp for any other type."""
    kind = parse_type(type)
    if not isinstance(kind, MemDescType):
        raise UnsupportedOp(f"shared memory of type {type}")
    return kind


def allocate(name: str, type: MemDescType, transposed: bool = False) -> SharedView:
    """A new buffer: all bits set (NaN), all elements UNWRITTEN. transposed: columns are contiguous, instead of rows."""
    dtype = memory_dtype(type.element)
    shape = (*type.shape[:-2], *type.shape[:-3:-1]) if transposed else type.shape
    bits = np.full(shape, np.iinfo(dtype).max, dtype)
    state = np.zeros(shape, np.uint32)
    if transposed:
        bits, state = bits.swapaxes(-1, -2), state.swapaxes(-1, -2)
    return SharedView(Buffer(name, bits, state), bits, state, type, name)


def is_transposed(op: Operation, type: MemDescType) -> bool:
    """Whether the columns of a matrix in a buffer that an operation makes are contiguous."""
    return fields_of(aliases_at(op), type.encoding).get("transposed") == "true" and len(type.shape) >= _MATRIX


_MATRIX = 2


def require_written(view: SharedView) -> None:
    """Raises UnwrittenRead if an element was never written or its copy is in flight."""
    state = view.state
    if state.size and state.min() == VISIBLE == state.max():
        return
    if (state == IN_FLIGHT).any():
        raise UnwrittenRead(f"{view.label} is read while the TMA copy into it is in flight")
    missing = int((state == UNWRITTEN).sum())
    if missing:
        raise UnwrittenRead(f"{missing} of {state.size} elements of {view.label} are read before they are written")


def require_visible(view: SharedView, *, fills_are_fenced: bool, copies: int) -> None:
    """Like `require_written`; also raises MissingFence if a write is not visible to the async proxy.

    fills_are_fenced: Triton inserts the fence for contents of an immutable ``local_alloc``. copies: the number of
    cp.async that had landed at the reader's last fence.
    """
    require_written(view)
    unfenced = _unfenced(view, copies)
    if fills_are_fenced:
        unfenced &= (view.state % 2 == 0) | (view.state >= _FIRST_COPY)
    if unfenced.any():
        raise MissingFence(f"{view.label} was written through the generic proxy and is read by the async proxy")


def _unfenced(view: SharedView, copies: int) -> Array:
    """The elements that were written through the generic proxy, without a fence since then."""
    return (view.state >= _FIRST_AGENT) & ((view.state < _FIRST_COPY) | (view.state >= copied(copies)))


def require_quiet(view: SharedView, reads: list[tuple[SharedView, str]], becomes: str = "written") -> None:
    """Raises SharedMemoryRace if an asynchronous operation uses `view`, which is about to be written or freed."""
    if (view.state == IN_FLIGHT).any():
        raise SharedMemoryRace(f"{view.label} is {becomes} while a TMA copy into it is in flight")
    for other, reader in reads:
        if other.buffer is view.buffer and np.shares_memory(other.bits, view.bits):
            raise SharedMemoryRace(f"{view.label} is {becomes} while {reader} may still read it")


def require_overwritable(view: SharedView, loaded: Iterable[SharedView], copies: int) -> None:
    """Raises MissingFence if threads accessed `view`, which TMA is about to write, without a later fence.

    copies: the number of cp.async that had landed at the last fence of the partition that issues the TMA copy.
    """
    if _unfenced(view, copies).any():
        raise MissingFence(f"{view.label} was written through the generic proxy and is written by the async proxy")
    for other in loaded:
        if other.buffer is view.buffer and np.shares_memory(other.bits, view.bits):
            raise MissingFence(f"{view.label} was read through the generic proxy and is written by the async proxy")


def deallocate(view: SharedView, reads: list[tuple[SharedView, str]]) -> None:
    """Frees the memory of `view`; raises SharedMemoryRace if an asynchronous operation still uses it."""
    require_quiet(view, reads, becomes="freed")
    view.bits[...] = np.iinfo(view.bits.dtype).max
    view.state[...] = UNWRITTEN


def index(view: SharedView, at: int, type: MemDescType) -> SharedView:
    """``ttg.memdesc_index``: one slot."""
    if not 0 <= at < view.bits.shape[0]:
        raise OutOfBounds(f"slot {at} of {view.label}, which has {view.bits.shape[0]} slots")
    where = slice(at, at + 1) if len(type.shape) == view.bits.ndim else at
    return SharedView(view.buffer, view.bits[where], view.state[where], type, f"{view.label}[{at}]")


def barrier_place(view: SharedView) -> int:
    """The offset of a barrier's view in its buffer, in elements."""
    base, start = (array.__array_interface__["data"][0] for array in (view.buffer.bits, view.bits))
    return (start - base) // view.bits.itemsize


def barrier_of(view: SharedView) -> Barrier | None:
    """The mbarrier at a view; None before its initialisation."""
    return view.buffer.barriers.get(barrier_place(view))


def view_op(op: Operation, args: list[Any]) -> SharedView:
    """Executes an operation of `tawa.dialects.ttg.VIEWS`."""
    view, type = args[0], memdesc(op.result.type)
    assert isinstance(view, SharedView)
    if view.bits.shape != view.type.shape and op.name != MemDescReshapeOp.NAME:
        raise UnsupportedOp(f"a view of a non-contiguous view of shape {view.bits.shape} that was reshaped")
    match op.name:
        case MemDescIndexOp.NAME:
            return index(view, args[1], type)
        case MemDescSubsliceOp.NAME:
            starts = read_array(op.properties["offsets"])
            where = tuple(slice(start, start + size) for start, size in zip(starts, type.shape, strict=True))
            return _view(view, view.bits[where], view.state[where], type)
        case MemDescTransOp.NAME:
            order = read_array(op.properties["order"])
            more = range(len(order), view.state.ndim)
            return _view(view, view.bits.transpose(order), view.state.transpose([*order, *more]), type)
        case MemDescReshapeOp.NAME:
            parts = view.state.shape[view.bits.ndim :]
            if not np.shares_memory(view.bits.reshape(type.shape), view.bits):
                return SharedView(view.buffer, view.bits, view.state, type, view.label)
            return _view(view, _reshaped(view.bits, type), _reshaped(view.state, type, parts), type)
        case MemDescReinterpretOp.NAME:
            return _reinterpreted(view, type)
        case _:
            raise UnsupportedOp("an unknown view of shared memory")


def _reinterpreted(view: SharedView, type: MemDescType) -> SharedView:
    """The same bytes as elements of another type: of the same width, or wider ones in the same rows."""
    dtype = np.dtype(memory_dtype(type.element))
    factor, rest = divmod(dtype.itemsize, view.bits.itemsize)
    rows = view.bits.shape[:-1]
    if factor == 1 and not rest and view.bits.size == int(np.prod(type.shape)):
        parts = view.state.shape[view.bits.ndim :]
        return _view(view, _reshaped(view.bits, type), _reshaped(view.state, type, parts), type)
    contiguous = view.bits.strides[-1] == view.bits.itemsize and view.state.ndim == view.bits.ndim
    if rest or not factor or not contiguous or (*rows, view.bits.shape[-1] // factor) != type.shape:
        raise UnsupportedOp(f"{view.type} reinterpreted as {type}: the width or number of elements differs")
    return _view(view, view.bits.view(dtype), _reshaped(view.state, type, (factor,)), type)


def _reshaped(array: Array, type: MemDescType, parts: tuple[int, ...] = ()) -> Array:
    result = array.reshape((*type.shape, *parts))
    if not np.shares_memory(result, array):
        raise UnsupportedOp(f"a non-contiguous view of shape {array.shape} reshaped to {type.shape}")
    return result


def _view(view: SharedView, bits: Array, state: Array, type: MemDescType) -> SharedView:
    if bits.shape != type.shape:
        raise OutOfBounds(f"a view of shape {type.shape} is outside {view.label}")
    return SharedView(view.buffer, bits, state, type, view.label)
