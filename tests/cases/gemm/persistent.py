"""Persistent GEMM kernels: each program iterates over many tiles; the inner trip count may vary by tile.

Plain Triton. Shape letters as in `kernel.py`.
"""

import triton
import triton.language as tl

from tawa.demo.kernels.gemm import load_b, tile_of


@triton.jit
def gemm_persistent_range(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """C = A @ B^T, persistent with Python's own `range` and a K loop over block numbers."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(tl.cdiv(K, BK)):
            a = a_desc.load([pm * BM, i * BK])
            b = b_desc.load([pn * BN, i * BK])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_persistent_while(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """C = A @ B^T, persistent with `while`."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    tile = tl.program_id(0)
    while tile < num_tiles:
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([pn * BN, k]).T, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
        tile += tl.num_programs(0)


@triton.jit
def gemm_persistent_device_desc(
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
    FLATTEN: tl.constexpr,
):
    """C = A @ B, persistent, descriptors made once per program."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    if B_T:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = a_desc.load([pm * BM, k])
            b = load_b(b_desc, k, pn * BN, B_T)
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_triangular(
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
    FLATTEN: tl.constexpr,
):
    """C = tril(A, -1 block) @ B: tile row pm sums only the columns [0, pm * BM), so the first row has no iteration."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, min(K, pm * BM), BK):
            a = a_desc.load([pm * BM, k])
            b = b_desc.load([k, pn * BN])
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_ragged(
    a_desc, b_desc, c_desc, trips_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """C = A @ B where each tile row reads from memory how many blocks of K it sums."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        trips = tl.load(trips_ptr + pm)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(trips):
            a = a_desc.load([pm * BM, i * BK])
            b = b_desc.load([i * BK, pn * BN])
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_counted(a_desc, b_desc, c_desc, counter_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile scheduler of the kernel's own: each tile is the result of a relaxed atomic."""
    num_n = tl.cdiv(N, BN)
    num_tiles = tl.cdiv(M, BM) * num_n
    tile = tl.atomic_add(counter_ptr, 1, sem="relaxed")
    while tile < num_tiles:
        pm, pn = tile // num_n, tile % num_n
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
        tile = tl.atomic_add(counter_ptr, 1, sem="relaxed")
