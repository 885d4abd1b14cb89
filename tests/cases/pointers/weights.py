"""Weight-only GEMM: A in fp16 or bf16, B in fewer bits, widened in the kernel before the dot.

Plain Triton, in the style of quantised linear layers; letters as in `gemm.py`. B is (K, N); `scale` has one number for
each column, or for each group of GROUP rows and each column.
"""

import triton
import triton.language as tl

from tests.cases.pointers.gemm import grouped_tile, store_tile


@triton.jit
def gemm_weights(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, SCALE_FIRST: tl.constexpr,
):  # fmt: skip
    """int8 or fp8 weights. SCALE_FIRST: B is scaled before the dot, else the sums are scaled after the loop."""
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
    scale = tl.load(scale_ptr + columns)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        if SCALE_FIRST:
            wide = (b.to(tl.float32) * scale[None, :]).to(a.dtype)
        else:
            wide = b.to(a.dtype)
        acc = tl.dot(a, wide, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if not SCALE_FIRST:
        acc = acc * scale[None, :]
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_int4(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Weights of four bits, biased by 8: byte (k, n) of B has the rows 2 k (low half) and 2 k + 1; GROUP % BK == 0."""
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + ((ks[:, None] // 2) * stride_bk + columns[None, :] * stride_bn)
    shifts = (ks % 2) * 4
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        packed = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0)
        scale = tl.load(scale_ptr + (k * BK // GROUP) * N + columns)
        b = ((packed.to(tl.int32) >> shifts[:, None]) & 15) - 8
        acc = tl.dot(a, (b.to(tl.float32) * scale[None, :]).to(a.dtype), acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK // 2 * stride_bk
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_packed(
    a_ptr, b_ptr, scale_ptr, zero_ptr, c_ptr, M: int, N: int, K: int, stride_am: int, stride_ak: int, stride_bk: int,
    stride_bn: int, stride_cm: int, stride_cn: int, stride_sg: int, stride_sn: int,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Weights of four bits, eight rows to a word of 32: rows 8 k to 8 k + 7 of column n are in B (k, n), lowest first.

    A zero and a scale for each group of GROUP rows and each column; GROUP % BK == 0. The parameters are annotated, so
    that Triton does not specialise the kernel on strides that are 1.
    """
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + ((ks[:, None] // 8) * stride_bk + columns[None, :] * stride_bn)
    shifts = (ks % 8) * 4
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k * BK), other=0.0)
        words = tl.load(b_ptrs, mask=(ks[:, None] < K - k * BK) & (columns[None, :] < N), other=0)
        at = (k * BK // GROUP) * stride_sg + columns * stride_sn
        scale = tl.load(scale_ptr + at, mask=columns < N, other=0.0)
        zero = tl.load(zero_ptr + at, mask=columns < N, other=0.0)
        b = ((words >> shifts[:, None]) & 15).to(tl.float32)
        acc = tl.dot(a, ((b - zero[None, :]) * scale[None, :]).to(a.dtype), acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK // 8 * stride_bk
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)
