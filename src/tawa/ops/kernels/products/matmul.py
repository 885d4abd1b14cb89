"""C = act(A @ B + bias) + residual, through descriptors. Plain Triton.

Letters: A (M, K) and B (K, N), each stored with K innermost or not (A_K, B_K); C (M, N). Blocks of BM x BN x BK.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.split import arrive, sum_parts, write_part


@triton.jit
def tile_at(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """The row and the column of blocks of a tile. Tiles are counted by GROUP rows of blocks, column by column."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = tile // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    within = tile % (GROUP * columns)
    return first + within % size, within // size


@triton.jit
def matmul(
    a, b, c, bias, parts, semaphores, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, A_K: tl.constexpr, B_K: tl.constexpr,
    C_N: tl.constexpr, BIAS: tl.constexpr, ACT: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """One tile of C, or of its partial sums."""
    tile, piece = tl.program_id(0) // SPLIT, tl.program_id(0) % SPLIT
    row, column = tile_at(tile, M, N, BM, BN, GROUP)
    m, n = row * BM, column * BN
    steps = tl.cdiv(K, BK)
    first, last = piece * steps // SPLIT, (piece + 1) * steps // SPLIT
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(first, last):
        k = step * BK
        if A_K:
            x = a.load([m, k])
        else:
            x = a.load([k, m]).T
        if B_K:
            y = b.load([n, k]).T
        else:
            y = b.load([k, n])
        acc = tl.dot(x, y, acc)
    if SPLIT == 1:
        if C_N:
            c.store([m, n], acc.to(c.dtype))
        else:
            c.store([n, m], acc.T.to(c.dtype))
    else:
        write_part(parts, acc, tile, piece, BM, BN, SPLIT)
        if arrive(semaphores, tile, SPLIT):
            acc = sum_parts(parts, tile, BM, BN, SPLIT)
            if C_N:
                c.store([m, n], acc.to(c.dtype))
            else:
                c.store([n, m], acc.T.to(c.dtype))
