"""Resources of one SM on Hopper, and what a kernel needs of them beside its rings.

Limits: CUDA C++ Programming Guide, "Compute Capability 9.0": 228 KiB of shared memory an SM, 227 KiB a block, 64 K registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.channels import ChannelInfo, ancestor_in
from tawa.dialects.tt import DescriptorLoadOp, DescriptorStoreOp, FuncOp
from tawa.dialects.ttg import LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Block, MemDescType, Module, Operation, TensorDescType, TensorType, parse_type

SHARED_BYTES = 227 * 1024
SM_SHARED_BYTES = 228 * 1024
CTA_RESERVED_BYTES = 1024
REGISTERS = 64 * 1024
MAX_REGISTERS = 256
WARP = 32
WARP_GROUP = 4
REGISTER_STEP = 8
PRODUCER_REGISTERS = 24
# Registers of a consumer beside its accumulators: addresses, epilogue temporaries. With less, ptxas spills or refuses (C7602).
WORKING_REGISTERS = 64
MOST_CTAS = 4
# Alignment gaps between buffers (TMA tiles start at multiples of 1024 bytes), barriers and small scratch.
SLACK_BYTES = 1024


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """Bytes of shared memory beside the rings.

    staging: one buffer for each type of stored tile. over: names of the channels whose last access stands before the
    first store, so that their memory can serve as staging. loads: tiles the consumer loads by itself. scratch: layout changes.
    """

    staging: tuple[int, ...]
    over: frozenset[str]
    loads: int
    scratch: int

    def beside(self, channels: Sequence[ChannelInfo], depth: int) -> int:
        """Bytes beside rings of `depth` slots; loaded tiles and scratch are live one after another."""
        spare = sorted(
            depth * info.payload.bytes
            for channel in channels
            if channel.name in self.over
            for info in channel.sites[0].loads
        )
        total = max(self.loads, self.scratch) + SLACK_BYTES
        for size in self.staging:
            fitting = next((room for room in spare if room >= size), None)
            if fitting is None:
                total += size
            else:
                spare.remove(fitting)
        return total


def shared_beside_rings(module: Module, channels: Sequence[ChannelInfo]) -> SharedInfo:
    """Estimates what the kernel keeps in shared memory beside its rings."""
    infos = [info for channel in channels for site in channel.sites for info in site.loads]
    moved = {info.load.op for info in infos} | {op for info in infos for op in info.allocations}
    staging: dict[str, int] = {}
    stores: list[Operation] = []
    loads = scratch = 0
    for op in module.walk():
        if op in moved:
            continue
        store, load = DescriptorStoreOp.of(op), DescriptorLoadOp.of(op)
        if store:
            stores.append(op)
            block, source = parse_type(store.descriptor.type), parse_type(store.source.type)
            if isinstance(block, TensorDescType) and isinstance(source, TensorType):
                staging.setdefault(f"{source.shape}{source.element}{block.block.encoding}", source.bytes)
        elif load:
            loads = max(loads, load.tile.bytes)
        elif LocalAllocOp.of(op):
            buffer = parse_type(op.result.type)
            loads += buffer.bytes if isinstance(buffer, MemDescType) else 0
        elif op.name == "ttg.convert_layout" and not _only_stored(op):
            tile = parse_type(op.result.type)
            scratch = max(scratch, tile.bytes if isinstance(tile, TensorType) else 0)
    return SharedInfo(tuple(staging.values()), _over_before(module, channels, stores), loads, scratch)


def accumulator_registers(module: Module, num_warps: int) -> int:
    """Registers a consumer thread holds for accumulators: those of all wgmmas of one block are live together."""
    blocks: dict[Block, int] = {}
    for op in module.walk():
        dot = WarpGroupDotOp.of(op)
        if dot and op.parent is not None:
            tile = parse_type(op.result.type)
            count = tile.bytes // 4 // (num_warps * WARP) if isinstance(tile, TensorType) else 0
            blocks[op.parent] = blocks.get(op.parent, 0) + count * (2 if dot.adds_partial_sums else 1)
    return max(blocks.values(), default=0)


def consumer_registers(num_warps: int, limit: int | None = None) -> int:
    """Registers a consumer thread gets when one producer warp group gives its own up.

    As Triton's allocate-warp-groups: the producer's warp is padded to a warp group, each thread starts with an even
    share (at most `limit`), and what the producer leaves goes to the consumer, in steps of 8.
    """
    threads = (num_warps + WARP_GROUP) * WARP
    even = _step_down(min(REGISTERS // threads, MAX_REGISTERS, limit or MAX_REGISTERS))
    pool = even * threads - PRODUCER_REGISTERS * WARP_GROUP * WARP
    return min(_step_down(pool // (num_warps * WARP)), _step_down(MAX_REGISTERS))


def register_cap(shared_bytes: int, num_warps: int, accumulators: int) -> int | None:
    """Registers a thread at kernel entry that let as many CTAs live on one SM as shared memory does; None for one CTA.

    A specialised kernel asks for every register it can get, so that without a cap one CTA fills the SM.
    """
    threads = (num_warps + WARP_GROUP) * WARP
    for ctas in range(min(SM_SHARED_BYTES // (shared_bytes + CTA_RESERVED_BYTES), MOST_CTAS), 1, -1):
        cap = _step_down(REGISTERS // (ctas * threads))
        if consumer_registers(num_warps, cap) >= accumulators + WORKING_REGISTERS:
            return cap
    return None


def _step_down(count: int) -> int:
    return count // REGISTER_STEP * REGISTER_STEP


def _over_before(module: Module, channels: Sequence[ChannelInfo], stores: list[Operation]) -> frozenset[str]:
    """Channels that no store stands before, beside or inside of, in the order of the function's outermost operations."""
    body = next(view.body for op in module.body.ops if (view := FuncOp.of(op)))
    first = min((body.index_of(ancestor_in(body, store)) for store in stores), default=0)
    return frozenset(
        channel.name
        for channel in channels
        if all(
            body.index_of(ancestor_in(body, info.load.op)) < first for site in channel.sites for info in site.loads
        )
    )


def _only_stored(op: Operation) -> bool:
    users = op.result.users
    return bool(users) and all(DescriptorStoreOp.of(user) for user in users)
