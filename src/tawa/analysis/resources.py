"""Resources of one CTA on Hopper, and what a kernel needs beside its rings.

Limits: CUDA C++ Programming Guide, "Compute Capability 9.0": 227 KiB of shared memory a block, 64 K registers an SM.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.tt import DescriptorLoadOp, DescriptorStoreOp
from tawa.dialects.ttg import LocalAllocOp
from tawa.ir import MemDescType, Module, TensorDescType, TensorType, parse_type

SHARED_BYTES = 227 * 1024
REGISTERS = 64 * 1024
WARP = 32
WARP_GROUP = 4
REGISTER_STEP = 8
PRODUCER_REGISTERS = 24
# Alignment gaps between buffers (1024 bytes each, swizzled TMA tiles) and a page for barriers and small scratch.
SLACK_BYTES = 2048


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """Bytes of shared memory beside the rings: staging of stores, tiles the consumer loads by itself, layout scratch."""

    staging: int
    loads: int
    scratch: int

    @property
    def total(self) -> int:
        """All of it; tiles and scratch are live one after another, staging all the time."""
        return self.staging + max(self.loads, self.scratch)


def shared_beside_rings(module: Module, moved: set[int]) -> SharedInfo:
    """Estimates it. `moved` holds the `id` of every operation that a ring replaces (loads and allocations)."""
    staging: dict[str, int] = {}
    loads = scratch = 0
    for op in module.walk():
        if id(op) in moved:
            continue
        store, load = DescriptorStoreOp.of(op), DescriptorLoadOp.of(op)
        if store:
            block = parse_type(store.descriptor.type)
            source = parse_type(store.source.type)
            if isinstance(block, TensorDescType) and isinstance(source, TensorType):
                staging[f"{source.shape}{source.element}{block.block.encoding}"] = source.bytes
        elif load:
            loads = max(loads, load.tile.bytes)
        elif LocalAllocOp.of(op):
            buffer = parse_type(op.result.type)
            loads += buffer.bytes if isinstance(buffer, MemDescType) else 0
        elif op.name == "ttg.convert_layout" and not _only_stored(op.result.users):
            tile = parse_type(op.result.type)
            scratch = max(scratch, tile.bytes if isinstance(tile, TensorType) else 0)
    return SharedInfo(sum(staging.values()), loads, scratch)


def consumer_registers(num_warps: int, limit: int | None = None) -> int:
    """Registers a consumer thread gets when one producer warp group gives its own up.

    As Triton's allocate-warp-groups: the producer's warp is padded to a warp group, each thread starts with an even
    share, and what the producer leaves goes to the consumer, in steps of 8.
    """
    threads = (num_warps + WARP_GROUP) * WARP
    even = min(REGISTERS // threads // REGISTER_STEP * REGISTER_STEP, 255 // REGISTER_STEP * REGISTER_STEP)
    even = min(even, limit) if limit else even
    pool = even * threads - PRODUCER_REGISTERS * WARP_GROUP * WARP
    return min(pool // (num_warps * WARP) // REGISTER_STEP * REGISTER_STEP, 248)


def _only_stored(users: list[object]) -> bool:
    return bool(users) and all(getattr(user, "name", "") == DescriptorStoreOp.NAME for user in users)
