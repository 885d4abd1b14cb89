"""GEMM kernels with more structure: batches, two dots in one loop, two loops in a row, the loop inside an `if`.

Plain Triton. Shape letters as in `kernel.py`.
"""

import triton
import triton.language as tl

from tawa.demo.kernels.gemm import tile_of


@triton.jit
def gemm_batched_grid(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """C[z] = A[z] @ B[z]: the batch is a grid axis, the descriptors see all matrices stacked in rows."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    z = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([z * M + pm * BM, k])
        b = b_desc.load([z * K + k, pn * BN])
        acc = tl.dot(a, b, acc)
    c_desc.store([z * M + pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_batched_desc(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    B_T: tl.constexpr,
):
    """C[z] = A[z] @ B[z]: the batch is the first dimension of 3-D descriptors."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    z = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([z, pm * BM, k]).reshape(BM, BK)
        if B_T:
            b = b_desc.load([z, pn * BN, k]).reshape(BN, BK).T
        else:
            b = b_desc.load([z, k, pn * BN]).reshape(BK, BN)
        acc = tl.dot(a, b, acc)
    c_desc.store([z, pm * BM, pn * BN], acc.to(c_desc.dtype).reshape(1, BM, BN))


@triton.jit
def gemm_two_loops(
    a_desc,
    b_desc,
    a2_desc,
    b2_desc,
    c_desc,
    M,
    N,
    K,
    K2,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """C = A @ B + A2 @ B2: two consecutive K loops with one accumulator."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    for k in range(0, K2, BK):
        acc = tl.dot(a2_desc.load([pm * BM, k]), b2_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_lower_only(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """The tiles of C = A @ B^T that touch the lower triangle; the others are not written (K loop inside an `if`)."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    if (pm + 1) * BM > pn * BN:
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([pn * BN, k]).T, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_if_accumulate(
    a_desc,
    b_desc,
    c_desc,
    c0_desc,
    M,
    N,
    K,
    skip,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """C = C0 + A @ B, without the sum when `skip` is not 0: the `if` around the K loop yields the accumulator."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = c0_desc.load([pm * BM, pn * BN]).to(tl.float32)
    if skip == 0:
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_early_return(a_desc, b_desc, c_desc, limit, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Programs past `limit` return at once: Triton represents this as a graph of blocks, not as nested regions."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    if pm * BM >= limit:
        return
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def with_barrier(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A `tl.debug_barrier` in the loop, which only the consumer's warps execute."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
        tl.debug_barrier()
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
