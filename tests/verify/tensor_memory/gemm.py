"""A persistent GEMM for sm_100 with an accumulator ring in tensor memory.

default     epilogue   waits for acc_full; reads the accumulator by halves; releases it; stores each half by TMA
partition0  MMA        waits for acc_empty, then for full of each step; commits to empty; at the end to acc_full
partition1  load       waits for empty; expects the bytes of A and B on full; copies them
"""

from __future__ import annotations

from functools import cache

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)

from tawa.ir import Module
from tests.verify.tensor_memory.rings import barriers, compiled, fence, following, tma_load, tma_store


@gluon.jit
def loads(a, b, a_tiles, b_tiles, full, empty, tiles, columns, steps, D: gl.constexpr):
    slot, parity = gl.to_tensor(0), gl.to_tensor(1)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for step in range(steps):
            mbarrier.wait(empty.index(slot), parity)
            mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
            tma_load(a, [tile // columns * 128, step * 64], full.index(slot), a_tiles.index(slot))
            tma_load(b, [step * 64, tile % columns * 128], full.index(slot), b_tiles.index(slot))
            slot, parity = following(slot, parity, D)


@gluon.jit
def dots(a_tiles, b_tiles, full, empty, acc, acc_full, acc_empty, tiles, steps, D: gl.constexpr):
    slot, parity = gl.to_tensor(0), gl.to_tensor(0)
    place, turn = gl.to_tensor(0), gl.to_tensor(1)
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(acc_empty.index(place), turn)
        for step in range(steps):
            mbarrier.wait(full.index(slot), parity)
            tcgen05_mma(a_tiles.index(slot), b_tiles.index(slot), acc.index(place), use_acc=step > 0)
            tcgen05_commit(empty.index(slot))
            slot, parity = following(slot, parity, D)
        tcgen05_commit(acc_full.index(place))
        place, turn = following(place, turn, 2)


@gluon.jit
def results(c, acc, acc_full, acc_empty, tiles, columns):
    layout: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    staged = gl.allocate_shared_memory(c.dtype, [2, 128, 64], c.layout)
    place, turn = gl.to_tensor(0), gl.to_tensor(0)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(acc_full.index(place), turn)
        left = acc.index(place).slice(0, 64).load(layout)
        right = acc.index(place).slice(64, 64).load(layout)
        mbarrier.arrive(acc_empty.index(place), count=1)
        tma.store_wait(0)
        staged.index(0).store(left.to(c.dtype))
        staged.index(1).store(right.to(c.dtype))
        fence()
        for half in gl.static_range(2):
            tma_store(c, [tile // columns * 128, tile % columns * 128 + half * 64], staged.index(half))
        place, turn = following(place, turn, 2)
    tma.store_wait(0)


@gluon.jit
def gemm(a, b, c, tiles, columns, steps, D: gl.constexpr):
    """c = a · b, by tiles of 128×128; an accumulator needs a step that writes it."""
    gl.assume(steps > 0)
    a_tiles = gl.allocate_shared_memory(a.dtype, [D, 128, 64], a.layout)
    b_tiles = gl.allocate_shared_memory(b.dtype, [D, 64, 128], b.layout)
    full, empty, acc_full, acc_empty = barriers(D), barriers(D), barriers(2), barriers(2)
    acc = allocate_tensor_memory(gl.float32, [2, 128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    gl.warp_specialize(
        [
            (results, (c, acc, acc_full, acc_empty, tiles, columns)),
            (dots, (a_tiles, b_tiles, full, empty, acc, acc_full, acc_empty, tiles, steps, D)),
            (loads, (a, b, a_tiles, b_tiles, full, empty, tiles, columns, steps, D)),
        ],
        [1, 1],
        [24, 24],
    )


@cache
def gemm_module(D: int = 2) -> Module:
    """The GEMM with D slots."""
    boxes = {"a": [128, 64], "b": [64, 128], "c": [128, 64]}
    return compiled(gemm, boxes, {"D": D}, dict.fromkeys(("tiles", "columns", "steps"), "i32"))
