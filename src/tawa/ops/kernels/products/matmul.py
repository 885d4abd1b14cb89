"""``C = act(A @ B * factors + bias) + residual``, through descriptors. Plain Triton.

Letters: A (M, K) and B (K, N), each stored with K innermost or not (A_K, B_K); C (M, N), stored with N innermost or not
(C_N). Tiles have BM rows and BN columns, and BK of the summed dimension at a time.

A tile may have BW more columns, with an accumulator of their own: sizes between two powers of two fill the SMs of a GPU
better. They are the columns behind the others, or (GATED) those of the same number in the second half of B; then
``C = act(A @ B1 + bias1) * (A @ B2 + bias2)`` has half as many columns as B.

For gradients, the sums that go into the activation can be stored as well (`kept`, in boxes like those of C).

A small C has too few tiles for all SMs; then SPLIT programs share the sums of one tile (`split`). They may share those
of the tiles of the last wave only, if it would leave most SMs idle.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.epilogue import activated, tile_at, with_bias, with_factors
from tawa.ops.kernels.products.split import add_part, arrive, sum_parts, write_part


@triton.jit
def left_tile(a, m, k, A_K: tl.constexpr):
    """A block of A, (BM, BK)."""
    if A_K:
        x = a.load([m, k])
    else:
        x = a.load([k, m]).T
    return x


@triton.jit
def right_tile(b, n, k, B_K: tl.constexpr):
    """A block of B, (BK, BN)."""
    if B_K:
        y = b.load([n, k]).T
    else:
        y = b.load([k, n])
    return y


@triton.jit
def store_tile(c, acc, m, n, C_N: tl.constexpr):
    """Stores a tile of C."""
    if C_N:
        c.store([m, n], acc.to(c.dtype))
    else:
        c.store([n, m], acc.to(c.dtype).T)


@triton.jit
def finished(
    acc, of_rows, of_columns, bias, residual, kept, m, n, M, N, C_N: tl.constexpr, ACT: tl.constexpr,
    ROW_STEP: tl.constexpr, COLUMN_STEP: tl.constexpr,
):  # fmt: skip
    """Factors, bias, activation and residual of a float32 tile, as far as they are given.

    of_rows, of_columns: one float32 number for each, or with a step of 0 for all; None for none. bias: of N if C_N,
    else of M. kept: where the sums are stored before the activation.
    """
    if of_rows is not None:
        acc = with_factors(acc, of_rows, m, M, ROW_STEP, 0)
        acc = with_factors(acc, of_columns, n, N, COLUMN_STEP, 1)
    if bias is not None:
        if C_N:
            acc = with_bias(acc, bias, n, N, 1)
        else:
            acc = with_bias(acc, bias, m, M, 0)
    if kept is not None:
        store_tile(kept, acc, m, n, C_N)
    acc = activated(acc, ACT)
    if residual is not None:
        if C_N:
            acc += residual.load([m, n]).to(tl.float32)
        else:
            acc += residual.load([n, m]).T.to(tl.float32)
    return acc


@triton.jit
def matmul(
    a, b, b_more, c, c_more, of_rows, of_columns, bias, residual, residual_more, kept, kept_more, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, A_K: tl.constexpr,
    B_K: tl.constexpr, C_N: tl.constexpr, GATED: tl.constexpr, ACT: tl.constexpr, ROW_STEP: tl.constexpr = 0,
    COLUMN_STEP: tl.constexpr = 0,
):  # fmt: skip
    """One tile of C. N counts columns of C.

    b_more, c_more, residual_more, kept_more: boxes of BW columns; None without. GATED: `kept` has the sums of the gate,
    `kept_more` the others.
    """
    tl.static_assert(not GATED or of_rows is None)
    WIDTH: tl.constexpr = BN if GATED else BN + BW
    row, column = tile_at(tl.program_id(0), M, N, BM, WIDTH, GROUP)
    m, n = row * BM, column * WIDTH
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    if BW:
        n_more = n + (N if GATED else BN)
        more = tl.zeros((BM, BW), dtype=tl.float32)
        for k in range(0, K, BK):
            x, y = left_tile(a, m, k, A_K), right_tile(b, n, k, B_K)
            z = right_tile(b_more, n_more, k, B_K)
            acc = tl.dot(x, y, acc)
            more = tl.dot(x, z, more)
    else:
        for k in range(0, K, BK):
            acc = tl.dot(left_tile(a, m, k, A_K), right_tile(b, n, k, B_K), acc)
    if GATED:
        if bias is not None:
            acc, more = with_bias(acc, bias, n, N, 1), with_bias(more, bias + N, n, N, 1)
        if kept is not None:
            store_tile(kept, acc, m, n, C_N)
            store_tile(kept_more, more, m, n, C_N)
        acc = activated(acc, ACT) * more
        acc = finished(acc, None, None, None, residual, None, m, n, M, N, C_N, "none", 0, 0)
    else:
        acc = finished(acc, of_rows, of_columns, bias, residual, kept, m, n, M, N, C_N, ACT, ROW_STEP, COLUMN_STEP)
    store_tile(c, acc, m, n, C_N)
    if BW and not GATED:
        more = finished(
            more, of_rows, of_columns, bias, residual_more, kept_more, m, n_more, M, N, C_N, ACT, ROW_STEP, COLUMN_STEP
        )
        store_tile(c_more, more, m, n_more, C_N)


@triton.jit
def matmul_split(
    a, b, c, c_whole, of_rows, of_columns, bias, residual, residual_whole, kept, kept_whole, parts, semaphores, whole,
    M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, A_K: tl.constexpr, B_K: tl.constexpr,
    C_N: tl.constexpr, ACT: tl.constexpr, SPLIT: tl.constexpr, WIDTH: tl.constexpr, ORDERED: tl.constexpr,
    ROW_STEP: tl.constexpr = 0, COLUMN_STEP: tl.constexpr = 0,
):  # fmt: skip
    """One of SPLIT shares of the sums of a tile of C; the first `whole` programs compute a tile each.

    The boxes of c, residual and kept have WIDTH columns of a tile, those of c_whole, residual_whole and kept_whole all
    of them; they are None if no tile is computed whole. ORDERED: shares are added in a fixed order, else by atomics.
    """
    program = tl.program_id(0)
    rest = tl.cdiv(M, BM) * tl.cdiv(N, BN) - whole
    share = program - whole
    alone = share < 0
    tile = program if alone else whole + share % rest
    piece = 0 if alone else share // rest
    row, column = tile_at(tile, M, N, BM, BN, GROUP)
    m, n = row * BM, column * BN
    steps = tl.cdiv(K, BK)
    last = steps if alone else (piece + 1) * steps // SPLIT
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(piece * steps // SPLIT, last):
        k = step * BK
        acc = tl.dot(left_tile(a, m, k, A_K), right_tile(b, n, k, B_K), acc)
    if c_whole is not None and alone:
        acc = finished(
            acc, of_rows, of_columns, bias, residual_whole, kept_whole, m, n, M, N, C_N, ACT, ROW_STEP, COLUMN_STEP
        )
        store_tile(c_whole, acc, m, n, C_N)
    else:
        PARTS: tl.constexpr = SPLIT if ORDERED else 1
        if ORDERED:
            write_part(parts, acc, tile - whole, piece, SPLIT)
        else:
            add_part(parts, acc, tile - whole)
        if arrive(semaphores, tile - whole, SPLIT):
            for part in range(0, BN, WIDTH):
                summed = sum_parts(parts, tile - whole, part, BM, BN, WIDTH, PARTS)
                summed = finished(
                    summed, of_rows, of_columns, bias, residual, kept, m, n + part, M, N, C_N, ACT, ROW_STEP,
                    COLUMN_STEP,
                )  # fmt: skip
                store_tile(c, summed, m, n + part, C_N)
