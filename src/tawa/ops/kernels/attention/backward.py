"""Backward attention in three kernels: row sums of O * dO, then dK and dV, then dQ. No atomics.

With P = exp2(scale * log2(e) * Q @ K^T - lse), masked, and delta = sum(O * dO) by rows:

    dV = P^T @ dO      dP = dO @ V^T      dS = P * (dP - delta)      dK = scale * dS^T @ Q      dQ = scale * dS @ K

Plain Triton; letters, layouts and masks as in `parts.py`. Beyond the last query the boxes are zero and add nothing.
Beyond the last key dS @ K adds zero, because the mask makes P finite there.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, key_range, load_rows, store_rows, visible


@triton.jit
def row_sums(o_desc, do_desc, delta_ptr, H, SQ, BM: tl.constexpr, D: tl.constexpr):
    """delta = sum(O * dO) by rows, (B, H, SQ)."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    o = load_rows(o_desc, head // H, head % H, tl.program_id(0) * BM, BM, D).to(tl.float32)
    do = load_rows(do_desc, head // H, head % H, tl.program_id(0) * BM, BM, D).to(tl.float32)
    tl.store(delta_ptr + head * SQ + rows, tl.sum(o * do, axis=1), mask=rows < SQ)


@triton.jit
def add_queries(
    dk, dv, k, v, q_desc, do_desc, lse_ptr, delta_ptr, b, h, H, keys, low, high, SQ, SK, diagonal, qk_scale,
    BM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds the contribution of the queries in [low, high) of one head to dK and dV; all tiles are keys by queries."""
    at = (b * H + h) * SQ
    for m in range(low, high, BM):
        rows = m + tl.arange(0, BM)
        q = load_rows(q_desc, b, h, m, BM, D)
        lse = tl.load(lse_ptr + at + rows, mask=rows < SQ, other=0.0)
        p = tl.exp2(tl.dot(k, q.T) * qk_scale - lse[None, :])
        if MASKED:
            p = tl.where(visible(rows[None, :], keys, diagonal, SK, CAUSAL, 0), p, 0.0)
        do = load_rows(do_desc, b, h, m, BM, D)
        dv = tl.dot(p.to(do.dtype), do, dv)
        delta = tl.load(delta_ptr + at + rows, mask=rows < SQ, other=0.0)
        ds = p * (tl.dot(v, do.T) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    return dk, dv


@triton.jit
def attention_dkdv(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, lse_ptr, delta_ptr, H, SQ, SK, diagonal, scale,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dK and dV of BN keys of one key head, summed over the queries of the GROUP heads that share it.

    Grid: blocks of keys, key heads of all batches. Causal: first the queries on the diagonal, masked, then those below
    it, without a mask.
    """
    n = tl.program_id(0) * BN
    key_heads = H // GROUP
    b, h = tl.program_id(1) // key_heads, tl.program_id(1) % key_heads
    keys = n + tl.arange(0, BN)[:, None]
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    k = load_rows(k_desc, b, h, n, BN, D)
    v = load_rows(v_desc, b, h, n, BN, D)
    low = 0
    full = 0
    if CAUSAL:
        low = max(n - diagonal, 0) // BM * BM  # the first query that sees the first of these keys
        full = (
            min(tl.cdiv(max(n + BN - 1 - diagonal, 0), BM), tl.cdiv(SQ, BM)) * BM
        )  # the first query that sees the last of them
        full = max(full, low)
    for member in range(GROUP):
        if CAUSAL:
            dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, lse_ptr, delta_ptr, b, h * GROUP + member, H, keys, low,
                                 full, SQ, SK, diagonal, scale * LOG2_E, BM, D, CAUSAL, True)  # fmt: skip
        dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, lse_ptr, delta_ptr, b, h * GROUP + member, H, keys, full,
                             SQ, SQ, SK, diagonal, scale * LOG2_E, BM, D, CAUSAL, False)  # fmt: skip
    store_rows(dk_desc, b, h, n, dk * scale, BN, D)
    store_rows(dv_desc, b, h, n, dv, BN, D)


@triton.jit
def add_keys(
    dq, q, do, lse, delta, k_desc, v_desc, b, h, rows, low, high, SK, diagonal, qk_scale,
    BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds the contribution of the keys in [low, high) to dQ."""
    for n in range(low, high, BN):
        k = load_rows(k_desc, b, h, n, BN, D)
        p = tl.exp2(tl.dot(q, k.T) * qk_scale - lse[:, None])
        if MASKED:
            keys = n + tl.arange(0, BN)[None, :]
            p = tl.where(visible(rows, keys, diagonal, SK, CAUSAL, 0), p, 0.0)
        v = load_rows(v_desc, b, h, n, BN, D)
        ds = p * (tl.dot(do, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq


@triton.jit
def attention_dq(
    q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, H, SQ, SK, diagonal, scale,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dQ of BM queries of one head. Grid: tiles of queries, heads of all batches."""
    m = tl.program_id(0) * BM
    head = tl.program_id(1)
    b, h = head // H, head % H
    rows = m + tl.arange(0, BM)
    q = load_rows(q_desc, b, h, m, BM, D)
    do = load_rows(do_desc, b, h, m, BM, D)
    lse = tl.load(lse_ptr + head * SQ + rows, mask=rows < SQ, other=0.0)
    delta = tl.load(delta_ptr + head * SQ + rows, mask=rows < SQ, other=0.0)
    dq = tl.zeros([BM, D], tl.float32)
    low, _, full_high, high = key_range(m, diagonal, SK, BM, BN, CAUSAL, 0)
    dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, b, h // GROUP, rows[:, None], low, full_high, SK, diagonal,
                  scale * LOG2_E, BN, D, CAUSAL, False)  # fmt: skip
    dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, b, h // GROUP, rows[:, None], full_high, high, SK, diagonal,
                  scale * LOG2_E, BN, D, CAUSAL, True)  # fmt: skip
    store_rows(dq_desc, b, h, m, dq * scale, BM, D)
