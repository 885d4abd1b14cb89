"""Shared memory: buffers that start as NaN, views of them, and who may read what.

Each element has a state beside its bits:

    UNWRITTEN   nobody wrote it                      IN_FLIGHT   a TMA copy into it was issued and has not landed
    VISIBLE     written, both proxies see it
    dirty(a)    written through the generic proxy by agent a, not fenced yet: not for the async proxy
    filled(a)   the same by a ``local_alloc`` with contents: Triton itself puts the fence before a wgmma, not before TMA
    copied(n)   written by the nth cp.async that landed: for the async proxy of who fences after that

Source: PTX ISA, "Async proxy"; Triton's fence insertion for operands of wgmma.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tawa.dialects.ttg import MemDescIndexOp, MemDescReinterpretOp, MemDescReshapeOp, MemDescSubsliceOp, MemDescTransOp
from tawa.ir import MemDescType, Operation, parse_type
from tawa.ir.attributes import read_array
from tawa.sim.errors import MissingFence, OutOfBounds, SharedMemoryRace, UnsupportedOp, UnwrittenRead
from tawa.sim.machine.values import Barrier, Buffer, SharedView
from tawa.sim.numbers import Array, memory_dtype

UNWRITTEN, VISIBLE, IN_FLIGHT = 0, 1, 2
_FIRST_AGENT = 16
_FIRST_COPY = 1 << 16


def dirty(agent: int) -> int:
    """Written by ``local_store`` of `agent`, not fenced."""
    return _FIRST_AGENT + 2 * agent


def filled(agent: int) -> int:
    """Written by ``local_alloc`` of `agent`, not fenced."""
    return _FIRST_AGENT + 2 * agent + 1


def copied(number: int) -> int:
    """Written by a cp.async, the `number`th of the CTA to land."""
    return _FIRST_COPY + number


def memdesc(type: str) -> MemDescType:
    """Reads the type; raises UnsupportedOp for any other."""
    kind = parse_type(type)
    if not isinstance(kind, MemDescType):
        raise UnsupportedOp(f"shared memory of type {type}")
    return kind


def allocate(name: str, type: MemDescType) -> SharedView:
    """A new buffer: NaN everywhere (all bits set), nothing written."""
    dtype = memory_dtype(type.element)
    bits = np.full(type.shape, np.iinfo(dtype).max, dtype)
    state = np.zeros(type.shape, np.uint32)
    return SharedView(Buffer(name, bits, state), bits, state, type, name)


def require_written(view: SharedView) -> None:
    """Raises UnwrittenRead where an element was never written or its copy is in flight."""
    state = view.state
    if state.size and state.min() == VISIBLE == state.max():
        return
    if (state == IN_FLIGHT).any():
        raise UnwrittenRead(f"{view.label} is read while the TMA copy into it is in flight")
    missing = int((state == UNWRITTEN).sum())
    if missing:
        raise UnwrittenRead(f"{missing} of {state.size} elements of {view.label} are read before anybody wrote them")


def require_visible(view: SharedView, *, fills_are_fenced: bool, copies: int) -> None:
    """What `require_written` says, and raises MissingFence where the async proxy may not see a write.

    copies: how many cp.async had landed when the reader fenced last.
    """
    require_written(view)
    unfenced = view.state >= _FIRST_AGENT
    if fills_are_fenced:
        unfenced &= (view.state % 2 == 0) | (view.state >= _FIRST_COPY)
    unfenced &= (view.state < _FIRST_COPY) | (view.state >= copied(copies))
    if unfenced.any():
        raise MissingFence(f"{view.label} was written through the generic proxy and is read by the async proxy")


def require_quiet(view: SharedView, reads: list[tuple[SharedView, str]], becomes: str = "written") -> None:
    """Raises SharedMemoryRace when `view`, about to be written, is in use by something asynchronous."""
    if (view.state == IN_FLIGHT).any():
        raise SharedMemoryRace(f"{view.label} is {becomes} while a TMA copy into it is in flight")
    for other, reader in reads:
        if other.buffer is view.buffer and np.shares_memory(other.bits, view.bits):
            raise SharedMemoryRace(f"{view.label} is {becomes} while {reader} may still read it")


def require_fenced_loads(view: SharedView, loaded: Iterable[SharedView]) -> None:
    """Raises MissingFence when threads loaded from `view`, which TMA is about to write, and did not fence since."""
    for other in loaded:
        if other.buffer is view.buffer and np.shares_memory(other.bits, view.bits):
            raise MissingFence(f"{view.label} was read through the generic proxy and is written by the async proxy")


def give_back(view: SharedView, reads: list[tuple[SharedView, str]]) -> None:
    """The bytes of `view` are anybody's: raises SharedMemoryRace when something asynchronous is not done with them."""
    require_quiet(view, reads, becomes="free for other tiles")
    view.bits[...] = np.iinfo(view.bits.dtype).max
    view.state[...] = UNWRITTEN


def index(view: SharedView, at: int, type: MemDescType) -> SharedView:
    """``ttg.memdesc_index``: one slot."""
    if not 0 <= at < view.bits.shape[0]:
        raise OutOfBounds(f"slot {at} of {view.label}, which has {view.bits.shape[0]}")
    where = slice(at, at + 1) if len(type.shape) == view.bits.ndim else at
    return SharedView(view.buffer, view.bits[where], view.state[where], type, f"{view.label}[{at}]")


def barrier_place(view: SharedView) -> int:
    """The element of its buffer that a barrier's view starts at."""
    base, start = (array.__array_interface__["data"][0] for array in (view.buffer.bits, view.bits))
    return (start - base) // view.bits.itemsize


def barrier_of(view: SharedView) -> Barrier | None:
    """The mbarrier that lives at a view; None before its initialisation."""
    return view.buffer.barriers.get(barrier_place(view))


def view_op(op: Operation, args: list[Any]) -> SharedView:
    """The operations of `tawa.dialects.ttg.VIEWS`."""
    view, type = args[0], memdesc(op.result.type)
    assert isinstance(view, SharedView)
    match op.name:
        case MemDescIndexOp.NAME:
            return index(view, args[1], type)
        case MemDescSubsliceOp.NAME:
            starts = read_array(op.properties["offsets"])
            where = tuple(slice(start, start + size) for start, size in zip(starts, type.shape, strict=True))
            return _same(view, view.bits[where], view.state[where], type)
        case MemDescTransOp.NAME:
            order = read_array(op.properties["order"])
            return _same(view, view.bits.transpose(order), view.state.transpose(order), type)
        case MemDescReshapeOp.NAME:
            return _same(view, _reshaped(view.bits, type), _reshaped(view.state, type), type)
        case MemDescReinterpretOp.NAME:
            dtype = memory_dtype(type.element)
            if view.bits.itemsize != np.dtype(dtype).itemsize or view.bits.size != int(np.prod(type.shape)):
                raise UnsupportedOp(f"{view.type} read as {type}: elements of another width or number")
            return _same(view, _reshaped(view.bits, type), _reshaped(view.state, type), type)
        case _:
            raise UnsupportedOp("an unknown view of shared memory")


def _reshaped(array: Array, type: MemDescType) -> Array:
    result = array.reshape(type.shape)
    if not np.shares_memory(result, array):
        raise UnsupportedOp(f"a view of shape {array.shape} that is not contiguous, as {type.shape}")
    return result


def _same(view: SharedView, bits: Array, state: Array, type: MemDescType) -> SharedView:
    if bits.shape != type.shape:
        raise OutOfBounds(f"{view.label} has no part of shape {type.shape} there")
    return SharedView(view.buffer, bits, state, type, view.label)
