"""Attention for sm_100, 128 rows a program, with two exchanges in tensor memory.

    default     correction  multiplies O by alpha between two dots with V; at the end divides by the sums and stores
    partition0  softmax     S -> alpha, and P in the first half of S
    partition1  MMA         S = Q·K of the next block behind O += P·V of this one
    partition2  load        Q once, then K and V of each block

Who waits for `scores` may change S, and says by `weights` that P is there. Who waits for `summed` may change O, and
says by `scaled` that it is done. Q·K overwrites P behind the dot that reads it: both are issued by one thread.
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
    tensor_memory_descriptor,
    tma,
)

from tawa.ir import Module
from tests.verify.tensor_memory.rings import barriers, compiled, fence, following, tma_load, tma_store

ROWS, KEYS, HEAD = 128, 128, 64

if hasattr(tensor_memory_descriptor, "reinterpret"):

    @gluon.jit
    def weights_in(s):
        """P, fp16, in the first half of the columns of S."""
        return s.reinterpret(gl.float16, [128, 256], TensorMemoryLayout([128, 256], col_stride=1)).slice(0, 128)

else:

    @gluon.jit
    def weights_in(s):
        """P, fp16, in the first half of the columns of S."""
        return s._reinterpret(gl.float16, [128, 256], TensorMemoryLayout([128, 256], col_stride=1)).slice(0, 128)


@gluon.jit
def load_tile(desc, row, tile, full, empty, parity):
    mbarrier.wait(empty, parity)
    mbarrier.expect(full, desc.block_type.nbytes)
    tma_load(desc, [row, 0], full, tile)


@gluon.jit
def loads(q, k, v, q_tile, q_full, k_tiles, k_full, k_empty, v_tiles, v_full, v_empty, blocks, D: gl.constexpr):
    mbarrier.expect(q_full, q.block_type.nbytes)
    tma_load(q, [gl.program_id(0) * 128, 0], q_full, q_tile)
    slot, parity = gl.to_tensor(0), gl.to_tensor(1)
    for block in range(blocks):
        load_tile(k, block * 128, k_tiles.index(slot), k_full.index(slot), k_empty.index(slot), parity)
        load_tile(v, block * 128, v_tiles.index(slot), v_full.index(slot), v_empty.index(slot), parity)
        slot, parity = following(slot, parity, D)


@gluon.jit
def dots(
    q_tile, q_full, k_tiles, k_full, k_empty, v_tiles, v_full, v_empty, s, scores, weights, o, summed, scaled,
    blocks, D: gl.constexpr,
):  # fmt: skip
    k_slot, k_parity = gl.to_tensor(0), gl.to_tensor(0)
    v_slot, v_parity = gl.to_tensor(0), gl.to_tensor(0)
    turn = gl.to_tensor(0)
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(0), 0)
    tcgen05_mma(q_tile, k_tiles.index(0).permute((1, 0)), s, use_acc=False, mbarriers=[scores, k_empty.index(0)])
    k_slot, k_parity = following(k_slot, k_parity, D)
    for block in range(1, blocks):
        mbarrier.wait(v_full.index(v_slot), v_parity)
        mbarrier.wait(weights, turn)
        mbarrier.wait(scaled, turn ^ 1)
        tcgen05_mma(weights_in(s), v_tiles.index(v_slot), o, use_acc=block > 1)
        tcgen05_commit(v_empty.index(v_slot))
        tcgen05_commit(summed)
        mbarrier.wait(k_full.index(k_slot), k_parity)
        keys = k_tiles.index(k_slot).permute((1, 0))
        tcgen05_mma(q_tile, keys, s, use_acc=False, mbarriers=[scores, k_empty.index(k_slot)])
        k_slot, k_parity = following(k_slot, k_parity, D)
        v_slot, v_parity = following(v_slot, v_parity, D)
        turn ^= 1
    mbarrier.wait(v_full.index(v_slot), v_parity)
    mbarrier.wait(weights, turn)
    mbarrier.wait(scaled, turn ^ 1)
    tcgen05_mma(weights_in(s), v_tiles.index(v_slot), o, use_acc=blocks > 1, mbarriers=[summed])


@gluon.jit
def softmax(s, scores, weights, alpha, alpha_full, alpha_empty, scale, blocks):
    layout: gl.constexpr = gl.BlockedLayout([1, 128], [32, 1], [4, 1], [0, 1])
    row: gl.constexpr = gl.SliceLayout(1, layout)
    top = gl.full([128], float("-inf"), gl.float32, row)
    total = gl.full([128], 0.0, gl.float32, row)
    turn = gl.to_tensor(0)
    for _ in range(blocks):
        mbarrier.wait(scores, turn)
        x = s.load(layout) * scale
        larger = gl.maximum(top, gl.max(x, 1))
        factor = gl.exp2(top - larger)
        mbarrier.wait(alpha_empty, turn ^ 1)
        alpha.store(factor)
        mbarrier.arrive(alpha_full, count=1)
        x = gl.exp2(x - gl.expand_dims(larger, 1))
        weights_in(s).store(x.to(gl.float16))
        mbarrier.arrive(weights, count=1)
        total = total * factor + gl.sum(x, 1)
        top = larger
        turn ^= 1
    mbarrier.wait(alpha_empty, turn ^ 1)
    alpha.store(total)
    mbarrier.arrive(alpha_full, count=1)


@gluon.jit
def correction(out, o, summed, scaled, alpha, alpha_full, alpha_empty, blocks):
    layout: gl.constexpr = gl.BlockedLayout([1, 32], [32, 1], [4, 1], [0, 1])
    row: gl.constexpr = gl.SliceLayout(1, layout)
    staged = gl.allocate_shared_memory(out.dtype, [128, 64], out.layout)
    turn = gl.to_tensor(0)
    mbarrier.wait(alpha_full, 0)  # the first factor is not needed: O starts with the first block
    mbarrier.arrive(alpha_empty, count=1)
    for _ in range(1, blocks):
        mbarrier.wait(alpha_full, turn ^ 1)
        factor = gl.expand_dims(alpha.load(row), 1)
        mbarrier.arrive(alpha_empty, count=1)
        mbarrier.wait(summed, turn)
        for half in gl.static_range(2):
            part = o.slice(half * 32, 32)
            part.store(part.load(layout) * factor)
        mbarrier.arrive(scaled, count=1)
        turn ^= 1
    mbarrier.wait(alpha_full, turn ^ 1)
    total = gl.expand_dims(alpha.load(row), 1)
    mbarrier.arrive(alpha_empty, count=1)
    mbarrier.wait(summed, turn)
    for half in gl.static_range(2):
        part = o.slice(half * 32, 32).load(layout) / total
        staged.slice(half * 32, 32, dim=1).store(part.to(out.dtype))
    fence()
    tma_store(out, [gl.program_id(0) * 128, 0], staged)
    tma.store_wait(0)


@gluon.jit
def attention(q, k, v, out, scale, blocks, D: gl.constexpr):
    """One tile of 128 rows over `blocks` blocks of 128 keys."""
    gl.assume(blocks > 0)
    q_tile = gl.allocate_shared_memory(q.dtype, [128, 64], q.layout)
    k_tiles = gl.allocate_shared_memory(k.dtype, [D, 128, 64], k.layout)
    v_tiles = gl.allocate_shared_memory(v.dtype, [D, 128, 64], v.layout)
    alpha = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    s = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    o = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], col_stride=1))
    k_full, k_empty, v_full, v_empty = barriers(D), barriers(D), barriers(D), barriers(D)
    q_full, scores, weights = barriers(1).index(0), barriers(1).index(0), barriers(1).index(0)
    summed, scaled = barriers(1).index(0), barriers(1).index(0)
    alpha_full, alpha_empty = barriers(1).index(0), barriers(1).index(0)
    gl.warp_specialize(
        [
            (correction, (out, o, summed, scaled, alpha, alpha_full, alpha_empty, blocks)),
            (softmax, (s, scores, weights, alpha, alpha_full, alpha_empty, scale, blocks)),
            (
                dots,
                (
                    q_tile,
                    q_full,
                    k_tiles,
                    k_full,
                    k_empty,
                    v_tiles,
                    v_full,
                    v_empty,
                    s,
                    scores,
                    weights,
                    o,
                    summed,
                    scaled,
                    blocks,
                    D,
                ),
            ),
            (loads, (q, k, v, q_tile, q_full, k_tiles, k_full, k_empty, v_tiles, v_full, v_empty, blocks, D)),
        ],
        [4, 1, 1],
        [160, 24, 24],
    )


@cache
def attention_module(D: int = 2) -> Module:
    """The attention kernel with D slots for K and for V."""
    boxes = {"q": [128, 64], "k": [128, 64], "v": [128, 64], "out": [128, 64]}
    return compiled(attention, boxes, {"D": D}, {"scale": "fp32", "blocks": "i32"})
