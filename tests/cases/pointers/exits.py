"""Kernels that return early: programs past the last row, skipped tiles, absent experts, short sequences.

Plain Triton; letters as in `gemm.py` and `attention.py`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, LOWEST
from tests.cases.pointers.attention import finish, softmax_step
from tests.cases.pointers.gemm import grouped_tile, store_tile


@triton.jit
def two_returns(
    a_ptr, b_ptr, c_ptr, skip_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """The grid is larger than M, and a list has the columns of tiles that are skipped."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    if pm * BM >= M:
        return
    rows = pm * BM + tl.arange(0, BM)
    if tl.load(skip_ptr + pn) != 0:
        return
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + ks[None, :]
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
def return_in_branch(
    a_ptr, b_ptr, c_ptr, skip_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """A return inside an `if`; the two other paths join after it with different first columns of A."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    first = 0
    if tl.load(skip_ptr + pn) != 0:
        if pm * BM >= M:
            return
        first = BK
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(first, K, BK):
        at = k + ks
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N),
                    other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    store_tile(c_ptr, acc, pm, pn, M, N, N, 1, BM, BN)


@triton.jit
def gemm_experts_elsewhere(
    a_ptr, b_ptr, c_ptr, weights_ptr, tokens_ptr, experts_ptr, padded_ptr, M, N, K, TOKENS, stride_am, stride_ak,
    stride_be, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP_M: tl.constexpr, TOP_K: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Like `gemm_experts`, on one of several machines: rows of experts on other machines (-1) become zero.

    Two returns: programs past the last row do nothing, those of an absent expert store zeros.
    """
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    if pm * BM >= tl.load(padded_ptr):
        return
    pairs = tl.load(tokens_ptr + pm * BM + tl.arange(0, BM)).to(tl.int64)
    valid = pairs < TOKENS
    columns = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + pairs[:, None] * stride_cm + columns[None, :] * stride_cn
    inside = valid[:, None] & (columns[None, :] < N)
    expert = tl.load(experts_ptr + pm).to(tl.int64)
    if expert == -1:
        tl.store(c_ptrs, tl.zeros((BM, BN), dtype=c_ptr.dtype.element_ty), mask=inside)
        return
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (pairs[:, None] // TOP_K * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + expert * stride_be + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=valid[:, None] & (ks[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k * BK) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if WEIGHTED:
        acc = acc * tl.load(weights_ptr + pairs, mask=valid, other=0.0)[:, None]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def attention_lengths(
    q_ptr, k_ptr, v_ptr, o_ptr, lengths_ptr, stride_qb, stride_qh, stride_qm, H, scale, BM: tl.constexpr,
    BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Causal self-attention of sequences that are padded to one length: tiles past the end of a sequence return."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b, h = head // H, head % H
    length = tl.load(lengths_ptr + b)
    if tile * BM >= length:
        return
    rows = tile * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    base = b * stride_qb + h * stride_qh
    q = tl.load(q_ptr + base + rows[:, None] * stride_qm + ds[None, :], mask=rows[:, None] < length, other=0.0)
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, tl.minimum(length, (tile + 1) * BM), BN):
        keys = n + tl.arange(0, BN)
        inside = keys < length
        places = base + keys[:, None] * stride_qm + ds[None, :]
        s = tl.dot(q, tl.trans(tl.load(k_ptr + places, mask=inside[:, None], other=0.0)))
        s = tl.where(inside[None, :] & (keys[None, :] <= rows[:, None]), s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, scale * LOG2_E)
        v = tl.load(v_ptr + places, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    acc, _ = finish(acc, m_i, l_i)
    o_ptrs = o_ptr + base + rows[:, None] * stride_qm + ds[None, :]
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < length)
