"""The protocol events of each operation on barriers, shared memory and wgmma groups.

    "ttng.wait_barrier"(%full[%s], %p, %pred)   →   Event("wait", barrier=full[1], parity=0)   if %pred holds

An operation that accesses shared memory or barriers in a way not modelled here raises `NotUnderstood`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tawa.dialects import ttg, ttng
from tawa.dialects.builtin import AssumeOp, CastOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import MakeTensorDescOp
from tawa.dialects.ttg import warps_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import MemDescType, Operation, Value, parse_type
from tawa.ir.attributes import read_array, read_int
from tawa.verify.barriers.program.kernel import Memory, NotUnderstood
from tawa.verify.barriers.run.events import Environment, Event, InFlight, Opaque, Recorder, Trace, Undefined

Step = Callable[[Recorder, Operation, Environment, Trace], None]
_WARP = 32
_int = lru_cache(maxsize=1024)(read_int)


def number(op: Operation, value: Value, env: Environment, what: str) -> int:
    """The number in an operand; raises NotUnderstood if it is unknown, Undefined if it has no defined value."""
    known = env.get(value)
    if isinstance(known, int):
        return known
    if isinstance(known, Opaque) and known.op is not None and known.undefined:
        raise Undefined(known.op)
    cause = known.op.name if isinstance(known, Opaque) and known.op is not None else "an unknown value"
    raise NotUnderstood(f"{what} of {op.name} depends on {cause}", op)


def memory_of(op: Operation, value: Value, env: Environment) -> Memory:
    """The shared memory that an operand views; raises NotUnderstood if it is not an allocation of this kernel."""
    known = env.get(value)
    if isinstance(known, Memory):
        return known
    raise NotUnderstood(f"{op.name} accesses shared memory that is not an allocation of this kernel", op)


def holds(op: Operation, condition: Value | None, env: Environment) -> bool:
    """Whether the predicate of an operation holds."""
    return condition is None or bool(number(op, condition, env, "the predicate"))


def predicate(op: Operation, after: int) -> Value | None:
    """The first i1 operand at or after position `after`."""
    rest = [operand for operand in op.operands[after:] if operand.type == "i1"]
    return rest[0] if rest else None


def check_uses(self: Recorder, op: Operation, env: Environment, trace: Trace, skip: int = -1) -> None:
    """Records a use of a tile that a wgmma may still write, or that is not the result of a wait.

    A completed group is not enough: only the results of a wait depend on it. The compiler may copy the registers of the
    dot's own result anywhere after the dot.
    """
    for index, operand in enumerate(op.operands):
        known = env.get(operand) if index != skip else None
        if isinstance(known, InFlight):
            self.emit(trace, Event("use", op, amount=int(all(group < trace.done for group in known.groups))))


def alloc(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    """An allocation, which is also a write if it has an initial value."""
    memory = Memory(self.program.alloc_numbers[op])
    env[op.result] = memory
    if op.operands:
        check_uses(self, op, env, trace)
        self.emit(trace, Event("write", op, (memory,)))


def view(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    """A view of shared memory."""
    memory = memory_of(op, op.operands[0], env)
    match op.name:
        case ttg.MemDescIndexOp.NAME:
            if memory.reshaped or memory.box is not None or memory.view is not None:
                raise NotUnderstood("an index into a reshaped view of shared memory", op)
            slot = number(op, ttg.MemDescIndexOp(op).index, env, "the slot")
            memory = Memory(memory.alloc, (*memory.path, slot))
        case ttg.MemDescSubsliceOp.NAME:
            if memory.reshaped or memory.box is not None:
                raise NotUnderstood("a slice of a reshaped view of shared memory", op)
            offsets, type = read_array(op.properties["offsets"]), parse_type(op.result.type)
            assert isinstance(type, MemDescType)
            dims = memory.view or _natural(len(offsets))
            spans = sorted(
                (dim, start * factor, (start + size) * factor)
                for (dim, factor), start, size in zip(dims, offsets, type.shape, strict=True)
            )
            memory = memory._replace(box=tuple((start, end) for _, start, end in spans))
        case ttg.MemDescTransOp.NAME:
            order = ttg.MemDescTransOp(op).order
            dims = memory.view or _natural(len(order))
            if len(dims) == len(order):
                memory = memory._replace(view=tuple(dims[dim] for dim in order))
        case ttg.MemDescReinterpretOp.NAME if (dims := _wider(op, memory)) is not None:
            memory = memory._replace(view=dims)
        case _:
            memory = memory._replace(reshaped=True)
    env[op.result] = memory


def _natural(rank: int) -> tuple[tuple[int, int], ...]:
    return tuple((dim, 1) for dim in range(rank))


def _wider(op: Operation, memory: Memory) -> tuple[tuple[int, int], ...] | None:
    """The view with wider elements in the same rows; None for any other reinterpretation."""
    source, target = parse_type(op.operands[0].type), parse_type(op.result.type)
    assert isinstance(source, MemDescType) and isinstance(target, MemDescType)
    if memory.reshaped or source.shape[:-1] != target.shape[:-1] or source.bytes != target.bytes:
        return None
    (*rows, (dim, factor)) = memory.view or _natural(len(source.shape))
    return (*rows, (dim, factor * source.shape[-1] // target.shape[-1]))


def index_step(op: Operation) -> Step:
    """`view` for ``ttg.memdesc_index``, memoized because loops contain many."""
    index = ttg.MemDescIndexOp(op)
    source, at, result = index.source, index.index, op.result
    known: dict[tuple[Memory, int], Memory] = {}

    def step(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
        memory, slot = env.get(source), env.get(at)
        if type(slot) is int and isinstance(memory, Memory):
            part = known.get((memory, slot))
            if part is not None:
                env[result] = part
                return
            view(self, op, env, trace)
            made = env[result]
            assert isinstance(made, Memory)
            known[memory, slot] = made
        else:
            view(self, op, env, trace)

    return step


def dot_step(op: Operation) -> Step:
    """One wgmma, which reads its operands until a wait for its group."""
    view = WarpGroupDotOp(op)
    sources = [operand for operand in (view.a, view.b) if operand.type.startswith("!ttg.memdesc")]
    used = [
        operand for operand in op.operands if operand.type.startswith("tensor<") and operand is not view.accumulator
    ]
    accumulator, result, is_async = view.accumulator, op.result, view.is_async

    def step(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
        if used:
            check_uses(self, op, env, trace, skip=2)
        reads = tuple([memory_of(op, source, env) for source in sources])
        number = trace.issued
        trace.issued += 1
        if not is_async:
            trace.done = trace.issued  # it waits for itself, hence for all earlier groups
            env[result] = None
            self.emit(trace, Event("dot", op, reads))
            self.emit(trace, Event("dot wait", op))
            return
        before = env.get(accumulator)
        groups = before.groups if isinstance(before, InFlight) else ()
        env[result] = InFlight(frozenset([number, *[group for group in groups if group >= trace.done]]))
        self.emit(trace, Event("dot", op, reads))

    return step


def _init(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    count = _int(op.properties["count"])
    self.emit(trace, Event("init", op, barrier=memory_of(op, ttng.InitBarrierOp(op).barrier, env), amount=count))


def _inval(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("inval", op, barrier=memory_of(op, ttng.InvalBarrierOp(op).barrier, env)))


def wait_step(op: Operation) -> Step:
    """A wait for a parity, if its predicate holds."""
    view = ttng.WaitBarrierOp(op)
    barrier, wanted, condition = view.barrier, view.parity, predicate(op, 2)

    def step(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
        if holds(op, condition, env):
            parity = number(op, wanted, env, "the parity") & 1
            self.emit(trace, Event("wait", op, (), memory_of(op, barrier, env), 0, parity))

    return step


def arrive_step(op: Operation) -> Step:
    """An arrival, if its predicate holds."""
    view = ttng.ArriveBarrierOp(op)
    barrier, condition, count = view.barrier, predicate(op, 1), view.count

    def step(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
        if holds(op, condition, env):
            self.emit(trace, Event("arrive", op, (), memory_of(op, barrier, env), count))

    return step


def _expect(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    if holds(op, predicate(op, 1), env):
        size = _int(op.properties["size"])
        self.emit(trace, Event("expect", op, barrier=memory_of(op, ttng.BarrierExpectOp(op).barrier, env), amount=size))


def _copy_in(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    views = [index for index, operand in enumerate(op.operands) if operand.type.startswith("!ttg.memdesc")]
    if len(views) != 2 or op.properties.get("multicast", "false") not in ("false", ""):
        raise NotUnderstood("a TMA copy of an unknown form", op)
    barrier, target = (op.operands[index] for index in views)
    if holds(op, predicate(op, views[1] + 1), env):
        type = parse_type(target.type)
        assert isinstance(type, MemDescType)
        memory = memory_of(op, target, env)
        full = memory_of(op, barrier, env)
        self.emit(trace, Event("copy in", op, (memory,), full, type.bytes, descriptor=_descriptor_of(op, env)))


def _copy_out(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    sources = [operand for operand in op.operands if operand.type.startswith("!ttg.memdesc")]
    memory = tuple(memory_of(op, source, env) for source in sources)
    self.emit(trace, Event("copy out", op, memory, descriptor=_descriptor_of(op, env)))


def _descriptor_of(op: Operation, env: Environment) -> Memory | None:
    """The memory of a copy's descriptor; None for one that is created once."""
    descriptor = op.operands[0]
    while cast := CastOp.of(descriptor.defining_op):
        descriptor = cast.source
    known = env.get(descriptor)
    return known if isinstance(known, Memory) else None


def _describe(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    memory = Memory(self.program.alloc_numbers[op])
    env[op.result] = memory
    self.emit(trace, Event("describe", op, (memory,)))


def _pendings(kind: str) -> Step:
    def handle(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
        pendings = _int(op.properties.get("pendings") or op.properties.get("num") or "0 : i32")
        self.emit(trace, Event(kind, op, amount=pendings))

    return handle


def _plain(kind: str) -> Step:
    def handle(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
        self.emit(trace, Event(kind, op))

    return handle


def _store(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    check_uses(self, op, env, trace)
    self.emit(trace, Event("write", op, (memory_of(op, ttg.LocalStoreOp(op).buffer, env),)))


def _read(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("read", op, (memory_of(op, ttg.LocalLoadOp(op).buffer, env),)))


def _dealloc(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    buffer = ttg.LocalDeallocOp(op).buffer
    memory = memory_of(op, buffer, env)
    if not _holds_barriers(buffer):
        self.emit(trace, Event("free", op, (memory,)))


def free(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    """The end of the live range of ``local_alloc`` `op` that has no ``local_dealloc``."""
    if not _holds_barriers(op.result):
        self.emit(trace, Event("free", op, (memory_of(op, op.result, env),)))


def _holds_barriers(value: Value) -> bool:
    type = parse_type(value.type)
    return isinstance(type, MemDescType) and type.element == "i64"


def _async_copy(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("cp.async", op, (memory_of(op, ttg.AsyncCopyGlobalToLocalOp(op).buffer, env),)))


def _copies_arrive(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    """One arrival per thread of the partition, once its earlier copies have landed."""
    if "noIncrement" not in op.properties:
        raise NotUnderstood("an arrival of cp.async that raises the count of its barrier", op)
    threads = warps_of(op) * _WARP
    barrier = memory_of(op, ttng.AsyncCopyMbarrierArriveOp(op).barrier, env)
    self.emit(trace, Event("copies arrive", op, barrier=barrier, amount=threads))


def _dot_wait(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    pendings = _int(op.properties["pendings"])
    trace.done = max(trace.done, trace.issued - pendings)
    for operand, result in zip(op.operands, op.results, strict=True):
        known = env.get(operand)
        complete = isinstance(known, InFlight) and all(group < trace.done for group in known.groups)
        env[result] = None if complete else known
    self.emit(trace, Event("dot wait", op, amount=pendings))


def _assume(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    known = env.get(AssumeOp(op).condition)
    if isinstance(known, int):
        self.assumed[op] = None
        self.broken |= not known


MAKERS: dict[str, Callable[[Operation], Step]] = by_name(
    {
        ttg.MemDescIndexOp: index_step,
        ttng.WaitBarrierOp: wait_step,
        ttng.ArriveBarrierOp: arrive_step,
        WarpGroupDotOp: dot_step,
    }
)
"""Specialised steps of operations that are frequent in loops."""

STEPS: dict[str, Step] = by_name(
    {
        ttng.InitBarrierOp: _init,
        ttng.InvalBarrierOp: _inval,
        ttng.BarrierExpectOp: _expect,
        ttng.AsyncTMACopyGlobalToLocalOp: _copy_in,
        ttng.AsyncTMACopyLocalToGlobalOp: _copy_out,
        ttng.AsyncTMAReduceOp: _copy_out,
        ttng.AsyncTMAStoreWaitOp: _pendings("store wait"),
        ttng.FenceAsyncSharedOp: _plain("fence"),
        ttg.LocalStoreOp: _store,
        ttg.LocalLoadOp: _read,
        ttg.LocalDeallocOp: _dealloc,
        ttg.AsyncCopyGlobalToLocalOp: _async_copy,
        ttg.AsyncCommitGroupOp: _plain("cp.async commit"),
        ttg.AsyncWaitOp: _pendings("cp.async wait"),
        ttng.AsyncCopyMbarrierArriveOp: _copies_arrive,
        ttng.WarpGroupDotWaitOp: _dot_wait,
        AssumeOp: _assume,
        MakeTensorDescOp: _describe,
    }
)
