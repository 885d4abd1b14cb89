"""Lower arefs: rings become buffers and mbarriers, counts become (slot, parity).

    aref.create r: 3 x (A, B)      a = local_alloc 3xA; b = local_alloc 3xB; full, empty = 3 mbarriers each, initialised
    aref.first                     (0, 0)
    aref.advance (s, p)            s' = s + 1 == 3 ? 0 : s + 1;   p' = p ^ (s + 1 == 3)
    aref.put (s, p) { loads }      wait(empty[s], p ^ 1); expect(full[s], bytes of A and B); TMA copies into a[s], b[s]
    aref.get (s, p)                wait(full[s], p); views a[s], b[s]
    aref.consumed (s, _)           arrive(empty[s]), after a proxy fence if necessary (see below)
    aref.landed (s, p)             for each slot t: wait(full[t], p where t < s, p ^ 1 from there on)

A put into a ring that TMA does not fill becomes

    cp.async     wait(empty[s], p ^ 1); async copies into a[s], b[s]; each thread arrives at full[s] after its own land
    registers    loads; wait(empty[s], p ^ 1); local_store into a[s], b[s]; fence_async_shared; arrive(full[s])
    stores       wait(empty[s], p ^ 1); the region of the put, on a[s], b[s]; fence_async_shared; arrive(full[s]);
                 without the fence if readers only load the tiles into registers
    number       splat; wait(empty[s], p ^ 1); local_store into a[s]; arrive(full[s])

A put that is open becomes

    aref.acquire (s, p)            wait(empty[s], p ^ 1); views a[s], b[s]
    aref.publish (s, _)            arrive(full[s]), or a commit to it if dots of one thread fill the ring; before it the
                                   fence, if threads fill shared memory
    aref.consumed {by_commit}      a commit to empty[s]

The arrival count of `full` in a cp.async ring is the number of producer threads. These write through the generic proxy
and cannot fence copies that have not landed yet. So a get whose slot a wgmma reads has the fence after its wait.

A ring with an empty payload is a token: its put is wait(empty[s], p ^ 1); arrive(full[s]). If the slots of a ring are
known to be empty at each put (`implied_empty`), the ring has no empty barriers, its puts do not wait, and its releases
are dropped.

Slot and parity are carried separately through loops and branches, so no division is needed. On a fresh mbarrier
`wait(p ^ 1)` returns at once, so the first round of puts finds every slot empty.

A consumer that loads a slot into registers must execute a proxy fence before it releases the slot to TMA. A load may
still be in flight when its thread arrives at the barrier. Generic-proxy writes by other threads are ordered after it,
but TMA writes through the async proxy are not. Without the fence, tiles were overwritten while they were read (seen on
an H200 with two CTAs per SM, where loads queue behind the stores of the other CTA).

    local_load; fence; arrive(empty)                        a fence of its own
    local_load; local_store; fence; arrive(empty); wgmma    the fence for the operand computed in between suffices

A converter loads from one slot and stores into another. One fence orders both: the stores before the wgmmas that read
them, and the loads before the TMA copy that overwrites what they read.

    get r[i]; put q[j] { local_load r[i]; …; local_store q[j] }; consumed r[i]
    →
    wait(full r); wait(empty q); local_load; …; local_store; fence_async_shared; arrive(full q); arrive(empty r)

Requires: `partition`; every put holds loads only, of the kind its ring says, stores into the slot's buffers, or
the splat of a number.
Ensures: no aref operation or type is left.
Source: arXiv 2510.14719, section 4.2; PTX ISA, "mbarrier" (phase parity, expect-tx), "cp.async.mbarrier.arrive"
(noinc), "Async proxy".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tawa.dialects.aref import (
    AcquireOp,
    AdvanceOp,
    ConsumedOp,
    CreateOp,
    Fill,
    FirstOp,
    GetOp,
    LandedOp,
    PublishOp,
    PutOp,
    index_depth,
)
from tawa.dialects.arith import CmpIOp, ExtUIOp, Predicate, SelectOp, XOrIOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tawa.dialects.tcgen05 import SCALES, TCGen5CommitOp, TMEMAllocOp
from tawa.dialects.tt import DescriptorLoadOp, LoadOp
from tawa.dialects.ttg import AsyncCopyGlobalToLocalOp, LocalAllocOp, LocalStoreOp, MemDescIndexOp
from tawa.dialects.ttng import (
    ArriveBarrierOp,
    AsyncCopyMbarrierArriveOp,
    AsyncTMACopyGlobalToLocalOp,
    BarrierExpectOp,
    InitBarrierOp,
    WaitBarrierOp,
)
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Builder, MemDescType, Module, Operation, Value, memdesc_type
from tawa.ir.attributes import array_attr, bool_attr, int_attr
from tawa.machine.nvidia import WARP
from tawa.transforms.lowering.fences import FENCE, is_fenced, loads_of, next_fence, read_by_async_proxy
from tawa.transforms.lowering.slots import next_slot
from tawa.transforms.result import PassResult

_BARRIER_LAYOUT = "#barriers"
_BARRIER_ATTRIBUTE = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"


@dataclass(frozen=True, slots=True)
class LowerArefs:
    """No options: depths and payloads are in the types."""

    def run(self, module: Module) -> PassResult:
        """Lowers every ring of the module."""
        module.aliases[_BARRIER_LAYOUT] = _BARRIER_ATTRIBUTE
        lowering = _Lowering()
        for op in list(module.walk()):
            lowering.op(op)
        lowering.finish()
        return PassResult(changed=bool(lowering.rings))


@dataclass(frozen=True, slots=True)
class _Ring:
    """The buffers and mbarriers of one ring."""

    depth: int
    buffers: list[Value]
    full: Value
    empty: Value | None
    fill: Fill
    loads: list[Operation]
    by_async_proxy: bool


@dataclass(frozen=True, slots=True)
class _Count:
    """A running count as two i32."""

    slot: Value
    parity: Value


class _Lowering:
    """One walk in textual order, so that each count is lowered before its uses."""

    def __init__(self) -> None:
        self.rings: dict[Value, _Ring] = {}
        self.counts: dict[Value, _Count] = {}
        self.dead: list[Operation] = []
        self.yields: list[Operation] = []
        self.handlers: dict[str, Callable[[Operation], None]] = by_name(
            {
                CreateOp: self.create,
                FirstOp: self.first,
                AdvanceOp: self.advance,
                PutOp: self.put,
                AcquireOp: self.acquire,
                PublishOp: self.publish,
                GetOp: self.get,
                ConsumedOp: self.consumed,
                LandedOp: self.landed,
                ForOp: self.control,
                IfOp: self.control,
                WhileOp: self.control,
                YieldOp: self.terminator,
                ConditionOp: self.terminator,
            }
        )

    def op(self, op: Operation) -> None:
        """Lowers one operation; its operands are lowered already."""
        handler = self.handlers.get(op.name)
        if handler:
            handler(op)

    def finish(self) -> None:
        """Erases the replaced operations, last first, so that users go before definitions."""
        for op in reversed(self.dead):
            op.erase()

    # -- rings ---------------------------------------------------------------------------------------------------

    def create(self, op: Operation) -> None:
        view = CreateOp(op)
        type = view.type
        builder = Builder.before(op)
        payload = [memdesc_type(text) for text in type.payload]
        buffers = [
            builder.create(
                TMEMAllocOp.NAME if buffer.in_tensor_memory else LocalAllocOp.NAME,
                (),
                (str(buffer if _is_one(buffer) else buffer.with_slots(type.depth)),),
                hints=(view.name,),
            ).result
            for buffer in payload
        ]
        full = _barriers(builder, type.depth, f"{view.name}_full")
        empty = None if view.implied_empty else _barriers(builder, type.depth, f"{view.name}_empty")
        writers = _writer_threads(op.result) if view.fill == "cp.async" else 1
        counts = [(full, writers)] if empty is None else [(full, writers), (empty, _readers(op.result))]
        for slot in range(type.depth):
            # Triton puts a CTA barrier between two writes to one allocation: alternating halves the number of barriers.
            for barriers, arrivals in counts:
                barrier = _slot_view(builder, barriers, builder.constant(slot))
                builder.create(InitBarrierOp.NAME, (barrier,), properties={"count": int_attr(arrivals)})
        gets = [use.op for use in op.result.uses if GetOp.of(use.op)]
        loads = [load for get in gets for result in get.results for load in loads_of(result)]
        by_proxy = any(read_by_async_proxy(result) for get in gets for result in get.results)
        self.rings[op.result] = _Ring(type.depth, buffers, full, empty, view.fill, loads, by_proxy)
        self.dead.append(op)

    # -- counts --------------------------------------------------------------------------------------------------

    def first(self, op: Operation) -> None:
        zero = Builder.before(op).constant(0)
        self.counts[op.result] = _Count(zero, zero)
        self.dead.append(op)

    def advance(self, op: Operation) -> None:
        count = self.counts[AdvanceOp(op).index]
        depth = index_depth(op.result.type)
        assert depth is not None
        builder = Builder.before(op)
        if depth == 1:
            parity = XOrIOp.create(builder, count.parity, builder.constant(1), "parity")
            self.counts[op.result] = _Count(count.slot, parity)
        else:
            slot, wrapped = next_slot(builder, count.slot, depth)
            flip = builder.create(ExtUIOp.NAME, (wrapped,), ("i32",)).result
            parity = XOrIOp.create(builder, count.parity, flip, "parity")
            self.counts[op.result] = _Count(slot, parity)
        self.dead.append(op)

    # -- accesses ------------------------------------------------------------------------------------------------

    def put(self, op: Operation) -> None:
        view = PutOp(op)
        ring, count = self.rings[view.ring], self.counts[view.index]
        builder = Builder.before(op)
        yes = builder.constant(1, "i1")
        if ring.fill in ("registers", "number") and ring.buffers:
            for nested in view.body.ops[:-1]:
                builder.insert(nested.detach())  # the loads overlap the wait for the empty slot
        if not view.fresh and ring.empty is not None:
            opposite = XOrIOp.create(builder, count.parity, builder.constant(1))
            _wait(builder, _slot_view(builder, ring.empty, count.slot), opposite, yes)
        full = _slot_view(builder, ring.full, count.slot)
        self.dead.append(op)
        if not ring.buffers:
            builder.create(ArriveBarrierOp.NAME, (full,), properties={"count": int_attr(1)})
            return
        tiles = view.body.terminator.operands
        match ring.fill:
            case "tma":
                _copy_by_tma(builder, tiles, ring, count, full, yes)
            case "cp.async":
                _copy_by_threads(builder, tiles, ring, count, full)
            case "registers" | "number":
                _store_tiles(builder, tiles, ring, count, full)
            case "stores" | "threads":
                _take_stores(builder, view, ring, count, full)
            case "commit":
                raise AssertionError("such a ring is filled between an acquire and a publish")

    def acquire(self, op: Operation) -> None:
        view = AcquireOp(op)
        ring, count = self.rings[view.ring], self.counts[view.index]
        builder = Builder.before(op)
        assert ring.empty is not None
        opposite = XOrIOp.create(builder, count.parity, builder.constant(1))
        _wait(builder, _slot_view(builder, ring.empty, count.slot), opposite, builder.constant(1, "i1"))
        _view_slot(builder, op, ring, count)
        self.dead.append(op)

    def publish(self, op: Operation) -> None:
        view = PublishOp(op)
        ring, count = self.rings[view.ring], self.counts[view.index]
        builder = Builder.before(op)
        full = _slot_view(builder, ring.full, count.slot)
        if ring.fill == "commit":
            builder.create(TCGen5CommitOp.NAME, (full,))
        else:
            if not memdesc_type(ring.buffers[0].type).in_tensor_memory:  # which has no proxies
                builder.create(FENCE, properties={"bCluster": bool_attr(False)})
            builder.create(ArriveBarrierOp.NAME, (full,), properties={"count": int_attr(1)})
        self.dead.append(op)

    def get(self, op: Operation) -> None:
        view = GetOp(op)
        ring, count = self.rings[view.ring], self.counts[view.index]
        builder = Builder.before(op)
        if not view.own:
            _wait(builder, _slot_view(builder, ring.full, count.slot), count.parity, builder.constant(1, "i1"))
        if ring.fill == "cp.async" and any(read_by_async_proxy(result) for result in op.results):
            builder.create(FENCE, properties={"bCluster": bool_attr(False)})
        _view_slot(builder, op, ring, count)
        self.dead.append(op)

    def consumed(self, op: Operation) -> None:
        view = ConsumedOp(op)
        ring, count = self.rings[view.ring], self.counts[view.index]
        self.dead.append(op)
        if ring.empty is None:
            return  # the next put is ordered after this release by other means
        builder = Builder.before(op)
        if ring.fill == "tma" and not all(is_fenced(load, op) for load in ring.loads):
            fence = next_fence(op, view.ring)
            if fence is None:
                builder.create(FENCE, properties={"bCluster": bool_attr(False)})
            else:
                builder = Builder.after(fence)
        condition = (view.condition,) if view.condition else ()
        if view.by_commit:
            builder.create(TCGen5CommitOp.NAME, (_slot_view(builder, ring.empty, count.slot), *condition))
            return
        builder.create(
            ArriveBarrierOp.NAME,
            (_slot_view(builder, ring.empty, count.slot), *condition),
            properties={"count": int_attr(1)},
        )

    def landed(self, op: Operation) -> None:
        """Slots before the next one were filled in this round, the others in the previous round or never (no wait)."""
        view = LandedOp(op)
        ring, count = self.rings[view.ring], self.counts[view.index]
        builder = Builder.before(op)
        yes = builder.constant(1, "i1")
        opposite = XOrIOp.create(builder, count.parity, builder.constant(1))
        for number in range(ring.depth):
            slot = builder.constant(number)
            this_round = CmpIOp.create(builder, Predicate.SLT, slot, count.slot)
            parity = SelectOp.create(builder, this_round, count.parity, opposite)
            _wait(builder, _slot_view(builder, ring.full, slot), parity, yes)
        self.dead.append(op)

    # -- counts through control flow -----------------------------------------------------------------------------

    def control(self, op: Operation) -> None:
        """Splits carried counts in two: operands, block arguments, results."""
        if not any(_is_count(value) for value in (*op.operands, *op.results)):
            return
        op.set_operands(self._expand(op.operands))
        for region in op.regions:
            for block in region.blocks:
                self._split_args(block)
        results, kept = op.results, list[Value]()
        op.results = kept
        for result in results:
            self._split(result, op, kept)

    def _split_args(self, block: Block) -> None:
        args, block.args = block.args, []
        for arg in args:
            self._split(arg, block, block.args)

    def _split(self, value: Value, owner: Operation | Block, into: list[Value]) -> None:
        if not _is_count(value):
            value.index = len(into)
            into.append(value)
            return
        parts = [Value("i32", owner, len(into) + number, hint) for number, hint in enumerate(("slot", "parity"))]
        into += parts
        self.counts[value] = _Count(*parts)

    def terminator(self, op: Operation) -> None:
        if any(_is_count(value) for value in op.operands):
            op.set_operands(self._expand(op.operands))

    def _expand(self, values: list[Value]) -> list[Value]:
        expanded: list[Value] = []
        for value in values:
            count = self.counts.get(value)
            expanded += [count.slot, count.parity] if count else [value]
        return expanded


_CACHE_HINTS = ("cache", "cachePolicy", "evict")


def _copy_by_tma(builder: Builder, tiles: list[Value], ring: _Ring, count: _Count, full: Value, yes: Value) -> None:
    filled = ring.buffers[: len(tiles)]
    size = sum(memdesc_type(buffer.type).bytes for buffer in filled) // ring.depth
    builder.create(BarrierExpectOp.NAME, (full, yes), properties={"size": int_attr(size)})
    for tile, buffer in zip(tiles, filled, strict=True):
        load = DescriptorLoadOp(_load_of(tile))
        builder.loc = load.op.loc
        slot = _slot_view(builder, buffer, count.slot)
        builder.create(
            AsyncTMACopyGlobalToLocalOp.NAME,
            (load.descriptor, *load.indices, full, slot, yes),
            properties={
                "cache": load.op.properties.get("cache", "1 : i32"),
                "evict": load.op.properties.get("evict", "1 : i32"),
                "isVolatile": bool_attr(False),
            },
        )


def _copy_by_threads(builder: Builder, tiles: list[Value], ring: _Ring, count: _Count, full: Value) -> None:
    """Masked-off elements become zeros, both if `other` is zero and if the load leaves them undefined."""
    where = builder.loc
    for tile, buffer in zip(tiles, ring.buffers[: len(tiles)], strict=True):
        load = LoadOp(_load_of(tile))
        builder.loc = load.op.loc
        slot = _slot_view(builder, buffer, count.slot)
        mask = (load.mask,) if load.mask is not None else ()
        hints = {name: load.op.properties[name] for name in _CACHE_HINTS if name in load.op.properties}
        builder.create(
            AsyncCopyGlobalToLocalOp.NAME,
            (load.pointers, slot, *mask),
            ("!ttg.async.token",),
            properties={
                **hints,
                "contiguity": int_attr(1),
                "isVolatile": bool_attr(False),
                "operandSegmentSizes": array_attr([1, 1, len(mask), 0]),
            },
        )
    builder.loc = where
    builder.create(AsyncCopyMbarrierArriveOp.NAME, (full,), properties={"noIncrement": ""})


def _store_tiles(builder: Builder, tiles: list[Value], ring: _Ring, count: _Count, full: Value) -> None:
    for tile, buffer in zip(tiles, ring.buffers[: len(tiles)], strict=True):
        builder.create(LocalStoreOp.NAME, (tile, _slot_view(builder, buffer, count.slot)))
    if ring.fill != "number":  # which threads read
        builder.create(FENCE, properties={"bCluster": bool_attr(False)})
    builder.create(ArriveBarrierOp.NAME, (full,), properties={"count": int_attr(1)})


def _take_stores(builder: Builder, put: PutOp, ring: _Ring, count: _Count, full: Value) -> None:
    for argument, buffer in zip(put.body.args, ring.buffers, strict=True):
        argument.replace_all_uses_with(_slot_view(builder, buffer, count.slot))
    for nested in put.body.ops[:-1]:
        builder.insert(nested.detach())
    if ring.by_async_proxy:
        builder.create(FENCE, properties={"bCluster": bool_attr(False)})
    builder.create(ArriveBarrierOp.NAME, (full,), properties={"count": int_attr(1)})


def _view_slot(builder: Builder, op: Operation, ring: _Ring, count: _Count) -> None:
    """Views of the buffers of a slot take the place of the results of an operation."""
    for result, buffer in zip(op.results, ring.buffers[: len(op.results)], strict=True):
        slot = _slot_view(builder, buffer, count.slot)
        slot.hint = result.hint
        result.replace_all_uses_with(slot)


def _load_of(tile: Value) -> Operation:
    assert tile.defining_op is not None, "the operands of a put's terminator are loads"
    return tile.defining_op


def _writer_threads(ring: Value) -> int:
    """The number of threads of the partition that fills the ring."""
    groups = [group for use in ring.uses if PutOp.of(use.op) for it in use.op.ancestors() if (group := GroupOp.of(it))]
    return groups[0].num_warps * WARP


def _readers(ring: Value) -> int:
    """The number of partitions that release each slot."""
    groups = [outer for use in ring.uses if ConsumedOp.of(use.op) for outer in use.op.ancestors() if GroupOp.of(outer)]
    return max(1, len(dict.fromkeys(groups)))


def _is_count(value: Value) -> bool:
    return index_depth(value.type) is not None


def _slot_view(builder: Builder, ring: Value, slot: Value) -> Value:
    """A view of one slot of a buffer or of an array of barriers."""
    type = memdesc_type(ring.type)
    if _is_one(type):
        return ring
    view = MemDescType(type.shape[1:], type.element, type.encoding, type.space, mutable=True)
    return builder.create(MemDescIndexOp.NAME, (ring, slot), (str(view),)).result


def _is_one(buffer: MemDescType) -> bool:
    """Whether a ring's only slot is the buffer itself: Triton has no slots of scales in tensor memory."""
    return buffer.encoding.startswith(SCALES)


def _barriers(builder: Builder, depth: int, hint: str) -> Value:
    type = MemDescType((depth, 1), "i64", _BARRIER_LAYOUT, mutable=True)
    return builder.create(LocalAllocOp.NAME, (), (str(type),), hints=(hint,)).result


def _wait(builder: Builder, barrier: Value, parity: Value, predicate: Value) -> None:
    builder.create(
        WaitBarrierOp.NAME,
        (barrier, parity, predicate),
        properties={"operandSegmentSizes": "array<i32: 1, 1, 1, 0>"},
    )
