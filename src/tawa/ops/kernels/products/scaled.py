"""C = (A * scales of A) @ (B * scales of B) + bias in 8-bit floating point. Plain Triton.

Letters: A (M, K) and B (N, K), both with K innermost; C (M, N). Blocks of BM x BN x BK. A scale is one number for the
whole operand, one for each row of it, or one for each 128 elements of K: of a row, or of 128 rows. The first two are
multiplied after the loop. The dot of each 128 elements is scaled, if it must be, and added in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.epilogue import tile_at, with_bias, with_factors

TENSOR = tl.constexpr(0)
ROW = tl.constexpr(1)
ROW_BLOCK = tl.constexpr(2)
BLOCK = tl.constexpr(3)
SPAN = tl.constexpr(128)
"""Elements of K, and rows, that share a scale."""


@triton.jit
def factors_at(scale, first, rows, limit, stride, step, KIND: tl.constexpr, UNIT: tl.constexpr):
    """The scales of a block, in a step of 128 elements of K: a tensor for its rows, or one number."""
    if KIND == ROW_BLOCK:
        at = rows if UNIT else rows.to(tl.int64) * stride
        return tl.load(scale + at + step, mask=rows < limit, other=0.0)
    elif KIND == BLOCK:
        return tl.load(scale + (first // SPAN).to(tl.int64) * stride + step)
    else:
        return 1.0


@triton.jit
def promoted(acc, product, of_a, of_b, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr):
    """acc + product * scales; numbers are multiplied with each other first."""
    if A_SCALE == ROW_BLOCK:
        if B_SCALE == ROW_BLOCK:
            return acc + product * of_a[:, None] * of_b[None, :]
        elif B_SCALE == BLOCK:
            return acc + product * (of_a * of_b)[:, None]
        else:
            return acc + product * of_a[:, None]
    elif A_SCALE == BLOCK:
        if B_SCALE == ROW_BLOCK:
            return acc + product * (of_a * of_b)[None, :]
        elif B_SCALE == BLOCK:
            return acc + product * (of_a * of_b)
        else:
            return acc + product * of_a
    else:
        if B_SCALE == ROW_BLOCK:
            return acc + product * of_b[None, :]
        elif B_SCALE == BLOCK:
            return acc + product * of_b
        else:
            return acc + product


@triton.jit
def finished(
    acc, scale_a, scale_b, bias, m, n, M, N, a_stride, b_stride, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr,
    BIAS: tl.constexpr,
):  # fmt: skip
    """The sums of a block with what is left to multiply, and with the bias."""
    if A_SCALE < ROW_BLOCK:
        acc = with_factors(acc, scale_a, m, M, a_stride, 0)
    if B_SCALE < ROW_BLOCK:
        acc = with_factors(acc, scale_b, n, N, b_stride, 1)
    if BIAS:
        acc = with_bias(acc, bias, n, N, 1)
    return acc


@triton.jit
def put(c, acc, m, n, M, N, BM: tl.constexpr, BN: tl.constexpr, C_TMA: tl.constexpr):
    """Stores a block. C_TMA: through a descriptor; else C is a pointer to contiguous rows."""
    if C_TMA:
        c.store([m, n], acc.to(c.dtype))
    else:
        rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
        at = c + rows.to(tl.int64)[:, None] * N + columns[None, :]
        tl.store(at, acc.to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])


@triton.jit
def scaled_mm(
    a, b, c, scale_a, scale_b, bias, M, N, K, a_stride, a_step, b_stride, b_step,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, A_SCALE: tl.constexpr,
    B_SCALE: tl.constexpr, A_UNIT: tl.constexpr, B_UNIT: tl.constexpr, BIAS: tl.constexpr, C_TMA: tl.constexpr,
):  # fmt: skip
    """One tile of C.

    a_stride, a_step: from the scale of a row (or of 128) to that of the next, and from a step of K to the next; b_*: of
    B. A_UNIT, B_UNIT: the stride of ROW_BLOCK is 1; then scales arrive with their tile.
    """
    tl.static_assert(BK == SPAN)
    row, column = tile_at(tl.program_id(0), M, N, BM, BN, GROUP)
    m, n = row * BM, column * BN
    rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        x = a.load([m, step * BK])
        y = b.load([n, step * BK])
        of_a = factors_at(scale_a, m, rows, M, a_stride, step * a_step, A_SCALE, A_UNIT)
        of_b = factors_at(scale_b, n, columns, N, b_stride, step * b_step, B_SCALE, B_UNIT)
        acc = promoted(acc, tl.dot(x, y.T), of_a, of_b, A_SCALE, B_SCALE)
    acc = finished(acc, scale_a, scale_b, bias, m, n, M, N, a_stride, b_stride, A_SCALE, B_SCALE, BIAS)
    put(c, acc, m, n, M, N, BM, BN, C_TMA)
