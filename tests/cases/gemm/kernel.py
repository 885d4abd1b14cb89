"""GEMM kernels as Triton users write them: plain `@triton.jit`, without Tawa.

This file: one tile per program; descriptors from the host or made in the kernel. `gemm_tile`, `gemm_persistent`,
`gemm_gate_up` and `dynamic_tiles` are the demo's (`tawa.demo.kernels.gemm`).
`persistent.py`: a loop over tiles. `structure.py`: batches, several dots, several loops, ifs. `epilogues.py`: the code
after the loop. `declined.py`: kernels that must be left to stock Triton.

Shape letters: M rows of C, N columns of C, K the summed dimension; BM, BN, BK the tile. ``A_T``: A is stored K x M.
``B_T``: B is stored N x K (K-major). Every kernel sums in float32 and casts to the element type of C.
"""

import triton
import triton.language as tl

from tawa.demo.kernels.gemm import load_a, load_b, tile_of


@triton.jit
def gemm_plus_equals(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A @ B written with ``+=``, a 2-D grid and a loop over block numbers."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.cdiv(K, BK)):
        acc += tl.dot(a_desc.load([pm * BM, i * BK]), b_desc.load([i * BK, pn * BN]))
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_integers(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
    A_T: tl.constexpr, B_T: tl.constexpr,
):  # fmt: skip
    """C = A @ B in int8, summed in int32."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, K, BK):
        a = load_a(a_desc, pm * BM, k, A_T)
        b = load_b(b_desc, k, pn * BN, B_T)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    c_desc.store([pm * BM, pn * BN], acc)


@triton.jit
def gemm_precise(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """C = A @ B^T in fp8 with the partial sums kept in float32 registers (no fast accumulation)."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([pn * BN, k])
        acc = tl.dot(a, b.T, acc, max_num_imprecise_acc=32)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_device_desc(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    B_T: tl.constexpr,
):
    """C = A @ B, one tile per program, descriptors made in the kernel."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    if B_T:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = load_b(b_desc, k, pn * BN, B_T)
        acc = tl.dot(a, b, acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_split_k(
    a_desc,
    b_desc,
    c_ptr,
    M,
    N,
    K,
    stride_cz,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Partial sums C[s] of SPLIT slices of K; the loop starts and steps at run-time values."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    s = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(s * BK, K, SPLIT * BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    at = c_ptr + s * stride_cz + rows[:, None] * N + columns[None, :]
    tl.store(at, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))
