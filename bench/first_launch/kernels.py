"""Kernels of the bench that no case of the tests has."""

import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, BLOCK: tl.constexpr):
    """The smallest launch, with which a process gets ready."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


@triton.jit
def gemm_int8(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C[M, N] = A[M, K] @ B[N, K]^T, 8-bit integers with 32-bit sums; the tile divides all sizes."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a = a_ptr + rows[:, None] * K + ks[None, :]
    b = b_ptr + columns[None, :] * K + ks[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(a + k), tl.load(b + k), acc, out_dtype=tl.int32)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)
