"""Attention as inference servers run it: keys in pages beside new keys, one list of pages for many rows, int8 scores.

Plain Triton. D is the head dimension, GROUP query heads share one key head; scores are in base 2.
"""

import triton
import triton.language as tl

from tests.cases.pointers.attention import finish, softmax_step


@triton.jit
def attention_prefill(
    q_ptr, k_ptr, v_ptr, o_ptr, k_pages_ptr, v_pages_ptr, table_ptr, starts_ptr, lengths_ptr, scale, stride_tb,
    stride_qt, stride_qh, stride_kt, stride_kh, stride_kp, stride_kph, stride_kpd, stride_kpn, stride_vp, stride_vph,
    stride_vpd, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    X: tl.constexpr,
):  # fmt: skip
    """Packed prompts that continue a cache: first the keys in pages, without a mask, then the new keys, causal.

    Q, K, V and O are (tokens, heads, D), prompts packed at `starts`; `lengths` counts the keys of a sequence with those
    in pages. K's pages are (pages, heads, D / X, PAGE, X), V's (pages, heads, D, PAGE); each key's page is looked up.
    """
    tile = tl.program_id(0)
    h = tl.program_id(1)
    b = tl.program_id(2)
    start = tl.load(starts_ptr + b)
    queries = tl.load(starts_ptr + b + 1) - start
    cached = tl.load(lengths_ptr + b) - queries
    if tile * BM >= queries:
        return
    head = h // GROUP
    rows = tile * BM + tl.arange(0, BM)
    keys = tl.arange(0, BN)
    ds = tl.arange(0, D)
    qk_scale = scale * 1.44269504
    q_offsets = (start + rows[:, None]) * stride_qt + h * stride_qh + ds[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < queries, other=0.0)
    m_i = tl.full([BM], -1.0e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, cached, BN):
        at = n + keys
        pages = tl.load(table_ptr + b * stride_tb + at // PAGE, mask=at < cached, other=0).to(tl.int64)
        k_offsets = (pages[None, :] * stride_kp + head * stride_kph + (ds[:, None] // X) * stride_kpd
                     + (at[None, :] % PAGE) * stride_kpn + ds[:, None] % X)  # fmt: skip
        v_offsets = pages[:, None] * stride_vp + head * stride_vph + ds[None, :] * stride_vpd + at[:, None] % PAGE
        k = tl.load(k_pages_ptr + k_offsets, mask=at[None, :] < cached, other=0.0)
        s = tl.where(at[None, :] < cached, tl.dot(q, k), float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, qk_scale)
        v = tl.load(v_pages_ptr + v_offsets, mask=at[:, None] < cached, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    k_ptrs = k_ptr + start * stride_kt + head * stride_kh + keys[None, :] * stride_kt + ds[:, None]
    v_ptrs = v_ptr + start * stride_kt + head * stride_kh + keys[:, None] * stride_kt + ds[None, :]
    for n in range(0, tl.minimum((tile + 1) * BM, queries), BN):
        n = tl.multiple_of(n, BN)
        k = tl.load(k_ptrs + n * stride_kt, mask=n + keys[None, :] < queries, other=0.0)
        s = tl.where(rows[:, None] >= n + keys[None, :], tl.dot(q, k), float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, qk_scale)
        v = tl.load(v_ptrs + n * stride_kt, mask=n + keys[:, None] < queries, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    acc, _ = finish(acc, m_i, l_i)
    tl.store(o_ptr + q_offsets, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < queries)


@triton.jit
def attention_pages(
    q_ptr, k_ptr, v_ptr, o_ptr, table_ptr, starts_ptr, lengths_ptr, scale, stride_tb, stride_qt, stride_qh, stride_kp,
    stride_kn, stride_kh, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """One kernel for prompts and single tokens: rows are queries times the GROUP heads of a key head, keys in pages.

    K and V are (pages, PAGE, heads, D); BN keys may come from several pages, or from a part of one.
    """
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b = tl.program_id(2)
    start = tl.load(starts_ptr + b)
    queries = tl.load(starts_ptr + b + 1) - start
    if tile * (BM // GROUP) >= queries:
        return
    length = tl.load(lengths_ptr + b)
    before = length - queries
    lanes = tl.arange(0, BM)
    rows = tile * (BM // GROUP) + lanes // GROUP
    ds = tl.arange(0, D)
    keys = tl.arange(0, BN)
    q_offsets = (start + rows[:, None]) * stride_qt + (head * GROUP + lanes[:, None] % GROUP) * stride_qh + ds[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < queries, other=0.0)
    m_i = tl.full([BM], -1.0e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    longest = tl.minimum(before + tile * (BM // GROUP) + (BM - 1) // GROUP + 1, length)
    for j in range(tl.cdiv(longest, BN)):
        at = j * BN + keys
        pages = tl.load(table_ptr + b * stride_tb + at // PAGE, mask=at < length, other=0).to(tl.int64)
        v_offsets = pages[:, None] * stride_kp + head * stride_kh + ds[None, :] + (at % PAGE)[:, None] * stride_kn
        k_offsets = pages[None, :] * stride_kp + head * stride_kh + ds[:, None] + (at % PAGE)[None, :] * stride_kn
        k = tl.load(k_ptr + k_offsets, mask=(at < longest)[None, :], other=0.0)
        v = tl.load(v_ptr + v_offsets, mask=(at < longest)[:, None], other=0.0)
        s = tl.where(at[None, :] <= before + rows[:, None], tl.dot(q, k), float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, scale * 1.44269504)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    acc, _ = finish(acc, m_i, l_i)
    tl.store(o_ptr + q_offsets, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < queries)


@triton.jit
def attention_int8(
    q_ptr, k_ptr, v_ptr, o_ptr, qs_ptr, ks_ptr, stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, H,
    SQ, SK, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Q and K are int8 with one scale for each block of rows, and masked without `other`; V is fp16.

    Q's scales contain the scale of the scores, in base 2.
    """
    tile = tl.program_id(0)
    head = tl.program_id(1)
    blocks = tl.cdiv(SK, BN)
    rows = tile * BM + tl.arange(0, BM)
    keys = tl.arange(0, BN)
    ds = tl.arange(0, D)
    q_ptrs = q_ptr + head * stride_qh + rows[:, None] * stride_qm + ds[None, :]
    k_ptrs = k_ptr + head // GROUP * stride_kh + keys[None, :] * stride_kn + ds[:, None]
    v_ptrs = v_ptr + head // GROUP * stride_vh + keys[:, None] * stride_vn + ds[None, :]
    ks_ptrs = ks_ptr + head // GROUP * blocks
    q = tl.load(q_ptrs, mask=rows[:, None] < SQ)
    q_scale = tl.load(qs_ptr + head * tl.cdiv(SQ, BM) + tile)
    m_i = tl.full([BM], -1.0e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = tl.minimum((tile + 1) * BM, SK) if CAUSAL else SK
    for n in range(0, end, BN):
        n = tl.multiple_of(n, BN)
        k = tl.load(k_ptrs, mask=keys[None, :] < SK - n)
        s = tl.dot(q, k).to(tl.float32) * (q_scale * tl.load(ks_ptrs))
        seen = keys[None, :] < SK - n
        if CAUSAL:
            seen = seen & (rows[:, None] >= n + keys[None, :])
        s = tl.where(seen, s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, 1.0)
        v = tl.load(v_ptrs, mask=keys[:, None] < SK - n, other=0.0)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(tl.float16), v)
        k_ptrs += BN * stride_kn
        v_ptrs += BN * stride_vn
        ks_ptrs += 1
    acc, _ = finish(acc, m_i, l_i)
    o_ptrs = o_ptr + head * stride_qh + rows[:, None] * stride_qm + ds[None, :]
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < SQ)
