"""`ttng` and shared memory: wgmma groups, TMA copies, mbarriers, fences, as partitions execute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tawa.dialects import ttg, ttng
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import MakeTensorDescOp
from tawa.dialects.ttg import warps_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import MemDescType, Operation, TensorType, parse_type
from tawa.ir.attributes import read_array, read_int
from tawa.machine.hopper import WARP
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine import mbarriers
from tawa.sim.machine.cta import Action, Partition, Pause, Run
from tawa.sim.machine.shared import (
    IN_FLIGHT,
    VISIBLE,
    allocate,
    copied,
    dirty,
    filled,
    give_back,
    memdesc,
    require_fenced_loads,
    require_quiet,
    require_visible,
    require_written,
    view_op,
)
from tawa.sim.machine.values import Accumulator, SharedView, TensorDescriptor
from tawa.sim.numbers import Array, decode, encode, register_dtype
from tawa.sim.ops.descriptors import reduce_box
from tawa.sim.ops.elementwise import element_of
from tawa.sim.ops.global_memory import gather, make_descriptor, optional, read_box, write_box
from tawa.sim.ops.tiles import product

Step = Callable[[Partition, Operation, list[Any]], list[Any]]
Wait = Callable[[Partition, Operation, list[Any]], Run]


def _used(value: Any) -> Any:
    return value.use() if isinstance(value, Accumulator) else value


# -- shared memory, generic proxy --------------------------------------------------------------------------------------


def _local_alloc(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = allocate(op.result.hint or "a buffer", memdesc(op.result.type))
    source = ttg.LocalAllocOp(op).source
    if source is not None:
        view.bits[...] = encode(_used(args[0]), element_of(source.type)).reshape(view.bits.shape)
        view.state[...] = filled(who.agent)
        who.unfenced.append(view)
    return [view]


def _local_store(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[1]
    require_quiet(view, who.cta.reads)
    view.bits[...] = encode(_used(args[0]), element_of(ttg.LocalStoreOp(op).source.type)).reshape(view.bits.shape)
    view.state[...] = dirty(who.agent)
    who.unfenced.append(view)
    who.log(op, "local_store", view.label)
    return []


def _local_load(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[0]
    require_written(view)
    who.cta.loaded[who.agent, id(view.buffer), view.label] = view
    kind = parse_type(op.result.type)
    assert isinstance(kind, TensorType)
    # A copy: the tile must not change with the buffer.
    return [np.array(decode(np.ascontiguousarray(view.bits), kind.element)).reshape(kind.shape)]


def _local_dealloc(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    give_back(args[0], who.cta.reads)
    return []


def free(who: Partition, allocation: Operation) -> None:
    """Behind the last use of what `allocation` made, where no ``local_dealloc`` says when it is free."""
    view: SharedView = who.env[allocation.result]
    if view.type.element != "i64":  # barriers live until `inval_barrier`
        give_back(view, who.cta.reads)


def _view(_: Partition, op: Operation, args: list[Any]) -> list[Any]:
    return [view_op(op, args)]


def _fence(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    for view in who.unfenced:
        own = (view.state == dirty(who.agent)) | (view.state == filled(who.agent)) | (view.state >= copied(0))
        view.state[own] = VISIBLE
    who.unfenced.clear()
    for key in [key for key in who.cta.loaded if key[0] == who.agent]:
        del who.cta.loaded[key]
    who.fenced_copies = who.cta.landed_copies
    who.log(op, "fence")
    return []


# -- wgmma -------------------------------------------------------------------------------------------------------------


def _operand(who: Partition, value: Any) -> Array:
    """An operand of a wgmma as it is now."""
    if not isinstance(value, SharedView):
        return value
    require_visible(value, fills_are_fenced=True, copies=who.fenced_copies)
    return decode(np.ascontiguousarray(value.bits), value.type.element)


def _dot(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = WarpGroupDotOp(op)
    a, b, c = _used(args[0]), args[1], args[2]
    use_c = bool(args[3]) if len(args) > 3 else True
    kind, out = parse_type(view.a.type), parse_type(op.result.type)
    if not isinstance(kind, TensorType | MemDescType) or not isinstance(out, TensorType):
        raise UnsupportedOp(f"operands {view.a.type}")
    for operand in (a, b):
        _operand(who, operand)  # it may be read at once, whenever it lands
    result = Accumulator()

    def multiply() -> None:
        start = c.tile if isinstance(c, Accumulator) else c
        if not use_c:
            start = np.zeros(out.shape, register_dtype(out.element))
        assert start is not None
        result.tile = product(_operand(who, a), _operand(who, b), start, kind.element, tf32=True)

    reads = [operand for operand in (a, b) if isinstance(operand, SharedView)]
    # A reader of its own for each read: two dots may read one view.
    reads = [SharedView(it.buffer, it.bits, it.state, it.type, it.label) for it in reads]
    action = Action("wgmma", who, op, multiply, reads, result)
    who.wgmmas.append(action)
    who.cta.issue(action)
    if view.is_async:
        return [result]
    who.complete(who.wgmmas, 0)
    return [result.complete()]


def _dot_wait(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    pendings = read_int(op.properties["pendings"])
    who.complete(who.wgmmas, pendings)
    who.log(op, "wgmma wait", f"pendings {pendings}")
    return [it.complete() if isinstance(it, Accumulator) and it.waited else it for it in args]


# -- TMA ---------------------------------------------------------------------------------------------------------------


def _make_descriptor(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    who.cta.require_unused(op)
    return [make_descriptor(op, args)]


def _tma_load(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    descriptor: TensorDescriptor = args[0]
    rank = len(descriptor.shape)
    if len(args) != rank + 4 or op.properties.get("multicast", "false") != "false":
        raise UnsupportedOp("a TMA copy with more operands than descriptor, indices, barrier, buffer, predicate")
    at, barrier_view, target, predicate = args[1 : 1 + rank], args[-3], args[-2], args[-1]
    if not predicate:
        return []
    barrier = mbarriers.living(barrier_view)
    require_quiet(target, who.cta.reads)
    require_fenced_loads(target, who.cta.loaded.values())
    target.state[...] = IN_FLIGHT
    who.contributes((barrier, barrier.phase))

    def copy() -> None:
        target.bits[...] = read_box(descriptor, at).reshape(target.bits.shape)
        target.state[...] = VISIBLE
        mbarriers.deliver(barrier, target.bits.size * target.bits.itemsize)

    who.cta.issue(Action("load", who, op, copy, target=target.label, descriptors=(descriptor,)))
    return []


def _tma_store(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    """A copy to global memory, or a reduction into it."""
    descriptor: TensorDescriptor = args[0]
    rank = len(descriptor.shape)
    if len(args) != rank + 2:
        raise UnsupportedOp("a TMA store with more operands than descriptor, indices, buffer")
    at, source = args[1 : 1 + rank], args[-1]
    require_visible(source, fills_are_fenced=False, copies=who.fenced_copies)
    own = SharedView(source.buffer, source.bits, source.state, source.type, source.label)

    def copy() -> None:
        require_visible(own, fills_are_fenced=False, copies=who.fenced_copies)
        bits = np.ascontiguousarray(own.bits)
        if ttng.AsyncTMAReduceOp.matches(op):
            reduce_box(op, descriptor, at, bits)
        else:
            write_box(descriptor, at, bits)

    action = Action("store", who, op, copy, [own], target=source.label, descriptors=(descriptor,))
    who.stores.append(action)
    who.cta.issue(action)
    return []


def _tma_store_wait(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    pendings = read_int(op.properties["pendings"])
    who.complete(who.stores, pendings)
    who.log(op, "store wait", f"pendings {pendings}")
    return []


# -- cp.async: the generic proxy, but later ----------------------------------------------------------------------------


def _cp_async(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    source, target, mask, other = optional(op, args, 4)
    require_quiet(target, who.cta.reads)
    target.state[...] = IN_FLIGHT
    tile = gather(source, mask, 0 if other is None else other, target.type.element)

    def copy() -> None:
        target.bits[...] = encode(tile, target.type.element).reshape(target.bits.shape)
        target.state[...] = copied(who.cta.landed_copies)
        who.cta.landed_copies += 1

    action = Action("copy", who, op, copy, target=target.label, fills=target)
    who.copies[-1].append(action)
    who.cta.issue(action)
    return [None] * len(op.results)


def _copies_arrive(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    """Each thread arrives when its own copies have landed: here all threads at once, when all copies have."""
    barrier, threads = mbarriers.living(args[0]), warps_of(op) * WARP
    if "noIncrement" not in op.properties:
        barrier.pending += threads
    _log(who, op, "arrive", args[0], barrier.phase % 2)
    who.contributes((barrier, barrier.phase))
    if who.recorder is not None:
        for action in who.copies[-1]:
            who.recorder.signal_when_landed(action, (barrier, barrier.phase))
    who.copies[-1][:] = [it for it in who.copies[-1] if not it.landed]
    issued = [it for group in who.copies for it in group if not it.landed]
    action = Action("arrival", who, op, lambda: mbarriers.arrive(barrier, threads), target=args[0].label, behind=issued)
    who.cta.issue(action)
    return []


def _cp_commit(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    who.copies.append([])
    return [None] * len(op.results)


def _cp_wait(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    left = read_int(op.properties["num"])
    while len(who.copies) - 1 > left:
        group = who.copies.pop(0)
        who.unfenced += [action.fills for action in group if action.fills is not None]
        who.complete(group, 0)
    return [None] * len(op.results)


# -- mbarriers ---------------------------------------------------------------------------------------------------------


def _log(who: Partition, op: Operation, action: str, view: SharedView, parity: int) -> None:
    """`ring0_full[1]` is slot 1 of ring0_full."""
    name, _, slot = view.label.removesuffix("]").partition("[")
    who.log(op, action, name, int(slot) if slot.isdecimal() else None, parity)


def _init_barrier(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    mbarriers.initialise(args[0], read_int(op.properties["count"]))
    return []


def _inval_barrier(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    mbarriers.invalidate(args[0])
    return []


def _expect(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    if args[1]:
        barrier = mbarriers.living(args[0])
        _log(who, op, "expect", args[0], barrier.phase % 2)
        who.contributes((barrier, barrier.phase))
        mbarriers.arrive(barrier, 1, read_int(op.properties["size"]))
    return []


def _arrive(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    if len(args) < 2 or args[1]:
        barrier = mbarriers.living(args[0])
        _log(who, op, "arrive", args[0], barrier.phase % 2)
        who.contributes((barrier, barrier.phase))
        mbarriers.arrive(barrier, read_int(op.properties["count"]))
    return []


def _wait_barrier(who: Partition, op: Operation, args: list[Any]) -> Run:
    sizes = op.properties.get("operandSegmentSizes")
    predicated = read_array(sizes)[2] if sizes else len(args) > 2
    if predicated and not args[2]:
        return []
    barrier, parity = mbarriers.living(args[0]), int(args[1])
    if not mbarriers.passes(barrier, parity):
        _log(who, op, "wait", args[0], parity)
    yield Pause(
        lambda: mbarriers.passes(barrier, parity),
        lambda: (
            f"{args[0].label}, parity {parity} (in phase {barrier.phase}, which lacks {barrier.pending} of"
            f" {barrier.count} arrivals and {barrier.bytes} bytes)"
        ),
    )
    _log(who, op, "pass", args[0], parity)
    who.waits_for((barrier, barrier.phase - 1))
    return []


STEPS: dict[str, Step] = by_name(
    {
        MakeTensorDescOp: _make_descriptor,
        ttg.LocalAllocOp: _local_alloc,
        ttg.LocalStoreOp: _local_store,
        ttg.LocalLoadOp: _local_load,
        ttg.LocalDeallocOp: _local_dealloc,
        ttg.MemDescIndexOp: _view,
        ttg.MemDescSubsliceOp: _view,
        ttg.MemDescTransOp: _view,
        ttg.MemDescReshapeOp: _view,
        ttg.MemDescReinterpretOp: _view,
        ttng.FenceAsyncSharedOp: _fence,
        WarpGroupDotOp: _dot,
        ttng.WarpGroupDotWaitOp: _dot_wait,
        ttng.AsyncTMACopyGlobalToLocalOp: _tma_load,
        ttng.AsyncTMACopyLocalToGlobalOp: _tma_store,
        ttng.AsyncTMAReduceOp: _tma_store,
        ttng.AsyncTMAStoreWaitOp: _tma_store_wait,
        ttg.AsyncCopyGlobalToLocalOp: _cp_async,
        ttg.AsyncCommitGroupOp: _cp_commit,
        ttg.AsyncWaitOp: _cp_wait,
        ttng.AsyncCopyMbarrierArriveOp: _copies_arrive,
        ttng.InitBarrierOp: _init_barrier,
        ttng.InvalBarrierOp: _inval_barrier,
        ttng.BarrierExpectOp: _expect,
        ttng.ArriveBarrierOp: _arrive,
    }
)
"""Operations that never block, by name."""

WAITS: dict[str, Wait] = by_name({ttng.WaitBarrierOp: _wait_barrier})
"""Operations that may block, by name."""
