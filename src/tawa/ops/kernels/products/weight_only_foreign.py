"""Y = X @ W^T + bias for weights of 4 bits as GPTQ and AWQ pack them. Plain Triton.

Letters as in `weight_only`. GPTQ: words (K / 8, N), a word has 8 consecutive elements of K, lowest first. AWQ: words
(K, N / 8), a word has 8 consecutive columns in the order 0, 2, 4, 6, 1, 3, 5, 7. Zeros (K / SPAN, N / 8) have 8
columns in a word, in order for GPTQ, as the weights for AWQ; GPTQ's first version holds them less 1 (ADD).

Neighbours of K have to change between threads before wgmma can take them, so the packing of `weight_only` is faster.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.split import arrive, sum_parts, write_part
from tawa.ops.kernels.products.weight_only import put_transposed


@triton.jit
def four_bits(words, PLACE: tl.constexpr, dtype: tl.constexpr):
    """The weights at a place of their words: 1024, in bfloat16 128, more than they are."""
    if dtype == tl.float16:
        return (((words >> (4 * PLACE)) & 15) | 0x6400).to(tl.int16).to(dtype, bitcast=True)
    else:
        return (((words >> (4 * PLACE)) & 15) | 0x4300).to(tl.int16).to(dtype, bitcast=True)


@triton.jit
def side_by_side(words, AWQ: tl.constexpr, dtype: tl.constexpr):
    """All eight weights of each word, with a last axis for each of the three digits of their number."""
    if AWQ:
        even = tl.join(
            tl.join(four_bits(words, 0, dtype), four_bits(words, 2, dtype)),
            tl.join(four_bits(words, 1, dtype), four_bits(words, 3, dtype)),
        )
        odd = tl.join(
            tl.join(four_bits(words, 4, dtype), four_bits(words, 6, dtype)),
            tl.join(four_bits(words, 5, dtype), four_bits(words, 7, dtype)),
        )
    else:
        even = tl.join(
            tl.join(four_bits(words, 0, dtype), four_bits(words, 4, dtype)),
            tl.join(four_bits(words, 2, dtype), four_bits(words, 6, dtype)),
        )
        odd = tl.join(
            tl.join(four_bits(words, 1, dtype), four_bits(words, 5, dtype)),
            tl.join(four_bits(words, 3, dtype), four_bits(words, 7, dtype)),
        )
    return tl.join(even, odd)


@triton.jit
def weight_only_foreign(
    w, x, y, scales, zeros, bias, parts, semaphores, M, N, K, BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    SPAN: tl.constexpr, AWQ: tl.constexpr, ADD: tl.constexpr, ZEROS: tl.constexpr, ZERO: tl.constexpr,
    BIAS: tl.constexpr, SPLIT: tl.constexpr, Y_TMA: tl.constexpr,
):  # fmt: skip
    """One tile of Y, or of its partial sums. SPAN: elements of K that share a scale, a multiple of BK.

    ZEROS: each group has its own; else all have ZERO. SPLIT: programs that share a tile. Y_TMA: Y is a descriptor.
    """
    dtype: tl.constexpr = x.dtype
    OFFSET: tl.constexpr = 1024.0 if dtype == tl.float16 else 128.0
    tile, piece = tl.program_id(0) // SPLIT, tl.program_id(0) % SPLIT
    across = tl.cdiv(M, BM)
    n, m = tile // across * BN, tile % across * BM
    rows = n + tl.arange(0, BN)
    place = rows % 8 // 2 + rows % 2 * 4 if AWQ else rows % 8
    steps = tl.cdiv(K, BK)
    first, last = piece * steps // SPLIT, (piece + 1) * steps // SPLIT
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for step in range(first, last):
        k = step * BK
        if AWQ:
            codes = side_by_side(w.load([k, n // 8]), AWQ, dtype).reshape(BK, BN).T
        else:
            codes = side_by_side(w.load([k // 8, n]).T, AWQ, dtype).reshape(BN, BK)
        group = k // SPAN
        scale = tl.load(scales + group * N + rows, mask=rows < N, other=0.0).to(dtype)
        if ZEROS:
            word = tl.load(zeros + group * (N // 8) + rows // 8, mask=rows < N, other=0)
            zero = (((word >> (4 * place)) & 15) + ADD).to(dtype) + OFFSET
            weights = (codes - zero[:, None]) * scale[:, None]
        else:
            weights = (codes - (OFFSET + ZERO)) * scale[:, None]
        acc = tl.dot(weights, x.load([m, k]).T, acc)
    if SPLIT > 1:
        write_part(parts, acc, tile, piece, SPLIT)
        if arrive(semaphores, tile, SPLIT):
            acc = sum_parts(parts, tile, 0, BN, BM, BM, SPLIT)
            put_transposed(y, acc, bias, m, n, M, N, BN, BM, BIAS, Y_TMA)
    else:
        put_transposed(y, acc, bias, m, n, M, N, BN, BM, BIAS, Y_TMA)
