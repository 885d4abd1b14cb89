"""Persistent GEMM with pointer loads: a loop over tiles around the loop over K.

Plain Triton; letters as in `gemm.py`, and PROGRAMS the number of programs. In the form of PyTorch's announcement of
warp specialisation in Triton ("Enabling advanced GPU features in PyTorch", 2025), where the configuration asks for
``num_consumer_groups=2, num_buffers_warp_spec=3``.
"""

import triton
import triton.language as tl

from tests.cases.pointers.gemm import grouped_tile, store_tile

ANNOUNCED = {"num_stages": 2, "num_warps": 4, "num_consumer_groups": 2, "num_buffers_warp_spec": 3}
"""Options of the announced configuration, for the tile 128 x 256 x 64; there, `num_warps` is that of each group."""


@triton.jit
def gemm_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Program p computes the tiles p, p + PROGRAMS, ...; the pointers are recomputed for each tile."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    ks = tl.arange(0, BK)
    for tile_id in range(tl.program_id(axis=0), num_tiles, PROGRAMS):
        pm, pn = grouped_tile(tile_id, M, N, BM, BN, GROUP_M)
        rows = (pm * BM + tl.arange(0, BM)) % M
        columns = (pn * BN + tl.arange(0, BN)) % N
        a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
        b_ptrs = b_ptr + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
            b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += BK * stride_ak
            b_ptrs += BK * stride_bk
        store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_persistent_fused(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Triton's persistent tutorial 09 without descriptors: out-of-bounds rows become row 0, the store is masked."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile_id in tl.range(tl.program_id(axis=0), num_tiles, PROGRAMS, flatten=True):
        pm, pn = grouped_tile(tile_id, M, N, BM, BN, GROUP_M)
        rows = pm * BM + tl.arange(0, BM)
        columns = pn * BN + tl.arange(0, BN)
        rows = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), BM), BM)
        columns = tl.max_contiguous(tl.multiple_of(tl.where(columns < N, columns, 0), BN), BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            ks = k * BK + tl.arange(0, BK)
            a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
            b_ptrs = b_ptr + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
            a = tl.load(a_ptrs, mask=ks[None, :] < K, other=0.0)
            b = tl.load(b_ptrs, mask=ks[:, None] < K, other=0.0)
            acc = tl.dot(a, b, acc)
        store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)
