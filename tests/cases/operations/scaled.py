"""fp8 products with a scale for each block of 128: a GEMM, and a mixture of experts with lists of tokens.

Plain Triton, in the style of inference servers and of fp8 training: A is (M, K) with scales (M, K / 128), B is (N, K)
with scales (N / 128, K / 128); the dot of each iteration is scaled and added in fp32.
"""

import triton
import triton.language as tl


@triton.jit
def gemm_scaled(
    a_ptr, b_ptr, c_ptr, as_ptr, bs_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_asm, stride_ask, stride_bsn, stride_bsk, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP_M: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """ROWS: B's scale is looked up for every column, so that BN may be any; otherwise it is one number of the tile."""
    pid = tl.program_id(axis=0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    width = GROUP_M * num_n
    first = pid // width * GROUP_M
    rows_here = min(num_m - first, GROUP_M)
    pm = first + pid % width % rows_here
    pn = pid % width // rows_here
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    as_ptrs = as_ptr + rows * stride_asm
    if ROWS:
        bs_ptrs = bs_ptr + columns // GROUP * stride_bsn
    else:
        bs_ptrs = bs_ptr + pn * BN // GROUP * stride_bsn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        group = k * BK // GROUP
        a_scale = tl.load(as_ptrs + group * stride_ask)
        b_scale = tl.load(bs_ptrs + group * stride_bsk)
        if ROWS:
            acc += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        else:
            acc += tl.dot(a, b) * a_scale[:, None] * b_scale
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def experts_scaled(
    a_ptr, b_ptr, c_ptr, as_ptr, bs_ptr, weights_ptr, tokens_ptr, experts_ptr, padded_ptr, N, K, M, TOKENS, stride_am,
    stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk,
    stride_bsn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, TOP_K: tl.constexpr,
    GROUP: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """Rows of A are gathered by a sorted list of tokens; experts: of each block of BM rows, -1 for another machine's.

    The lists are as in `tests.cases.pointers.groups.gemm_experts`.
    """
    pid = tl.program_id(axis=0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    width = GROUP_M * num_n
    first = pid // width * GROUP_M
    rows_here = min(num_m - first, GROUP_M)
    pm = first + pid % width % rows_here
    pn = pid % width // rows_here
    padded = tl.load(padded_ptr)
    if pm * BM >= padded:
        return
    pairs = tl.load(tokens_ptr + pm * BM + tl.arange(0, BM).to(tl.int64)).to(tl.int64)
    valid = pairs < TOKENS
    expert = tl.load(experts_ptr + pm).to(tl.int64)
    shown = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * pairs[:, None] + stride_cn * shown[None, :]
    inside = valid[:, None] & (shown[None, :] < N)
    if expert == -1:
        tl.store(c_ptrs, tl.zeros((BM, BN), dtype=c_ptr.dtype.element_ty), mask=inside)
        return
    columns = (pn * BN + tl.arange(0, BN).to(tl.int64)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (pairs[:, None] // TOP_K * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + expert * stride_be + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
    as_ptrs = as_ptr + (pairs // TOP_K) * stride_asm
    bs_ptrs = bs_ptr + expert * stride_bse + columns // GROUP * stride_bsn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        if EVEN_K:
            a = tl.load(a_ptrs, mask=valid[:, None], other=0.0)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=valid[:, None] & (ks[None, :] < K - k * BK), other=0.0)
            b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        group = k * BK // GROUP
        a_scale = tl.load(as_ptrs + group * stride_ask, mask=valid, other=0.0)
        b_scale = tl.load(bs_ptrs + group * stride_bsk)
        acc += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    acc = acc * tl.load(weights_ptr + pairs, mask=valid, other=0)[:, None]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)
