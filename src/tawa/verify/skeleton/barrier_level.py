"""The protocol operations of the barrier level, as templates of events: barriers, shared memory, copies and dots.

    ttng.wait_barrier %slot, %p, %true     →   ACT wait, barrier in the register of %slot, parity in that of %p
    ttg.local_load %slot                   →   ACT read, memory in the register of %slot

An operation that accesses shared memory or barriers in a way not modelled here raises `NotUnderstood`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from tawa.dialects import tcgen05, ttg, ttng
from tawa.dialects.aref import LandedOp
from tawa.dialects.arith import SelectOp
from tawa.dialects.builtin import BranchOp, CastOp, CondBranchOp, GpuBarrierOp, InlineAsmOp
from tawa.dialects.control_flow import incoming, outgoing
from tawa.dialects.declare.declaration import by_name, is_opaque, op_names
from tawa.dialects.inline.code import INLINE
from tawa.dialects.inline.effects import NamedBarrier, Unlisted, acts, effects_of
from tawa.dialects.scf import CONTROL, LOOPS, ConditionOp, YieldOp
from tawa.dialects.tt import AddPtrOp, CallOp, MakeTensorDescOp
from tawa.dialects.ttg import VIEWS, warps_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import EndOp, GroupOp
from tawa.ir import Operation, TensorDescType, Value, Worklist, memdesc_type, parse_type
from tawa.ir.attributes import read_int
from tawa.machine.nvidia import WARP
from tawa.verify.run.events import Act
from tawa.verify.run.history import Memories
from tawa.verify.run.places import NotUnderstood
from tawa.verify.skeleton.named_barriers import free_barriers, most_partitions

_int = lru_cache(maxsize=1024)(read_int)
_NOTHING = op_names(
    GpuBarrierOp,
    ttg.BarrierOp,
    ttg.LocalBarrierOp,
    ttng.FenceMBarrierInitReleaseClusterOp,
    ttg.GlobalScratchAllocOp,
    tcgen05.TMEMWaitOp,
)
"""They order the warps of one partition, which this check takes as one, or ask for memory."""
_DESCRIPTORS = op_names(ttng.TensormapCreateOp, ttng.TensormapFenceproxyAcquireOp, ttng.ReinterpretTensorDescOp)
_CLOSED = ("ttng.", "ttg.", "nvws.", "nvgpu.", "nvg.", "nvvm.", "gpu.", InlineAsmOp.NAME, CallOp.NAME)
_ENDS = op_names(YieldOp, ConditionOp, BranchOp, CondBranchOp, ttg.WarpYieldOp, EndOp)
_FORKS = op_names(ttg.WarpSpecializeOp, GroupOp, ttg.WarpSpecializePartitionsOp)


class _Compiler(Protocol):
    """What the templates need of the compiler of the skeleton."""

    def use(self, value: Value) -> int: ...
    def define(self, value: Value) -> int: ...
    def act(self, act: Act, *conditions: Value | None) -> None: ...
    def constant(self, number: Any) -> int: ...
    def allocate(self, op: Operation) -> None: ...
    def describe(self, op: Operation, memory: Value, kind: str) -> None: ...
    def free(self, op: Operation, buffer: Value) -> None: ...


def barrier_events() -> dict[str, Callable[[_Compiler, Operation], None]]:
    """The templates of each operation, by name."""
    return _EVENTS


class Accesses:
    """What the barrier level of one function accesses: its allocations, tiles in flight, and descriptors."""

    def __init__(self, function: Operation) -> None:
        self.ops = list(function.walk())
        self.forks = [op for op in self.ops if ttg.WarpSpecializeOp.matches(op)]
        self.tiles = self.followed(
            [op.result for op in self.ops if op.name == WarpGroupDotOp.NAME and WarpGroupDotOp(op).is_async], _tile_of
        )
        in_loops = [op for op in self.ops if op.name == MakeTensorDescOp.NAME and in_loop(op)]
        scratch = {op.operands[0] for op in self.ops if ttng.TensormapCreateOp.matches(op) and in_loop(op)}
        scratch = {_base(value) for value in scratch}
        made = [value for value in scratch if value.defining_op is not None]
        self.described = [*(op.result for op in in_loops), *made]
        self.descriptors = self.followed(self.described, _descriptor_of)
        allocations = [op for op in self.ops if op.name in ttg.ALLOCATIONS]
        self.allocations = {op: place for place, op in enumerate(allocations)}
        self.allocations.update(
            (value.defining_op, len(allocations) + place)
            for place, value in enumerate(self.described)
            if value.defining_op is not None
        )
        self.roots: dict[Value, frozenset[Operation]] = {}
        self.barriers = self._barriers()

    def followed(self, work: list[Value], through: Callable[[Operation, int], Value | None]) -> set[Value]:
        """The values that these may become, through control flow and the operations of `through`."""
        reached = Worklist(work)
        for value in reached:
            for use in value.uses:
                reached += outgoing(use)
                made = through(use.op, use.index)
                reached += [] if made is None else [made]
        return reached.given

    def _barriers(self) -> set[Operation]:
        """The allocations that hold barriers."""
        return {root for op in self.ops if op.name == ttng.InitBarrierOp.NAME for root in self.roots_of(op.operands[0])}

    def roots_of(self, value: Value) -> frozenset[Operation]:
        """The allocations that a value may be a view of."""
        found = self.roots.get(value)
        if found is None:
            roots: set[Operation] = set()
            work = Worklist([value])
            for it in work:
                op = it.defining_op
                if op is not None and op.name in ttg.ALLOCATIONS:
                    roots.add(op)
                elif op is not None and op.name in VIEWS:
                    work += [op.operands[0]]
                else:
                    work += [use.value for use in incoming(it)]
            found = self.roots[value] = frozenset(roots)
        return found

    def needed(self, op: Operation) -> list[Value]:
        """The operands that determine an event: places, predicates, parities, tiles in flight and descriptors."""
        if op.name in INLINE:
            effects = effects_of(op)
            assert not isinstance(effects, Unlisted)
            named = [
                it for effect in effects if isinstance(effect, NamedBarrier) for it in (effect.number, effect.threads)
            ]
            return [*(it for it in named if isinstance(it, Value)), *(it for it in op.operands if it in self.tiles)]
        found = [it for it in op.operands if it.type == "i1" or it.type.startswith("!ttg.memdesc") or it in self.tiles]
        found += [it for it in op.operands if it in self.descriptors or it.type.startswith("!aref.index")]
        if wait := ttng.WaitBarrierOp.of(op):
            found.append(wait.parity)
        elif view := ttg.MemDescIndexOp.of(op):
            found.append(view.index)
        return found

    def takes_part(self, op: Operation) -> bool:
        """Whether an operation has an event."""
        return (
            op.name in _EVENTS
            or op.name == LandedOp.NAME
            or acts(op)
            or (op.name not in CONTROL and self.uses_tile(op))
        )

    def uses_tile(self, op: Operation) -> bool:
        """Whether an operation uses a tile that a dot may still write."""
        if op.name in _ENDS or chooses_tile(op) or (op.regions and op.name in CONTROL):
            return False
        return any(it in self.tiles for it in op.operands)

    def memories(self, names: Sequence[str]) -> Memories:
        """What a run needs to know of the allocations."""
        waited = {ttng.WaitBarrierOp.NAME, ttng.BarrierExpectOp.NAME, ttng.AsyncTMACopyGlobalToLocalOp.NAME}
        sizes: dict[Operation, set[int]] = {op: set() for op in self.barriers}
        for op in self.ops:
            for root in self.roots_of(op.operands[-3 if "copy_global" in op.name else 0]) if op.name in waited else ():
                sizes.pop(root, None)
        for barrier, size in (arrival for op in self.ops for arrival in _arrivals(op)):
            for root in self.roots_of(barrier) & sizes.keys():
                sizes[root].add(size)
        invalidated = any(ttng.InvalBarrierOp.matches(op) for op in self.ops)
        alone = {self.allocations[op]: it.pop() for op, it in sizes.items() if len(it) == 1}
        return Memories(
            list(self.allocations), list(names), alone, invalidated, free_barriers(most_partitions(self.forks))
        )

    def require_known(self) -> None:
        """Raises NotUnderstood for unknown operations, even in code that no run reaches: they may take part."""
        for op in self.ops:
            known = (
                op.name in CONTROL or op.name in _FORKS or op.name in _ENDS or op.name in _NOTHING or op.name in INLINE
            )
            if known or op.name in _EVENTS or op.name in _DESCRIPTORS or op.name in VIEWS:
                continue
            shared = any("!ttg.memdesc" in value.type for value in (*op.operands, *op.results))
            if is_opaque(op.name) and not shared:
                raise NotUnderstood(f"{op.name} is not known to this check", op)
            if shared or (is_opaque(op.name) and op.name.startswith(_CLOSED)):
                raise NotUnderstood(f"{op.name} accesses shared memory in a way that this check does not model", op)


def _arrivals(op: Operation) -> list[tuple[Value, int]]:
    """The barriers at which an operation arrives without bytes, each with the number of arrivals."""
    if arrive := ttng.ArriveBarrierOp.of(op):
        return [(arrive.barrier, arrive.count)]
    if copies := ttng.AsyncCopyMbarrierArriveOp.of(op):
        return [(copies.barrier, warps_of(op) * WARP)]
    if commit := tcgen05.TCGen5CommitOp.of(op):
        return [(commit.barrier, 1)]
    return [(barrier, 1) for barrier, _ in dot.commits] if (dot := tcgen05.dot_of(op)) else []


def in_loop(op: Operation) -> bool:
    """Whether an operation may be executed several times."""
    return any(outer.name in LOOPS for outer in op.ancestors())


def _base(pointer: Value) -> Value:
    """The pointer behind offsets and casts."""
    while (op := pointer.defining_op) is not None and (AddPtrOp.matches(op) or CastOp.matches(op)):
        pointer = op.operands[0]
    return pointer


def _tile_of(op: Operation, index: int) -> Value | None:
    """The tile that is in flight if operand `index` is."""
    if op.name == ttng.WarpGroupDotWaitOp.NAME:
        return op.results[index]
    return op.result if chooses_tile(op) else None


def _descriptor_of(op: Operation, index: int) -> Value | None:
    if AddPtrOp.matches(op) or CastOp.matches(op) or ttng.ReinterpretTensorDescOp.matches(op):
        return op.result if index == 0 else None
    return None


def chooses_tile(op: Operation) -> bool:
    """Whether `op` selects one of two tiles, like the yields of an ``scf.if``."""
    select = SelectOp.of(op)
    return select is not None and select.condition.type == "i1" and op.result.type.startswith("tensor<")


# -- the templates -----------------------------------------------------------------------------------------------------


def _on_barrier(
    self: _Compiler, op: Operation, kind: str, barrier: Value, amount: int = 0, *conditions: Value | None
) -> None:
    place = self.use(barrier)
    self.act(Act(kind, op, barrier=place, amount=amount, reads=(place,)), *conditions)


def _init(self: _Compiler, op: Operation) -> None:
    _on_barrier(self, op, "init", ttng.InitBarrierOp(op).barrier, _int(op.properties["count"]))


def _inval(self: _Compiler, op: Operation) -> None:
    _on_barrier(self, op, "inval", ttng.InvalBarrierOp(op).barrier)


def _wait(self: _Compiler, op: Operation) -> None:
    wait = ttng.WaitBarrierOp(op)
    place, parity = self.use(wait.barrier), self.use(wait.parity)
    self.act(Act("wait", op, barrier=place, parity=parity, reads=(place, parity)), _predicate(op, 2))


def _arrive(self: _Compiler, op: Operation) -> None:
    arrive = ttng.ArriveBarrierOp(op)
    _on_barrier(self, op, "arrive", arrive.barrier, arrive.count, _predicate(op, 1))


def _expect(self: _Compiler, op: Operation) -> None:
    expect = ttng.BarrierExpectOp(op)
    _on_barrier(self, op, "expect", expect.barrier, _int(op.properties["size"]), _predicate(op, 1))


def _predicate(op: Operation, after: int) -> Value | None:
    """The first i1 operand at or after position `after`."""
    return next((operand for operand in op.operands[after:] if operand.type == "i1"), None)


def _copy_in(self: _Compiler, op: Operation) -> None:
    views = [index for index, operand in enumerate(op.operands) if operand.type.startswith("!ttg.memdesc")]
    if len(views) != 2 or op.properties.get("multicast", "false") not in ("false", ""):
        raise NotUnderstood("a TMA copy of an unknown form", op)
    barrier, target = (op.operands[index] for index in views)
    _check_block(op, target)
    full, memory, descriptor = self.use(barrier), self.use(target), self.use(op.operands[0])
    act = Act(
        "copy in", op, (memory,), full, descriptor=descriptor, amount=memdesc_type(target.type).bytes,
        reads=(memory, full, descriptor),
    )  # fmt: skip
    self.act(act, _predicate(op, views[1] + 1))


def _check_block(op: Operation, buffer: Value) -> None:
    """Raises `NotUnderstood` if a TMA copy does not move the whole buffer.

    A copy moves a block of its descriptor, whatever the shape of the buffer is. A buffer may lack dimensions of 1.
    """
    described, memory = parse_type(op.operands[0].type), memdesc_type(buffer.type)
    if isinstance(described, TensorDescType):
        block = described.block
        one, other = ([size for size in shape if size != 1] for shape in (block.shape, memory.shape))
        if one != other or block.bytes != memory.bytes:
            shapes = ["x".join(map(str, shape)) for shape in (block.shape, memory.shape)]
            raise NotUnderstood(
                f"a TMA copy with a descriptor of blocks of {shapes[0]}x{block.element} "
                f"and a buffer of {shapes[1]}x{memory.element}",
                op,
            )


def _copy_out(self: _Compiler, op: Operation) -> None:
    buffers = [it for it in op.operands if it.type.startswith("!ttg.memdesc")]
    for buffer in buffers:
        _check_block(op, buffer)
    memory = tuple(self.use(it) for it in buffers)
    descriptor = self.use(op.operands[0])
    self.act(Act("copy out", op, memory, descriptor=descriptor, reads=(*memory, descriptor)))


def _pendings(kind: str) -> Callable[[_Compiler, Operation], None]:
    def make(self: _Compiler, op: Operation) -> None:
        amount = _int(op.properties.get("pendings") or op.properties.get("num") or "0 : i32")
        self.act(Act(kind, op, amount=amount))

    return make


def _plain(kind: str) -> Callable[[_Compiler, Operation], None]:
    def make(self: _Compiler, op: Operation) -> None:
        self.act(Act(kind, op))

    return make


def _access(self: _Compiler, op: Operation, kind: str, buffer: Value, *conditions: Value | None) -> None:
    memory = self.use(buffer)
    self.act(Act(kind, op, (memory,), reads=(memory,)), *conditions)


def _async_copy(self: _Compiler, op: Operation) -> None:
    _access(self, op, "cp.async", ttg.AsyncCopyGlobalToLocalOp(op).buffer)


def _copies_arrive(self: _Compiler, op: Operation) -> None:
    """One arrival per thread of the partition, once its earlier copies have landed."""
    if "noIncrement" not in op.properties:
        raise NotUnderstood("an arrival of cp.async that raises the count of its barrier", op)
    _on_barrier(self, op, "copies arrive", ttng.AsyncCopyMbarrierArriveOp(op).barrier, warps_of(op) * WARP)


def _dot(self: _Compiler, op: Operation) -> None:
    dot = WarpGroupDotOp(op)
    memory = tuple(self.use(it) for it in (dot.a, dot.b) if it.type.startswith("!ttg.memdesc"))
    tile, result = self.use(dot.accumulator), self.define(op.result)
    self.act(Act("dot", op, memory, reads=memory, tile=tile, result=result, amount=int(dot.is_async)))


def _dot_wait(self: _Compiler, op: Operation) -> None:
    tiles = tuple((self.use(it), self.define(result)) for it, result in zip(op.operands, op.results, strict=True))
    self.act(Act("dot wait", op, amount=_int(op.properties["pendings"]), tiles=tiles))


def _tmem_store(self: _Compiler, op: Operation) -> None:
    store = tcgen05.TMEMStoreOp(op)
    _access(self, op, "write", store.buffer, store.predicate)


def _tmem_copy(self: _Compiler, op: Operation) -> None:
    copy = tcgen05.TMEMCopyOp(op)
    if copy.barriers:
        raise NotUnderstood("a copy to tensor memory that arrives on a barrier by itself", op)
    memory = self.use(copy.target), self.use(copy.source)
    self.act(Act("tcgen05", op, memory, reads=memory))


def _tcgen05_dot(self: _Compiler, op: Operation) -> None:
    """D is read if it is added; then the dot writes it, and commits to its barriers."""
    dot = tcgen05.dot_of(op)
    assert dot is not None
    if dot.two_ctas:
        raise NotUnderstood("a dot that two CTAs issue together", op)
    _access(self, op, "adds", dot.d, dot.predicate, dot.use_d)
    memory = tuple(self.use(it) for it in (dot.d, dot.a, dot.b, *dot.scales))
    self.act(Act("tcgen05", op, memory, reads=memory), dot.predicate)
    if dot.waits:
        self.act(Act("tcgen05 wait", op), dot.predicate)
    for barrier, condition in dot.commits:
        _on_barrier(self, op, "commit", barrier, 1, dot.predicate, condition)


def _tcgen05_commit(self: _Compiler, op: Operation) -> None:
    commit = tcgen05.TCGen5CommitOp(op)
    if commit.descriptors or "two_ctas" in op.properties:
        raise NotUnderstood("a commit that arrives in several CTAs", op)
    _on_barrier(self, op, "commit", commit.barrier, 1, commit.predicate)


_EVENTS: dict[str, Callable[[_Compiler, Operation], None]] = by_name(
    {
        ttng.InitBarrierOp: _init,
        ttng.InvalBarrierOp: _inval,
        ttng.WaitBarrierOp: _wait,
        ttng.ArriveBarrierOp: _arrive,
        ttng.BarrierExpectOp: _expect,
        ttng.AsyncTMACopyGlobalToLocalOp: _copy_in,
        ttng.AsyncTMACopyLocalToGlobalOp: _copy_out,
        ttng.AsyncTMAReduceOp: _copy_out,
        ttng.AsyncTMAStoreWaitOp: _pendings("store wait"),
        ttng.FenceAsyncSharedOp: _plain("fence"),
        ttg.LocalStoreOp: lambda self, op: _access(self, op, "write", ttg.LocalStoreOp(op).buffer),
        ttg.LocalLoadOp: lambda self, op: _access(self, op, "read", ttg.LocalLoadOp(op).buffer),
        ttg.LocalDeallocOp: lambda self, op: self.free(op, ttg.LocalDeallocOp(op).buffer),
        ttg.AsyncCopyGlobalToLocalOp: _async_copy,
        ttg.AsyncCommitGroupOp: _plain("cp.async commit"),
        ttg.AsyncWaitOp: _pendings("cp.async wait"),
        ttng.AsyncCopyMbarrierArriveOp: _copies_arrive,
        WarpGroupDotOp: _dot,
        ttng.WarpGroupDotWaitOp: _dot_wait,
        ttg.LocalAllocOp: lambda self, op: self.allocate(op),
        tcgen05.TMEMAllocOp: lambda self, op: self.allocate(op),
        tcgen05.TMEMLoadOp: lambda self, op: _access(self, op, "read", tcgen05.TMEMLoadOp(op).buffer),
        tcgen05.TMEMStoreOp: _tmem_store,
        tcgen05.TMEMCopyOp: _tmem_copy,
        tcgen05.TCGen5MMAOp: _tcgen05_dot,
        tcgen05.TCGen5MMAScaledOp: _tcgen05_dot,
        tcgen05.TCGen5CommitOp: _tcgen05_commit,
        MakeTensorDescOp: lambda self, op: self.describe(op, op.result, "describe"),
        ttng.TensormapCreateOp: lambda self, op: self.describe(op, op.operands[0], "descriptor"),
        ttng.TensormapFenceproxyAcquireOp: _plain("descriptor fence"),
    }
)
DESCRIBING = op_names(MakeTensorDescOp, ttng.TensormapCreateOp, ttng.TensormapFenceproxyAcquireOp)
WRITING = ("write", "free", "copy in", "cp.async", "describe", "descriptor", "init", "inval", "tcgen05")
"""Events that write memory."""
