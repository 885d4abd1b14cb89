"""Resources of one SM on Hopper, and what a kernel needs of them beside its rings.

Limits: CUDA C++ Programming Guide, "Compute Capability 9.0": 228 KiB of shared memory an SM, 227 KiB a block, 64 K
registers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tawa.analysis.channels import ChannelInfo, ancestor_in
from tawa.analysis.costs import stays_in_registers
from tawa.analysis.guards import find_guards
from tawa.analysis.in_flight import own_buffer_bytes
from tawa.analysis.layouts import per_thread, tile_order
from tawa.analysis.loads import DotLoadInfo
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DescriptorLoadOp, DescriptorStoreOp, FuncOp
from tawa.dialects.ttg import VIEWS, LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Block, MemDescType, Module, Operation, TensorType, Value, parse_type

SHARED_BYTES = 227 * 1024
SM_SHARED_BYTES = 228 * 1024
CTA_RESERVED_BYTES = 1024
REGISTERS = 64 * 1024
MAX_REGISTERS = 256
WARP = 32
WARP_GROUP = 4
REGISTER_STEP = 8
PRODUCER_REGISTERS = 24
# Of a producer that works on tiles of addresses: beside these, and for one address with its part of a mask.
ADDRESS_REGISTERS = 40
POINTER_REGISTERS = 3
MAX_PRODUCER_REGISTERS = 168
# Registers of a consumer beside its accumulators: addresses, operands and temporaries of the epilogue.
WORKING_REGISTERS = 88
# The least beside its accumulators that a consumer keeps where a producer needs registers for its addresses.
LEAST_WORKING_REGISTERS = 72
# Registers that ptxas wants beside the accumulator of one wgmma; also what the main loop of a stock GEMM takes.
INSTRUCTION_REGISTERS = 26
# What an attention loop of stock Triton takes beside its accumulators: 46 to 59, seen in kernels of d = 64.
CHAINED_REGISTERS = 48
MOST_CTAS = 4
# Alignment gaps between buffers (TMA tiles start at multiples of 1024 bytes), barriers and small scratch.
SLACK_BYTES = 1024

_INSTRUCTION = re.compile(r"instrShape = \[\d+, (\d+)")


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """Bytes of shared memory that a kernel needs for anything but its rings.

    staging: buffers of the stores inside loops of the consumer. inside: the most that tiles it keeps there by itself,
    or layout changes, take at a time. behind: the same for the epilogue behind the last ring access, whose memory is
    that of the rings. again: buffers that a loop fills for its dots, which each iteration in flight needs once more.
    """

    staging: int
    inside: int
    behind: int
    again: int = 0

    def with_in_flight(self, iterations: int) -> SharedInfo:
        """The same with dots of so many iterations in flight."""
        return replace(self, inside=self.inside + iterations * self.again, again=0)

    def total(self, ring_bytes: int) -> int:
        """Bytes of one CTA whose rings take `ring_bytes`."""
        return max(ring_bytes + self.staging + self.inside, self.behind) + SLACK_BYTES


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes of shared memory from one place of the program to another, both ends included."""

    first: int
    last: int
    bytes: int


def shared_beside_rings(module: Module, channels: Sequence[ChannelInfo], groups: int = 1) -> SharedInfo:
    """Estimates what the kernel keeps in shared memory beside its rings.

    groups: consumer groups, each with buffers of its own. The epilogues of several stay inside them.
    """
    infos = [info for channel in channels for site in channel.sites for info in site.loads]
    moved = {info.load.op for info in infos} | {op for info in infos for op in info.allocations}
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    body = find_guards(function, [info.load.op for info in infos]).work
    last = max((body.index_of(ancestor_in(body, info.load.op)) for info in infos), default=-1)
    places = {op: place for place, op in enumerate(nested for outer in body.ops for nested in outer.walk())}
    border = _end(body.ops[last], places) if last >= 0 else -1
    staging: dict[str, int] = {}
    spans: list[_Span] = []
    for op, place in places.items():
        size = 0 if op in moved else _tile_bytes(op)
        store = DescriptorStoreOp.of(op)
        if store and (place <= border or groups > 1):
            if ancestor_in(body, op) is not op:
                staging[store.source.type + store.descriptor.type] = size
            else:
                spans.append(_Span(place, len(places), size))  # its buffer lives until the store has left
        elif size:
            spans.append(_Span(place, _last_use(op, places), size))
    inside = _peak(spans, -1, border)
    behind = _peak(spans, border + 1, len(places))
    loops = [loop for op in places if (loop := ForOp.of(op))]
    again = groups * max((own_buffer_bytes(loop, moved) for loop in loops), default=0)
    if groups == 1:
        return SharedInfo(sum(staging.values()), inside, behind, again)
    return SharedInfo(groups * sum(staging.values()), groups * max(inside, behind), 0, again)


def _last_use(op: Operation, places: Mapping[Operation, int]) -> int:
    """The last place where what `op` puts into shared memory is needed; a loop around a use needs it to its end."""
    if not LocalAllocOp.of(op):
        return places[op]
    assert op.parent is not None
    last = places[op]
    views = [op.result]
    while views:
        for user in views.pop().users:
            last = max(last, _end(ancestor_in(op.parent, user), places))
            if user.name in VIEWS:
                views.append(user.result)
    return last


def _end(op: Operation, places: Mapping[Operation, int]) -> int:
    """The place of the last operation in `op`."""
    return max(places[nested] for nested in op.walk())


def _peak(spans: Sequence[_Span], first: int, last: int) -> int:
    """The most bytes alive at a place from `first` to `last`."""
    begins = [max(span.first, first) for span in spans if span.first <= last and span.last >= first]
    return max((sum(it.bytes for it in spans if it.first <= place <= it.last) for place in begins), default=0)


def _tile_bytes(op: Operation) -> int:
    """Shared memory that an operation takes while it runs: loads, stores and layout changes pass through it."""
    store, load = DescriptorStoreOp.of(op), DescriptorLoadOp.of(op)
    if store:
        tile = parse_type(store.source.type)
    elif load:
        if _only_kept(op):
            return 0
        tile = load.tile
    elif op.name == "ttg.convert_layout":
        if _only_stored(op) or stays_in_registers(op):
            return 0
        tile = parse_type(_first_spread(op.operands[0]).type)
    elif LocalAllocOp.of(op):
        tile = parse_type(op.result.type)
    else:
        return 0
    return tile.bytes if isinstance(tile, TensorType | MemDescType) else 0


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    """Registers a consumer thread needs for its wgmmas.

    accumulators: of all wgmmas of one block, which are live together. instruction: of the widest single wgmma.
    largest: of the accumulator of a single dot.
    """

    accumulators: int
    instruction: int
    largest: int = 0

    def fill_an_sm(self, num_warps: int, groups: int = 1) -> bool:
        """Whether one accumulator takes all registers of an SM, whatever else the kernel does: it must spill."""
        return self.largest * num_warps * WARP * groups >= REGISTERS


def wgmma_registers(module: Module, num_warps: int) -> RegisterInfo:
    """What the accumulators of the kernel take."""
    blocks: dict[Block, int] = {}
    widest = largest = 0
    for op in module.walk():
        dot = WarpGroupDotOp.of(op)
        tile = parse_type(op.result.type) if dot else None
        if dot and op.parent is not None and isinstance(tile, TensorType):
            count = tile.bytes // 4 // (num_warps * WARP) * (2 if dot.adds_partial_sums else 1)
            blocks[op.parent] = blocks.get(op.parent, 0) + count
            largest = max(largest, count)
            shape = _INSTRUCTION.search(module.aliases.get(tile.encoding, tile.encoding))
            widest = max(widest, int(shape.group(1)) // 2 if shape else 0)
    return RegisterInfo(max(blocks.values(), default=0), widest, largest)


def unfit_dots(module: Module) -> str:
    """Why a kernel is left alone for its dots.

    A dot that is too small for wgmma reads its operands through registers, so that none stays in flight; one in fp8
    that adds up partial sums has two accumulators, and a wait in every dot.
    """
    dots = [dot for op in module.walk() if (dot := WarpGroupDotOp.of(op))]
    if not dots:
        return "no dot is a wgmma, which has at least 64 rows: none stays in flight while the consumer goes on"
    if any(dot.adds_partial_sums for dot in dots):
        return "an fp8 dot adds up partial sums (max_num_imprecise_acc), which keeps the consumer from running ahead"
    return ""


def consumer_registers(num_warps: int, limit: int | None = None, producer: int = PRODUCER_REGISTERS) -> int:
    """Registers a consumer thread gets when one producer warp group gives its own up.

    As Triton's allocate-warp-groups: the producer's warp is padded to a warp group, each thread starts with an even
    share (at most `limit`), and what the producer leaves goes to the consumer, in steps of 8.
    """
    threads = (num_warps + WARP_GROUP) * WARP
    even = _step_down(min(REGISTERS // threads, MAX_REGISTERS, limit or MAX_REGISTERS))
    pool = even * threads - producer * WARP_GROUP * WARP
    return min(_step_down(pool // (num_warps * WARP)), _step_down(MAX_REGISTERS))


def registers_of_an_sm(partitions: Sequence[tuple[int, int]], limit: int | None = None) -> tuple[int, int]:
    """Registers that partitions ask for, and those that their CTA starts with.

    partitions: warps, and registers of a thread; warps are padded to warp groups. limit: of a thread at kernel entry.
    """
    threads = [-(-warps // WARP_GROUP) * WARP_GROUP * WARP for warps, _ in partitions]
    even = _step_down(min(REGISTERS // sum(threads), MAX_REGISTERS, limit or MAX_REGISTERS)) if threads else 0
    return sum(count * registers for count, (_, registers) in zip(threads, partitions, strict=True)), even * sum(
        threads
    )


def producer_registers(loads: Sequence[DotLoadInfo], module: Module, num_warps: int, groups: int = 1) -> int:
    """Registers a thread of the producer gets: 24 where TMA does it all, more for tiles of addresses, by an estimate.

    num_warps: of one of the `groups` of consumers, which get at least what their accumulators and their work take.
    """
    by_threads = [info for info in loads if info.fill != "tma"]
    if not by_threads:
        return PRODUCER_REGISTERS
    threads = WARP_GROUP * WARP
    wanted = ADDRESS_REGISTERS
    for info in by_threads:
        tile = info.load.tile
        if tile is None:
            continue
        order = tile_order(module, tile.encoding)
        side_by_side = per_thread(module, tile.encoding, order[0]) if order else 1
        accesses = -(-math.prod(tile.shape) // (threads * side_by_side))
        wanted += POINTER_REGISTERS * accesses
        wanted += info.payload.bytes // (4 * threads) if info.fill == "registers" else 0
    least = wgmma_registers(module, num_warps).accumulators + LEAST_WORKING_REGISTERS
    counts = range(PRODUCER_REGISTERS, MAX_PRODUCER_REGISTERS + 1, REGISTER_STEP)
    fitting = [count for count in counts if consumer_registers(num_warps * groups, producer=count) >= least]
    return min([count for count in fitting if count >= wanted][:1] or fitting[-1:] or [PRODUCER_REGISTERS])


def register_cap(
    shared_bytes: int,
    num_warps: int,
    registers: RegisterInfo,
    producer: int = PRODUCER_REGISTERS,
    most: int | None = None,
) -> tuple[int, int | None]:
    """How many CTAs share an SM when specialised, and the cap on registers at kernel entry for it (None for one CTA).

    A specialised kernel asks for every register it can get, so that without a cap one CTA fills the SM. ptxas wants the
    registers of a single wgmma under the cap (C7602), and all accumulators in what `setmaxnreg` gives the consumer.
    most: CTAs that are wanted at most.
    """
    threads = (num_warps + WARP_GROUP) * WARP
    for ctas in range(min(_ctas_by_memory(shared_bytes), most or MOST_CTAS), 1, -1):
        cap = _step_down(REGISTERS // (ctas * threads))
        room = consumer_registers(num_warps, cap, producer) - registers.accumulators
        if room >= WORKING_REGISTERS and cap >= registers.instruction + INSTRUCTION_REGISTERS:
            return ctas, cap
    return 1, None


def stock_ctas(shared_bytes: int, num_warps: int, registers: RegisterInfo, chained: bool = False) -> int:
    """How many CTAs of the kernel share an SM when stock Triton compiles it; an estimate.

    chained: a dot works on what another one gave, which takes registers too.
    """
    more = CHAINED_REGISTERS if chained else INSTRUCTION_REGISTERS
    count = min(registers.accumulators + more, MAX_REGISTERS) * num_warps * WARP
    return max(1, min(_ctas_by_memory(shared_bytes), REGISTERS // count))


def _ctas_by_memory(shared_bytes: int) -> int:
    return min(SM_SHARED_BYTES // (shared_bytes + CTA_RESERVED_BYTES), MOST_CTAS)


def _step_down(count: int) -> int:
    return count // REGISTER_STEP * REGISTER_STEP


def _only_stored(op: Operation) -> bool:
    users = op.result.users
    return bool(users) and all(DescriptorStoreOp.of(user) for user in users)


def _first_spread(tile: Value) -> Value:
    """What a broadcast spreads: Triton changes its layout before, not that of the tile."""
    while tile.defining_op is not None and tile.defining_op.name == "tt.broadcast":
        tile = tile.defining_op.operands[0]
    return tile


def _only_kept(op: Operation) -> bool:
    """Whether a load goes right into tiles that stay in shared memory, which count by themselves."""
    users = op.result.users
    return bool(users) and all(LocalAllocOp.of(user) for user in users)
