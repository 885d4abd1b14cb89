"""Handlers of tensor memory and tcgen05 (Blackwell): allocations, loads, stores, mmas, copies and commits.

An mma or a copy is in flight, reading its operands and writing its destination, until it lands (`Action`); nothing
waits for it but a commit, which arrives at an mbarrier. Later mmas and copies of the same threads may access what
earlier ones still do, since they are executed in the order of issue; all other accesses are races.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tawa.dialects import tcgen05
from tawa.dialects.declare.declaration import by_name
from tawa.ir import Operation, TensorType, parse_type
from tawa.ir.attributes import read_int
from tawa.sim.errors import BarrierMisuse, UnsupportedOp
from tawa.sim.machine import mbarriers, tensor_memory
from tawa.sim.machine.cta import Action, Partition
from tawa.sim.machine.shared import barrier_of, memdesc, require_visible
from tawa.sim.machine.trace import Key
from tawa.sim.machine.values import Context, Handler, SharedView
from tawa.sim.numbers import Array, decode, encode, is_float
from tawa.sim.ops.asynchronous import Step, commit, log_barrier, own_view, used
from tawa.sim.ops.elementwise import element_of
from tawa.sim.ops.scales import rows_of, scaled
from tawa.sim.ops.tiles import product

# -- accesses of threads -----------------------------------------------------------------------------------------------


def _alloc(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    """An allocation in a loop gets the same columns in each iteration, and what it held is gone."""
    allocation, known = tcgen05.TMEMAllocOp(op), partition.cta.tensor_memory
    if op not in known:
        name = allocation.buffer.hint or "a buffer"
        known[op] = tensor_memory.allocate(op, name, memdesc(allocation.buffer.type))
    view = known[op]
    tensor_memory.forget(view)
    if allocation.source is not None:
        tensor_memory.require_quiet(view, partition.cta.in_flight, written=True)
        _write(view, used(args[0]), allocation.source.type)
    return _results(op, view)


def _load(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[0]
    kind = parse_type(op.results[0].type)
    if not isinstance(kind, TensorType) or any(isinstance(parse_type(it.type), TensorType) for it in op.results[1:]):
        raise UnsupportedOp("a load of tensor memory that also reduces the tile")
    tensor_memory.require_quiet(view, partition.cta.in_flight, written=False)
    tensor_memory.require_written(view)
    partition.log(op, "tmem_load", view.label)
    return _results(op, np.array(_contents(view)).reshape(kind.shape))


def _store(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view: SharedView = args[0]
    if args[-1]:
        tensor_memory.require_quiet(view, partition.cta.in_flight, written=True)
        _write(view, used(args[-2]), tcgen05.TMEMStoreOp(op).source.type)
        partition.log(op, "tmem_store", view.label)
    return _results(op)


def _results(op: Operation, *values: Any) -> list[Any]:
    """The results of an operation, of which the last may be a token."""
    return [*values, *(None for _ in op.results[len(values) :])]


def _write(view: SharedView, tile: Any, type: str) -> None:
    view.bits[...] = encode(tile, element_of(type)).reshape(view.bits.shape)
    tensor_memory.mark_written(view)


def _contents(view: SharedView) -> Array:
    return decode(np.ascontiguousarray(view.bits), view.type.element)


def _subslice(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    view = tcgen05.TMEMSubsliceOp(op)
    return [tensor_memory.subslice(args[0], view.dim, view.start, memdesc(op.result.type))]


def _wait(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    """Loads and stores are complete when they return."""
    return _results(op)


# -- mma, copy ---------------------------------------------------------------------------------------------------------


def _mma(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view, env = tcgen05.dot_of(op), partition.env
    assert view is not None
    if view.two_ctas:
        raise UnsupportedOp("an mma of two CTAs")
    if not env[view.predicate]:
        return _results(op)  # Triton's code skips the commits, too
    a, b, d, scales = env[view.a], env[view.b], env[view.d], [env[it] for it in view.scales]
    use_d = bool(env[view.use_d])
    factors = _scaled_factors if scales else _factors
    if scales:
        factors(op, a, b, scales)  # refuses other forms where they are issued

    def multiply() -> None:
        for operand in (a, b, *scales):
            _require_readable(partition, operand)
        left, right = factors(op, a, b, scales)
        start = _contents(d) if use_d else np.zeros(d.type.shape, _contents(d).dtype)
        d.bits[...] = encode(_product(left, right, start, a.type.element), d.type.element)

    reads = [own_view(it) for it in (a, b, *scales)]
    action = Action("mma", partition, op, multiply, reads, target=d.label, fills=d)
    _issue(partition, action, reads_target=use_d)
    for barrier, predicate in view.commits:
        if env[predicate]:
            _issue_commit(partition, op, env[barrier])
    if view.waits:
        partition.waits_for(action)
        partition.cta.land(action)
    return _results(op)


def _copy(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = tcgen05.TMEMCopyOp(op)
    source, target = partition.env[view.source], partition.env[view.target]
    rows_of(source, target.type)  # refuses other forms where they are issued

    def copy() -> None:
        _require_readable(partition, source)
        target.bits[...] = rows_of(source, target.type)

    _issue(partition, Action("tensor copy", partition, op, copy, [own_view(source)], target=target.label, fills=target))
    for barrier in view.barriers:
        _issue_commit(partition, op, partition.env[barrier])
    return _results(op)


def _issue(partition: Partition, action: Action, *, reads_target: bool = False) -> None:
    """Issues an operation that reads `action.reads` and writes `action.fills`, in order with those of its threads."""
    target, in_flight = action.fills, partition.cta.in_flight
    assert target is not None
    for source in action.reads:
        if source.type.in_tensor_memory:
            tensor_memory.require_quiet(source, in_flight, written=False, thread=partition.agent, whose=action.name)
        _require_readable(partition, source)  # the hardware may read it as soon as the operation is issued
    tensor_memory.require_quiet(target, in_flight, written=True, thread=partition.agent, whose=action.name)
    if reads_target:
        tensor_memory.require_written(target)
    tensor_memory.mark_written(target)
    if partition.recorder:
        partition.cta.last_mma[partition.agent] = partition.recorder.place()
    partition.cta.issue(action)


def _require_readable(partition: Partition, view: SharedView) -> None:
    """Raises an error unless the async proxy sees what is in an operand; tensor memory has no proxies."""
    if view.type.in_tensor_memory:
        tensor_memory.require_written(view)
    else:
        require_visible(view, fills_are_fenced=True, copies=partition.fenced_copies)


def _factors(op: Operation, a: SharedView, b: SharedView, _: list[SharedView]) -> list[Array]:
    """The values of A and B."""
    if "is_unsigned" in op.properties:
        return [np.ascontiguousarray(it.bits) for it in (a, b)]
    return [_contents(it) for it in (a, b)]


def _scaled_factors(op: Operation, a: SharedView, b: SharedView, scales: list[SharedView]) -> list[Array]:
    """The values of A and B times their scales."""
    left = scaled(a, read_int(op.properties["a_type"]), scales[0])
    right = scaled(b, read_int(op.properties["b_type"]), scales[1], turned=True)
    return [left, right.T]


def _product(a: Array, b: Array, start: Array, element: str) -> Array:
    """A·B + D; tcgen05 truncates float32 to TF32, as wgmma does, and integers wrap."""
    if is_float(element) or not np.issubdtype(start.dtype, np.integer):
        return product(a, b, start, element, tf32=True)
    exact = product(a, b, start.astype(np.float64), element, tf32=False)
    return exact.astype(np.int64).astype(start.dtype)


# -- commits -----------------------------------------------------------------------------------------------------------


def _commit(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = tcgen05.TCGen5CommitOp(op)
    if view.descriptors:
        raise UnsupportedOp("a commit to several CTAs")
    if view.predicate is None or partition.env[view.predicate]:
        _issue_commit(partition, op, args[0])
    return []


def _issue_commit(partition: Partition, op: Operation, view: SharedView) -> None:
    """One arrival at an mbarrier, when the earlier tcgen05 operations of these threads are complete."""
    barrier = mbarriers.initialised(view)

    def arrive() -> None:
        mbarriers.arrive(barrier, 1)

    def phase() -> Key:
        if barrier_of(view) is not barrier:
            raise BarrierMisuse(f"{view.label} is not initialised where a commit to it arrives: it was invalidated")
        return barrier, barrier.phase

    log_barrier(partition, op, "commit", view, barrier.phase % 2)
    commit(partition, op, arrive, phase, view.label)


STEPS: dict[str, Step] = by_name(
    {
        tcgen05.TMEMAllocOp: _alloc,
        tcgen05.TMEMLoadOp: _load,
        tcgen05.TMEMStoreOp: _store,
        tcgen05.TMEMCopyOp: _copy,
        tcgen05.TCGen5MMAOp: _mma,
        tcgen05.TCGen5MMAScaledOp: _mma,
        tcgen05.TCGen5CommitOp: _commit,
    }
)
"""Handlers of operations that never block, by name."""

VIEWS: dict[str, Handler] = by_name({tcgen05.TMEMSubsliceOp: _subslice, tcgen05.TMEMWaitOp: _wait})
"""Handlers of operations that touch no memory, by name."""
