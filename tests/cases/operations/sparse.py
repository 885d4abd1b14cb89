"""Attention over listed blocks of keys, forward and backward, through pointers.

Plain Triton, in the style of packages for sparse attention: every token has a list of blocks of BN keys, the same for
the GROUP query heads of a key head. Forward and for dQ, a program has the heads of one token as rows; for dK and dV, a
program has one block of keys, and gathers the rows of the tokens that chose it. Q, O and their gradients are
(tokens, HK * GROUP, D), K and V (tokens, HK, D), causal; scores are in base 2, as are the logarithms of the sums.
"""

import triton
import triton.language as tl

from tests.cases.pointers.attention import finish, softmax_step


@triton.jit
def sparse_forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, blocks_ptr, scale, T, HK, COUNT, stride_qt, stride_kt, stride_kh,
    GROUP: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One token, GROUP heads: the listed blocks, -1 for none."""
    t = tl.program_id(0)
    head = tl.program_id(1)
    lanes = tl.arange(0, GROUP)
    ds = tl.arange(0, D)
    keys = tl.arange(0, BN)
    q_offsets = t.to(tl.int64) * stride_qt + (head * GROUP + lanes[:, None]) * D + ds[None, :]
    q = tl.load(q_ptr + q_offsets)
    k_ptr += head * stride_kh
    v_ptr += head * stride_kh
    blocks_ptr += (t * HK + head) * COUNT
    m_i = tl.full([GROUP], -1.0e30, tl.float32)
    l_i = tl.zeros([GROUP], tl.float32)
    acc = tl.zeros([GROUP, D], tl.float32)
    for i in range(COUNT):
        start = tl.load(blocks_ptr + i).to(tl.int32) * BN
        if start >= 0 and start <= t:
            at = start + keys
            k = tl.load(k_ptr + at[None, :] * stride_kt + ds[:, None], mask=at[None, :] < T, other=0.0)
            v = tl.load(v_ptr + at[:, None] * stride_kt + ds[None, :], mask=at[:, None] < T, other=0.0)
            s = tl.where(at[None, :] <= t, tl.dot(q, k), float("-inf"))
            p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, scale * 1.44269504)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    acc, lse = finish(acc, m_i, l_i)
    tl.store(o_ptr + q_offsets, acc.to(o_ptr.dtype.element_ty))
    tl.store(lse_ptr + t * HK * GROUP + head * GROUP + lanes, lse)


@triton.jit
def sparse_gradient_queries(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, blocks_ptr, scale, T, HK, COUNT, stride_qt, stride_kt,
    stride_kh, GROUP: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """dQ of one token, GROUP heads; every list is full, and its blocks begin before the token."""
    t = tl.program_id(0)
    head = tl.program_id(1)
    lanes = tl.arange(0, GROUP)
    ds = tl.arange(0, D)
    keys = tl.arange(0, BN)
    q_offsets = t.to(tl.int64) * stride_qt + (head * GROUP + lanes[:, None]) * D + ds[None, :]
    q = tl.load(q_ptr + q_offsets)
    do = tl.load(do_ptr + q_offsets)
    lse = tl.load(lse_ptr + t * HK * GROUP + head * GROUP + lanes)
    delta = tl.load(delta_ptr + t * HK * GROUP + head * GROUP + lanes)
    k_ptr += head * stride_kh
    v_ptr += head * stride_kh
    blocks_ptr += (t * HK + head) * COUNT
    dq = tl.zeros([GROUP, D], tl.float32)
    for i in range(COUNT):
        at = tl.load(blocks_ptr + i).to(tl.int32) * BN + keys
        k = tl.load(k_ptr + at[None, :] * stride_kt + ds[:, None], mask=at[None, :] < T, other=0.0)
        v = tl.load(v_ptr + at[None, :] * stride_kt + ds[:, None], mask=at[None, :] < T, other=0.0)
        s = tl.dot(q, k) * (scale * 1.44269504)
        p = tl.where(at[None, :] <= t, tl.math.exp2(s - lse[:, None]), 0.0)
        dp = tl.dot(do, v)
        dscores = p * (dp - delta[:, None])
        dq += tl.dot(dscores.to(k.dtype), tl.trans(k))
    tl.store(dq_ptr + q_offsets, (dq * scale).to(dq_ptr.dtype.element_ty))


@triton.jit
def sparse_gradient_keys(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, starts_ptr, tokens_ptr, scale, T, H, stride_qt,
    stride_kt, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """dK and dV of one block of keys: the tokens that chose it are tokens[starts[block] .. starts[block + 1]]."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    keys = block * BN + tl.arange(0, BN)
    ds = tl.arange(0, D)
    k_offsets = keys[:, None] * stride_kt + head * D + ds[None, :]
    k = tl.load(k_ptr + k_offsets, mask=keys[:, None] < T, other=0.0)
    v = tl.load(v_ptr + k_offsets, mask=keys[:, None] < T, other=0.0)
    first = tl.load(starts_ptr + block)
    last = tl.load(starts_ptr + block + 1)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    for g in range(GROUP):
        h = head * GROUP + g
        for i in range(first, last, BM):
            lanes = i + tl.arange(0, BM)
            rows = tl.load(tokens_ptr + lanes, mask=lanes < last, other=0)
            q_offsets = rows[:, None] * stride_qt + h * D + ds[None, :]
            q = tl.load(q_ptr + q_offsets, mask=lanes[:, None] < last, other=0.0)
            do = tl.load(do_ptr + q_offsets, mask=lanes[:, None] < last, other=0.0)
            lse = tl.load(lse_ptr + rows * H + h, mask=lanes < last, other=0.0)
            delta = tl.load(delta_ptr + rows * H + h, mask=lanes < last, other=0.0)
            s = tl.dot(k, tl.trans(q)) * (scale * 1.44269504)
            seen = (keys[:, None] <= rows[None, :]) & (lanes[None, :] < last)
            p = tl.where(seen, tl.math.exp2(s - lse[None, :]), 0.0)
            dv += tl.dot(p.to(do.dtype), do)
            dp = tl.dot(v, tl.trans(do))
            dscores = p * (dp - delta[None, :])
            dk += tl.dot(dscores.to(q.dtype), q)
    tl.store(dk_ptr + k_offsets, (dk * scale).to(dk_ptr.dtype.element_ty), mask=keys[:, None] < T)
    tl.store(dv_ptr + k_offsets, dv.to(dv_ptr.dtype.element_ty), mask=keys[:, None] < T)
