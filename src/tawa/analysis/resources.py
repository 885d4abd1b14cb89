"""Resources: shared memory and registers that a kernel needs in addition to its rings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tawa.analysis.layout.left_operands import left_in_tensor_memory
from tawa.analysis.layout.scratch import conversion_bytes, reduction_bytes
from tawa.analysis.loops.async_wgmma import dots_in, is_aside, own_buffer_bytes, own_buffers
from tawa.analysis.loops.costs import stays_in_registers
from tawa.analysis.rings.channels import ChannelInfo, ancestor_in
from tawa.analysis.rings.exchanges import EXCHANGED, STAGED_IN, bytes_for_all, shared_ring
from tawa.analysis.rings.guards import find_guards
from tawa.analysis.rings.slices import slice_from
from tawa.declines import PARTIAL_SUMS
from tawa.dialects.control_flow import holder_of
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import BroadcastOp, DescriptorLoadOp, FuncOp, ReduceOp, tma_store
from tawa.dialects.ttg import VIEWS, ConvertLayoutOp, LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Block, MemDescType, Module, Operation, TensorType, Value, parse_type
from tawa.ir.encodings import fields_of
from tawa.machine.machines import WGMMA
from tawa.machine.nvidia import REGISTERS, WARP, WARP_GROUP

SLACK_BYTES = 1024
"""Shared memory for padding between buffers (TMA tiles start at multiples of 1024 bytes), barriers, small scratch."""
_OPERAND = "#ttg.dot_op"
_GROUP = WARP_GROUP * WARP
"""Threads that issue a wgmma together."""


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """Bytes of shared memory that a kernel needs in addition to its rings.

    staging: staging buffers of the stores in loops of the consumer, and buffers that all groups read. inside: the peak
    of the consumer's own tiles and of the scratch memory of layout conversions while the rings are live. behind: the
    same peak for the epilogue after the last ring access; it reuses the memory of the rings. again: the buffers that a
    loop fills for its dots; each further iteration in flight needs another copy.
    """

    staging: int
    inside: int
    behind: int
    again: int = 0

    def with_in_flight(self, iterations: int) -> SharedInfo:
        """The same with the dots of this many earlier iterations in flight."""
        return replace(self, inside=self.inside + iterations * self.again, again=0)

    def with_beside(self, more: int) -> SharedInfo:
        """The same with more bytes that live as long as the rings."""
        return replace(self, staging=self.staging + more)

    def total(self, ring_bytes: int) -> int:
        """Bytes of one CTA whose rings take `ring_bytes`."""
        return max(ring_bytes + self.staging + self.inside, self.behind) + SLACK_BYTES


@dataclass(frozen=True, slots=True)
class _Span:
    """A live range of shared memory: bytes, and the first and last position in program order (inclusive)."""

    first: int
    last: int
    bytes: int


def shared_beside_rings(
    module: Module,
    channels: Sequence[ChannelInfo],
    groups: int = 1,
    slices_of: Callable[[Operation], tuple[int, int]] = lambda _: (1, 1),
    kept: Collection[Operation] = (),
    corrected: Collection[Operation] = (),
) -> SharedInfo:
    """Estimates the shared memory that the kernel needs in addition to its rings.

    groups: consumer groups, each with its own buffers. With several groups, the epilogue does not reuse ring memory.
    slices_of: the slices in which a store leaves, and the buffers that they take. kept: the dots whose left operand
    stays in registers. corrected: what a partition of its own computes, beside the others: it needs memory of its own.
    """
    infos = [info for channel in channels for site in channel.sites for info in site.loads]
    moved = {info.load.op for info in infos} | {op for info in infos for op in info.replaced}
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    guarded = find_guards(function, [info.load.op for info in infos])
    body = guarded.work
    last = max((body.index_of(ancestor_in(body, info.load.op)) for info in infos), default=-1)
    places = {op: place for place, op in enumerate(nested for outer in body.ops for nested in outer.walk())}
    border = _end(body.ops[last], places) if last >= 0 else -1
    of_producer = slice_from([info.load.op for info in infos], function.op, guarded.guards).ops
    loops = [loop for op in places if (loop := ForOp.of(op)) and dots_in(loop) and not is_aside(loop)]
    waits = {view.op: dots_in(loop)[-1].op for loop in loops for view in own_buffers(loop, moved)}
    elsewhere = left_in_tensor_memory(function.op)
    beside = groups > 1 or bool(corrected)
    staging: dict[str, int] = {}
    for_all: dict[str, int] = {}
    staged: dict[tuple[str, bool], _Span] = {}
    spans: list[tuple[_Span, bool]] = []
    fetching: list[_Span] = []
    for op, place in places.items():
        size = 0 if op in moved or op in elsewhere else _bytes(op, moved)
        if shared := bytes_for_all(op, groups):
            for_all[shared_ring(op) if EXCHANGED in op.attributes else str(place)] = shared
            continue
        store = tma_store(op)
        if STAGED_IN in op.attributes:
            continue
        if store and (place <= border or beside):
            tile = store.source.type + store.descriptor.type
            slices, buffers = slices_of(op)
            size = size // slices * buffers
            if ancestor_in(body, op) is not op:
                staging[tile] = size
            else:  # stores of one tile type share a buffer, which lives until the last of them has left
                span = _Span(place, len(places) if beside else border, size)
                staged.setdefault((tile, op in corrected), span)
        elif size and op in of_producer and all(user in of_producer for it in op.results for user in it.users):
            fetching.append(_Span(place, place, size))
        elif size:
            first, end = _live(op, kept)
            span = _Span(places[first], max(places[waits.get(op, op)], _end(end, places)), size)
            spans.append((span, op in corrected))
    spans += [(span, own) for (tile, own), span in staged.items() if tile not in staging]
    inside, behind = (
        sum(_peak([span for span, own in spans if own is part], *ends) for part in (False, True))
        for ends in ((-1, len(places) if beside else border), (border + 1, len(places)))
    )
    again = groups * max((own_buffer_bytes(loop, moved) for loop in loops), default=0)
    fetched = _peak(fetching, -1, border)
    return SharedInfo(
        groups * sum(staging.values()) + sum(for_all.values()),
        groups * inside + fetched,
        0 if beside else behind,
        again,
    )


def _live(op: Operation, kept: Collection[Operation]) -> tuple[Operation, Operation]:
    """The operations at which the shared memory of `op` is filled, and last read; a loop that does so counts whole."""
    convert = ConvertLayoutOp.of(op)
    if convert and _OPERAND in op.result.type:  # Triton puts it into shared memory before the loops that only read it
        maker = holder_of(convert.source)
        loops = [it for it in enclosing_loops(op) if maker is None or not (it is maker or it.is_ancestor_of(maker))]
        return (loops[-1], loops[-1]) if loops else (op, _last_user(op, op.result.users))
    if not LocalAllocOp.of(op):
        return op, op
    readers: list[Operation] = []
    views = [op.result]
    while views:
        view = views.pop()
        for use in view.uses:
            if use.op in kept and use.index == 0 and view is op.result and len(view.uses) > 1:
                continue  # it reads the tile from registers; Triton moves the load of a single reader back to it
            readers.append(use.op)
            views += use.op.results if use.op.name in VIEWS else []
    return op, _last_user(op, readers)


def _last_user(op: Operation, users: Iterable[Operation]) -> Operation:
    """The last operation of the block of `op` that is one of the users or contains one; `op` itself without any."""
    block = op.parent
    assert block is not None
    return max((op, *(ancestor_in(block, user) for user in users)), key=block.index_of)


def _end(op: Operation, places: Mapping[Operation, int]) -> int:
    """The position of the last operation nested in `op`."""
    return max(places[nested] for nested in op.walk())


def _peak(spans: Sequence[_Span], first: int, last: int) -> int:
    """The most bytes that are live at one position between `first` and `last`."""
    begins = [max(span.first, first) for span in spans if span.first <= last and span.last >= first]
    return max((sum(it.bytes for it in spans if it.first <= place <= it.last) for place in begins), default=0)


def _bytes(op: Operation, moved: Collection[Operation]) -> int:
    """The shared memory that an operation allocates: staging buffers, `local_alloc`, and scratch memory."""
    store, load = tma_store(op), DescriptorLoadOp.of(op)
    if store:
        tile = parse_type(store.source.type)
    elif load:
        if _only_kept(op):
            return 0
        tile = load.tile
    elif convert := ConvertLayoutOp.of(op):
        first = _first_spread(convert.source)
        if first.defining_op in moved or _only_stored(op) or stays_in_registers(op):
            return 0  # a slot is read in the layout that its reader wants
        if first is convert.source and _OPERAND not in op.result.type:
            return conversion_bytes(op)
        tile = parse_type(first.type)
    elif ReduceOp.of(op):
        return reduction_bytes(op)
    elif LocalAllocOp.of(op):
        tile = parse_type(op.result.type)
    else:
        return 0
    return tile.bytes if isinstance(tile, TensorType | MemDescType) else 0


@dataclass(frozen=True, slots=True)
class AccumulatorInfo:
    """The accumulators of one dot: their 32-bit elements, and the columns of one wgmma."""

    elements: int
    columns: int


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    """Registers that a consumer thread needs for its wgmmas.

    accumulators: for the accumulators of one block, which are live together. instruction: for the accumulator of the
    widest single wgmma instruction. largest: for the largest accumulator of a single dot.
    """

    accumulators: int
    instruction: int
    largest: int = 0

    @staticmethod
    def of(blocks: Sequence[Sequence[AccumulatorInfo]], num_warps: int) -> RegisterInfo:
        """The registers of the accumulators of each block. num_warps: that execute the dots."""
        threads = num_warps * WARP
        counts = [[it.elements // threads for it in dots] for dots in blocks]
        every = [count for dots in counts for count in dots]
        columns = [it.columns for dots in blocks for it in dots]
        return RegisterInfo(
            max(map(sum, counts), default=0), max(columns, default=0) * WGMMA.rows // _GROUP, max(every, default=0)
        )

    def fill_an_sm(self, num_warps: int, groups: int = 1) -> bool:
        """Whether one accumulator alone takes all registers of an SM, so that the kernel must spill."""
        return self.largest * num_warps * WARP * groups >= REGISTERS


def wgmma_registers(module: Module, num_warps: int) -> RegisterInfo:
    """The registers that the accumulators of the kernel need."""
    blocks: dict[Block, list[AccumulatorInfo]] = {}
    for op in module.walk():
        dot = WarpGroupDotOp.of(op)
        tile = parse_type(op.result.type) if dot else None
        if dot and op.parent is not None and isinstance(tile, TensorType):
            columns = fields_of(module.aliases, tile.encoding).get("instrShape", "[0, 0]").strip("[]").split(",")[1]
            elements = tile.bytes // 4 * (2 if dot.adds_partial_sums else 1)
            blocks.setdefault(op.parent, []).append(AccumulatorInfo(elements, int(columns)))
    return RegisterInfo.of(list(blocks.values()), num_warps)


def unfit_dots(module: Module) -> str:
    """Why the dots of a kernel do not benefit from specialisation; empty if they do.

    An fp8 dot that adds up partial sums has two accumulators, and waits in every dot.
    """
    if any(dot.adds_partial_sums for op in module.walk() if (dot := WarpGroupDotOp.of(op))):
        return PARTIAL_SUMS.text()
    return ""


def _only_stored(op: Operation) -> bool:
    users = op.result.users
    return bool(users) and all(tma_store(user) for user in users)


def _first_spread(tile: Value) -> Value:
    """The source of a chain of broadcasts: Triton converts the layout of the source, not of the broadcast tile."""
    while broadcast := BroadcastOp.of(tile.defining_op):
        tile = broadcast.source
    return tile


def _only_kept(op: Operation) -> bool:
    """Whether a load goes directly to `local_alloc`s, which are counted themselves."""
    users = op.result.users
    return bool(users) and all(LocalAllocOp.of(user) for user in users)
