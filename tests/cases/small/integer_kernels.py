"""Kernels on whole numbers: results of narrow types, and operands whose sign decides what is computed."""

import triton
import triton.language as tl


@triton.jit
def stored_by_descriptor(a, b, c, K, TILES, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Persistent int8 GEMM; the sums are narrowed and stored by TMA."""
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        acc = tl.zeros((BM, BN), dtype=tl.int32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([tile * BM, k]), b.load([0, k]).T, acc, out_dtype=tl.int32)
        c.store([tile * BM, 0], (acc >> 8).to(c.dtype))


@triton.jit
def scores(q, k, v, o, qs_ptr, ks_ptr, L, TILES, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Attention with int8 scores in a loop over tiles: the queries are loaded before the inner loop."""
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        x = q.load([tile * BM, 0])
        sx = tl.load(qs_ptr + tile)
        m = tl.full([BM], float("-inf"), tl.float32)
        total = tl.zeros([BM], tl.float32)
        acc = tl.zeros([BM, D], tl.float32)
        for n in range(0, L, BN):
            s = tl.dot(x, k.load([n, 0]).T, out_dtype=tl.int32).to(tl.float32) * (sx * tl.load(ks_ptr + n // BN))
            new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
            alpha = tl.exp2(m - new)
            total = total * alpha + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc * alpha[:, None])
            m = new
        o.store([tile * BM, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def nibbles(x_ptr, w_ptr, y_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """4-bit weights in bytes: the high nibble is w >> 4, which is another number if the byte has a sign."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K // BK):
        ks = k * BK + tl.arange(0, BK)
        hs = k * (BK // 2) + tl.arange(0, BK // 2)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :])
        w = tl.load(w_ptr + cols[:, None] * (K // 2) + hs[None, :])
        w = tl.interleave(w & 15, w >> 4).to(tl.float16) - 8
        acc = tl.dot(x, w.T, acc)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], acc)


@triton.jit
def signs(x_ptr, w_ptr, y_ptr, shift, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product beside bytes without a sign, which are shifted as they are, and as bytes with a sign."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K // BK):
        ks = k * BK + tl.arange(0, BK)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :])
        acc = tl.dot(x, tl.trans(tl.load(x_ptr + cols[:, None] * K + ks[None, :])), acc)
    w = tl.load(w_ptr + cols)
    scale = (w >> 4).to(tl.float32) + 16 * (w.to(tl.int8) >> 4).to(tl.float32)
    scale += (shift >> 28).to(tl.float32)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], acc + scale[None, :])
