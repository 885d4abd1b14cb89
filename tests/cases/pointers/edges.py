"""GEMMs in which out-of-bounds elements matter: a load must return there what it returns in stock Triton.

Plain Triton; letters as in `gemm.py`. A is (M, K), B is (K, N), C is (M, N), without gaps.
"""

import triton
import triton.language as tl

from tests.cases.pointers.gemm import store_tile


@triton.jit
def wraps_into_sums(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Sums of the columns of each tile of A @ B: rows that wrap around (`% M`) contribute, though no row is stored."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + pm * N + columns, tl.sum(acc, axis=0), mask=columns < N)


@triton.jit
def clamped(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Out-of-bounds rows and columns are clamped to the last ones (`minimum`) instead of masked."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = tl.minimum(pm * BM + tl.arange(0, BM), M - 1)
    columns = tl.minimum(pn * BN + tl.arange(0, BN), N - 1)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        at = k + ks
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=at[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
    store_tile(c_ptr, acc, pm, pn, M, N, N, 1, BM, BN)


@triton.jit
def shifted_base(
    a_ptr, b_ptr, c_ptr, shift, M, N, K, LINE, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """A begins `shift` elements into rows of LINE; `shift` is a run-time value and not a multiple of 16 bytes."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + shift + rows[:, None] * LINE + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store_tile(c_ptr, acc, pm, pn, M, N, N, 1, BM, BN)


@triton.jit
def reads_on(
    a_ptr, b_ptr, c_ptr, LINE, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """No mask along K, which BK does not divide: the last iteration reads past K in both operands, inside memory."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        at = k + ks
        a = tl.load(a_ptr + rows[:, None] * LINE + at[None, :], mask=rows[:, None] < M, other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)
        acc = tl.dot(a, b, acc)
    store_tile(c_ptr, acc, pm, pn, M, N, N, 1, BM, BN)


@triton.jit
def windows(
    a_ptr, b_ptr, c_ptr, STEP, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Rows of A overlap, like the windows of a convolution: row m is the K elements from m * STEP on, STEP < K."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        inside = (rows[:, None] < M) & (at[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * STEP + at[None, :], mask=inside, other=0.0)
        inside = (at[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=inside, other=0.0)
        acc = tl.dot(a, b, acc)
    store_tile(c_ptr, acc, pm, pn, M, N, N, 1, BM, BN)
