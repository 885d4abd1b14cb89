"""Handlers of shared memory and asynchronous operations: wgmma groups, TMA copies, cp.async, mbarriers, fences."""

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
from tawa.machine.nvidia import WARP
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine import mbarriers
from tawa.sim.machine.cta import Action, Partition, Pause, Run
from tawa.sim.machine.shared import (
    IN_FLIGHT,
    VISIBLE,
    allocate,
    copied,
    deallocate,
    dirty,
    filled,
    is_transposed,
    memdesc,
    require_overwritable,
    require_quiet,
    require_visible,
    require_written,
    view_op,
)
from tawa.sim.machine.tensor_memory import reinterpreted
from tawa.sim.machine.trace import Key
from tawa.sim.machine.values import Accumulator, SharedView, TensorDescriptor
from tawa.sim.numbers import Array, decode, encode, register_dtype
from tawa.sim.ops.descriptors import reduce_box
from tawa.sim.ops.elementwise import element_of
from tawa.sim.ops.global_memory import gather, make_descriptor, optional, read_box, write_box
from tawa.sim.ops.tiles import product

Step = Callable[[Partition, Operation, list[Any]], list[Any]]
Wait = Callable[[Partition, Operation, list[Any]], Run]


def used(value: Any) -> Any:
    """A value that an operation reads: not an asynchronous dot without its wait."""
    return value.use() if isinstance(value, Accumulator) else value


# -- shared memory, generic proxy --------------------------------------------------------------------------------------


def _local_alloc(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    type = memdesc(op.result.type)
    view = allocate(op.result.hint or "a buffer", type, is_transposed(op, type))
    source = ttg.LocalAllocOp(op).source
    if source is not None:
        view.bits[...] = encode(used(args[0]), element_of(source.type)).reshape(view.bits.shape)
        view.state[...] = dirty(partition.agent) if type.mutable else filled(partition.agent)
        partition.unfenced.append(view)
    return [view]


def _local_store(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[1]
    require_quiet(view, partition.cta.reads)
    view.bits[...] = encode(used(args[0]), element_of(ttg.LocalStoreOp(op).source.type)).reshape(view.bits.shape)
    view.state[...] = dirty(partition.agent)
    partition.unfenced.append(view)
    partition.log(op, "local_store", view.label)
    return []


def _local_load(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[0]
    require_written(view)
    partition.cta.loaded[partition.agent, id(view.buffer), view.label] = view
    kind = parse_type(op.result.type)
    assert isinstance(kind, TensorType)
    # A copy: the tile must not change with the buffer.
    return [np.array(decode(np.ascontiguousarray(view.bits), kind.element)).reshape(kind.shape)]


def _local_dealloc(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    deallocate(args[0], partition.cta.reads)
    return []


def free(partition: Partition, allocation: Operation) -> None:
    """Frees a buffer at the end of its live range; used for allocations without a ``local_dealloc``."""
    view: SharedView = partition.env[allocation.result]
    if view.type.element != "i64":  # barriers are live until `inval_barrier`
        deallocate(view, partition.cta.reads)


def _view(_: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[0]
    if view.type.in_tensor_memory and ttg.MemDescReinterpretOp.matches(op):
        return [reinterpreted(op, view, memdesc(op.result.type))]
    return [view_op(op, args)]


def fence(partition: Partition, op: Operation) -> None:
    """A proxy fence of the partition: its writes become visible to the async proxy, its loads are complete."""
    for view in partition.unfenced:
        own = (
            (view.state == dirty(partition.agent)) | (view.state == filled(partition.agent)) | (view.state >= copied(0))
        )
        view.state[own] = VISIBLE
    partition.unfenced.clear()
    for key in [key for key in partition.cta.loaded if key[0] == partition.agent]:
        del partition.cta.loaded[key]
    partition.fenced_copies = partition.cta.landed_copies
    partition.log(op, "fence")


def _fence(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    fence(partition, op)
    return []


# -- wgmma -------------------------------------------------------------------------------------------------------------


def _operand(partition: Partition, value: Any) -> Array:
    """The current contents of a wgmma operand."""
    if not isinstance(value, SharedView):
        return value
    require_visible(value, fills_are_fenced=True, copies=partition.fenced_copies)
    return decode(np.ascontiguousarray(value.bits).reshape(value.type.shape), value.type.element)


def own_view(view: SharedView) -> SharedView:
    """A copy of a view, which identifies one read: two operations may read the same view."""
    return SharedView(view.buffer, view.bits, view.state, view.type, view.label)


def _dot(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = WarpGroupDotOp(op)
    a, b, c = used(args[0]), args[1], args[2]
    use_c = bool(args[3]) if len(args) > 3 else True
    kind, out = parse_type(view.a.type), parse_type(op.result.type)
    if not isinstance(kind, TensorType | MemDescType) or not isinstance(out, TensorType):
        raise UnsupportedOp(f"a wgmma with an operand of type {view.a.type}")
    for operand in (a, b):
        _operand(partition, operand)  # the hardware may read operands as soon as the wgmma is issued
    result = Accumulator()

    def multiply() -> None:
        start = c.tile if isinstance(c, Accumulator) else c
        if not use_c:
            start = np.zeros(out.shape, register_dtype(out.element))
        assert start is not None
        result.tile = product(_operand(partition, a), _operand(partition, b), start, kind.element, tf32=True)

    reads = [own_view(operand) for operand in (a, b) if isinstance(operand, SharedView)]
    action = Action("wgmma", partition, op, multiply, reads, result)
    partition.wgmmas.append(action)
    partition.cta.issue(action)
    if view.is_async:
        return [result]
    partition.complete(partition.wgmmas, 0)
    return [result.complete()]


def _dot_wait(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    pendings = read_int(op.properties["pendings"])
    partition.complete(partition.wgmmas, pendings)
    partition.log(op, "wgmma wait", f"pendings {pendings}")
    return [it.complete() if isinstance(it, Accumulator) and it.waited else it for it in args]


# -- TMA ---------------------------------------------------------------------------------------------------------------


def _make_descriptor(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    partition.cta.require_unused(op)
    return [make_descriptor(op, args)]


def _tma_load(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    descriptor: TensorDescriptor = args[0]
    rank = len(descriptor.shape)
    if len(args) != rank + 4 or op.properties.get("multicast", "false") != "false":
        raise UnsupportedOp(
            "a multicast TMA copy, or one with operands besides descriptor, indices, barrier, buffer, predicate"
        )
    at, barrier_view, target, predicate = args[1 : 1 + rank], args[-3], args[-2], args[-1]
    if not predicate:
        return []
    barrier = mbarriers.initialised(barrier_view)
    require_quiet(target, partition.cta.reads)
    require_overwritable(target, partition.cta.loaded.values(), partition.fenced_copies)
    target.state[...] = IN_FLIGHT
    partition.contributes((barrier, barrier.phase))

    def copy() -> None:
        target.bits[...] = read_box(descriptor, at).reshape(target.bits.shape)
        target.state[...] = VISIBLE
        mbarriers.deliver(barrier, target.bits.size * target.bits.itemsize)

    partition.cta.issue(Action("load", partition, op, copy, target=target.label, descriptors=(descriptor,)))
    return []


def _tma_store(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    """A copy to global memory, or a reduction into it."""
    descriptor: TensorDescriptor = args[0]
    rank = len(descriptor.shape)
    if len(args) != rank + 2:
        raise UnsupportedOp("a TMA store with operands other than descriptor, indices and buffer")
    at, source = args[1 : 1 + rank], args[-1]
    require_visible(source, fills_are_fenced=False, copies=partition.fenced_copies)
    own = own_view(source)

    def copy() -> None:
        require_visible(own, fills_are_fenced=False, copies=partition.fenced_copies)
        bits = np.ascontiguousarray(own.bits)
        if ttng.AsyncTMAReduceOp.matches(op):
            reduce_box(op, descriptor, at, bits)
        else:
            write_box(descriptor, at, bits)

    action = Action("store", partition, op, copy, [own], target=source.label, descriptors=(descriptor,))
    partition.stores.append(action)
    partition.cta.issue(action)
    return []


def _tma_store_wait(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    pendings = read_int(op.properties["pendings"])
    partition.complete(partition.stores, pendings)
    partition.log(op, "store wait", f"pendings {pendings}")
    return []


# -- cp.async: asynchronous, generic proxy -----------------------------------------------------------------------------


def _cp_async(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    source, target, mask, other = optional(op, args, 4)
    require_quiet(target, partition.cta.reads)
    target.state[...] = IN_FLIGHT
    tile = gather(source, mask, 0 if other is None else other, target.type.element)

    def copy() -> None:
        target.bits[...] = encode(tile, target.type.element).reshape(target.bits.shape)
        cta = partition.cta
        target.state[...] = VISIBLE if cta.copies_visible else copied(cta.landed_copies)
        partition.cta.landed_copies += 1

    action = Action("copy", partition, op, copy, target=target.label, fills=target)
    partition.copies[-1].append(action)
    partition.cta.issue(action)
    return [None] * len(op.results)


def _copies_arrive(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    """Each thread arrives when its copies land; modelled as one arrival of all threads after all copies."""
    barrier, threads = mbarriers.initialised(args[0]), warps_of(op) * WARP
    if "noIncrement" not in op.properties:
        barrier.pending += threads
    log_barrier(partition, op, "arrive", args[0], barrier.phase % 2)
    partition.contributes((barrier, barrier.phase))
    if partition.recorder is not None:
        for action in partition.copies[-1]:
            partition.recorder.signal_when_landed(action, (barrier, barrier.phase))
    partition.copies[-1][:] = [it for it in partition.copies[-1] if not it.landed]
    issued = [it for group in partition.copies for it in group if not it.landed]
    action = Action(
        "arrival", partition, op, lambda: mbarriers.arrive(barrier, threads), target=args[0].label, after=issued
    )
    partition.cta.issue(action)
    return []


def _cp_commit(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    partition.copies.append([])
    return [None] * len(op.results)


def _cp_wait(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    left = read_int(op.properties["num"])
    while len(partition.copies) - 1 > left:
        group = partition.copies.pop(0)
        partition.unfenced += [action.fills for action in group if action.fills is not None]
        partition.complete(group, 0)
    return [None] * len(op.results)


# -- mbarriers ---------------------------------------------------------------------------------------------------------


def log_barrier(partition: Partition, op: Operation, action: str, view: SharedView, parity: int) -> None:
    """Logs a barrier event; the label `ring0_full[1]` is slot 1 of ring0_full."""
    name, _, slot = view.label.removesuffix("]").partition("[")
    partition.log(op, action, name, int(slot) if slot.isdecimal() else None, parity)


def commit(
    partition: Partition, op: Operation, arrive: Callable[[], None], key: Callable[[], Key], target: str
) -> None:
    """Issues a commit: `arrive` takes place when the earlier tcgen05 operations of these threads are complete.

    The clock learns of it where it lands, because only then the phase is known: `op` and the last mma before it
    contribute to `key`.
    """
    here, last = partition.recorder and partition.recorder.place(), partition.cta.last_mma.get(partition.agent)

    def land() -> None:
        signalled = key()
        for place in dict.fromkeys(it for it in (here, last) if it is not None):
            place.signal(signalled)
        arrive()

    partition.cta.issue(Action("commit", partition, op, land, target=target))


def _init_barrier(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    mbarriers.initialise(args[0], read_int(op.properties["count"]))
    return []


def _inval_barrier(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    mbarriers.invalidate(args[0])
    return []


def _expect(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    if args[1]:
        barrier = mbarriers.initialised(args[0])
        log_barrier(partition, op, "expect", args[0], barrier.phase % 2)
        partition.contributes((barrier, barrier.phase))
        mbarriers.arrive(barrier, 1, read_int(op.properties["size"]))
    return []


def _arrive(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    if len(args) < 2 or args[1]:
        barrier = mbarriers.initialised(args[0])
        log_barrier(partition, op, "arrive", args[0], barrier.phase % 2)
        partition.contributes((barrier, barrier.phase))
        mbarriers.arrive(barrier, read_int(op.properties["count"]))
    return []


def _wait_barrier(partition: Partition, op: Operation, args: list[Any]) -> Run:
    sizes = op.properties.get("operandSegmentSizes")
    predicated = read_array(sizes)[2] if sizes else len(args) > 2
    if predicated and not args[2]:
        return []
    barrier, parity = mbarriers.initialised(args[0]), int(args[1])
    if not mbarriers.passes(barrier, parity):
        log_barrier(partition, op, "wait", args[0], parity)
    yield Pause(
        lambda: mbarriers.passes(barrier, parity),
        lambda: (
            f"{args[0].label}, parity {parity} (in phase {barrier.phase}, missing {barrier.pending} of"
            f" {barrier.count} arrivals and {barrier.bytes} bytes)"
        ),
    )
    log_barrier(partition, op, "pass", args[0], parity)
    partition.waits_for((barrier, barrier.phase - 1))
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
"""Handlers of operations that never block, by name."""

WAITS: dict[str, Wait] = by_name({ttng.WaitBarrierOp: _wait_barrier})
"""Handlers of operations that may block, by name."""
