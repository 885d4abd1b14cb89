"""Kernels with named barriers in inline assembly, and the faults that can be put into them.

writer     for each row:  wait at EMPTY + slot; store the row to the slot; arrive at FULL + slot
reader     arrive at EMPTY + slot for each slot; for each row:  wait at FULL + slot; load it; arrive at EMPTY + slot
"""

from __future__ import annotations

from functools import cache

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma

from tawa.ir import Module
from tests.matrix.gluon import gluon_module

tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.constexpr_function
def meeting(instruction, threads):
    return f"{instruction} $1, {threads}; mov.u32 $0, $1;"


@gluon.jit
def assembly(TEXT: gl.constexpr, value, PURE: gl.constexpr = False):
    return gl.inline_asm_elementwise(TEXT, "=r,r", [value], dtype=gl.int32, is_pure=PURE, pack=1)


@gluon.jit
def writer(slots, x, n, D: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    EMPTY: gl.constexpr = 6
    FULL: gl.constexpr = 6 + D
    THREADS: gl.constexpr = 384 if FAULT == "more threads than there are" else 256
    for i in range(n):
        slot = i % D
        row = gl.load(x + i * 128 + gl.arange(0, 128, layout))
        if FAULT != "the writer does not wait":
            assembly(meeting("bar.sync", 128 if FAULT == "counts that differ" else THREADS), EMPTY + slot)
        if FAULT == "the writer arrives before it writes":
            assembly(meeting("bar.arrive", THREADS), FULL + slot)
        slots.index(slot).store(row)
        if FAULT != "the writer arrives before it writes" and FAULT != "the writer does not arrive":
            assembly(meeting("bar.arrive", THREADS), FULL + slot)
        if FAULT == "the writer arrives twice":
            assembly(meeting("bar.arrive", THREADS), FULL + slot)


@gluon.jit
def reader(slots, o, n, D: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    EMPTY: gl.constexpr = 6
    FULL: gl.constexpr = 6 + D
    THREADS: gl.constexpr = 384 if FAULT == "more threads than there are" else 256
    if FAULT != "no slot is empty at first":
        for first in gl.static_range(D):
            assembly(meeting("barrier.cta.arrive", THREADS), gl.to_tensor(EMPTY + first))
    for i in range(n):
        slot = i % D
        if FAULT != "the reader does not wait":
            where = slot + 1 if FAULT == "another number" else slot
            assembly(meeting("barrier.cta.sync.aligned", THREADS), FULL + where)
        if FAULT == "the reader arrives before it reads":
            assembly(meeting("bar.arrive", THREADS), EMPTY + slot)
        row = slots.index(slot).load(layout)
        if FAULT != "the reader arrives before it reads" and FAULT != "the reader does not arrive":
            assembly(meeting("bar.arrive", THREADS), EMPTY + slot)
        gl.store(o + i * 128 + gl.arange(0, 128, layout), row + 1.0)
    if FAULT == "the barrier that starts the partitions":
        assembly(meeting("bar.sync", 128), gl.to_tensor(1))
    if FAULT == "the barrier of another partition":
        assembly(meeting("bar.sync", 128), gl.to_tensor(2))
    if FAULT == "the barrier of its own partition":
        assembly(meeting("bar.sync", 128), gl.to_tensor(0))
    if FAULT == "all threads of the program":
        assembly("bar.sync 15; mov.u32 $0, $1;", gl.to_tensor(0))


@gluon.jit
def rows_handed_on(x, o, n, D: gl.constexpr, FAULT: gl.constexpr, num_warps: gl.constexpr):
    """o = x + 1, row by row, through a ring of D slots between two partitions."""
    slots = gl.allocate_shared_memory(gl.float32, [D, 128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.warp_specialize([(reader, (slots, o, n, D, FAULT)), (writer, (slots, x, n, D, FAULT))], [4], [64])


@gluon.jit
def tile_stored(c, TEXT: gl.constexpr, PURE: gl.constexpr, num_warps: gl.constexpr):
    """Stores ones by TMA; TEXT stands between the writes to shared memory and the copy."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    tile.store(gl.full([64, 64], 1.0, c.dtype, layout))
    zero = assembly(TEXT, gl.to_tensor(0), PURE)
    tma_store(c, [zero, 0], tile)
    tma.store_wait(0)


@cache
def handed_on(D: int, fault: str = "none") -> Module:
    """The program of two partitions, with a fault."""
    constants = {"D": D, "FAULT": fault, "num_warps": 4}
    return gluon_module(rows_handed_on, {}, constants, {}, {"x": "*fp32", "o": "*fp32"})


def stored(text: str, pure: bool = False) -> Module:
    """The program that stores a tile, with these instructions before the copy."""
    constants = {"TEXT": f"{text} mov.u32 $0, $1;", "PURE": pure, "num_warps": 4}
    return gluon_module(tile_stored, {"c": [64, 64]}, constants, {"c": "fp16"}, {})
