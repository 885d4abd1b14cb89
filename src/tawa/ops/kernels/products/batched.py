"""C = A @ B for a batch of matrices, through descriptors of three dimensions. Plain Triton.

Letters: A (B, M, K) and B (B, K, N), each stored with K innermost or not (A_K, B_K); C (B, M, N). An operand that all
batches share has one matrix (A_ONE, B_ONE). Blocks of BM x BN x BK.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.epilogue import tile_at


@triton.jit
def batched_mm(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, A_K: tl.constexpr,
    B_K: tl.constexpr, A_ONE: tl.constexpr, B_ONE: tl.constexpr, C_TMA: tl.constexpr,
):  # fmt: skip
    """One tile of C of one batch. Tiles of a batch follow each other, so that its operands stay in the L2 cache.

    C_TMA: C is a descriptor; else a pointer to contiguous matrices.
    """
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    batch = tl.program_id(0) // tiles
    row, column = tile_at(tl.program_id(0) % tiles, M, N, BM, BN, GROUP)
    m, n = row * BM, column * BN
    of_a = 0 if A_ONE else batch
    of_b = 0 if B_ONE else batch
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        k = step * BK
        if A_K:
            x = a.load([of_a, m, k]).reshape(BM, BK)
        else:
            x = a.load([of_a, k, m]).reshape(BK, BM).T
        if B_K:
            y = b.load([of_b, n, k]).reshape(BN, BK).T
        else:
            y = b.load([of_b, k, n]).reshape(BK, BN)
        acc = tl.dot(x, y, acc)
    if C_TMA:
        c.store([batch, m, n], acc.to(c.dtype).reshape(1, BM, BN))
    else:
        rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
        at = c + (batch.to(tl.int64) * M + rows[:, None]) * N + columns[None, :]
        tl.store(at, acc.to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])
