"""Backward attention: rows of logarithms and of sums of O * dO, then the gradients.

With P = exp2(scale * log2(e) * Q @ K^T - lse), masked, and delta = sum(O * dO) by rows:

    dV = P^T @ dO      dP = dO @ V^T      dS = P * (dP - delta)      dK = scale * dS^T @ Q      dQ = scale * dS @ K

The programs of `attention_dkdv` own keys. They add their parts of dQ up in memory, in no fixed order (ADDED: five dots
a block), or leave dQ to `attention_dq`, whose programs own queries: seven dots, and the same bits in each run.

Plain Triton; letters, layouts and masks as in `parts.py`. SP is SQ rounded up to a multiple of PADDED, the rows of a
head in the workspace: beyond the last query the boxes are zero, and so are lse and delta, which adds nothing. Beyond
the last key dS @ K adds zero, because the mask makes P finite there.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, key_range, load_rows, store_rows, visible

PADDED = 128
"""The rows of the workspace of a head are a multiple of this, and so of every block of queries."""
WARPS = tl.constexpr(8)
"""The warps for whose accumulators `by_registers` is a mere renaming."""
WIDTH = tl.constexpr(256)
"""Columns of the workspace for dQ."""


@triton.jit
def gradient_rows(
    o_desc, do_desc, lse_ptr, dlse_ptr, lse_rows_ptr, delta_ptr, dq_ptr, H, SQ, SP, BM: tl.constexpr, D: tl.constexpr
):
    """lse and delta = sum(O * dO) by rows, (B, H, SP), and zeros for the sums of dQ.

    dlse_ptr: the gradient of the natural logarithms, or None. The derivative of a logarithm by a score is the weight
    P, as for delta: dS = P * (dP - (delta - dlse)). dq_ptr: None where dQ is not added up.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    o = load_rows(o_desc, head // H, head % H, tl.program_id(0) * BM, BM, D).to(tl.float32)
    do = load_rows(do_desc, head // H, head % H, tl.program_id(0) * BM, BM, D).to(tl.float32)
    delta = tl.sum(o * do, axis=1)
    if dlse_ptr is not None:
        delta -= tl.load(dlse_ptr + head * SQ + rows, mask=rows < SQ, other=0.0)
    lse = tl.load(lse_ptr + head * SQ + rows, mask=rows < SQ, other=0.0)
    at = head.to(tl.int64) * SP + rows
    tl.store(delta_ptr + at, delta)
    tl.store(lse_rows_ptr + at, lse)
    if dq_ptr is not None:
        tl.store(dq_ptr + at[:, None] * D + tl.arange(0, D)[None, :], tl.zeros([BM, D], tl.float32))


@triton.jit
def by_registers(block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """An accumulator as rows of WIDTH numbers, in the order in which the registers of WARPS warps hold it.

    A wgmma gives each thread pairs of neighbours, in rows 8 apart, for every 8 columns. Stored in this order, the four
    numbers that a thread has of 8 columns are neighbours, and so are threads: no conflict of banks, no conversion.
    """
    DOWN: tl.constexpr = min(ROWS // 16, WARPS)
    BESIDE: tl.constexpr = WARPS // DOWN
    parts = block.reshape([ROWS // 16, 2, 8, BESIDE, COLUMNS // (8 * BESIDE), 4, 2])
    return parts.permute([3, 4, 0, 2, 5, 1, 6]).reshape([ROWS * COLUMNS // WIDTH, WIDTH])


@triton.jit
def from_registers(numbers, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The block (ROWS, COLUMNS) whose numbers are in the order of `by_registers`."""
    DOWN: tl.constexpr = min(ROWS // 16, WARPS)
    BESIDE: tl.constexpr = WARPS // DOWN
    parts = numbers.reshape([BESIDE, COLUMNS // (8 * BESIDE), ROWS // 16, 8, 4, 2, 2])
    return parts.permute([2, 5, 3, 0, 1, 4, 6]).reshape([ROWS, COLUMNS])


@triton.jit
def add_queries(
    dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, b, h, H, keys, low, high, SP, SK, diagonal, qk_scale,
    BM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """Adds the contribution of the queries in [low, high) of one head to dK and dV; all tiles are keys by queries."""
    at = (b * H + h) * SP
    for m in range(low, high, BM):
        rows = m + tl.arange(0, BM)
        q = load_rows(q_desc, b, h, m, BM, D)
        lse = tl.load(lse_ptr + at + rows)
        p = tl.exp2(tl.dot(k, q.T) * qk_scale - lse[None, :])
        if MASKED:
            p = tl.where(visible(rows[None, :], keys, diagonal, SK, CAUSAL, 0), p, 0.0)
        do = load_rows(do_desc, b, h, m, BM, D)
        dv = tl.dot(p.to(do.dtype), do, dv)
        delta = tl.load(delta_ptr + at + rows)
        ds = (p * (tl.dot(v, do.T) - delta[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, dk)
        if ADDED:
            dq_desc.atomic_add([(at + m) // BM * (BM * D // WIDTH), 0], by_registers(tl.dot(ds.T, k), BM, D))
    return dk, dv


@triton.jit
def attention_dkdv(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse_ptr, delta_ptr, H, SQ, SP, SK, diagonal, scale,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    ADDED: tl.constexpr,
):  # fmt: skip
    """dK and dV of BN keys of one key head, summed over the queries of the GROUP heads that share it.

    ADDED: also adds dQ / scale to float32 in memory, block by block in the order of `by_registers`.
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
            dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, b, h * GROUP + member, H,
                                 keys, low, full, SP, SK, diagonal, scale * LOG2_E, BM, D, CAUSAL, True,
                                 ADDED)  # fmt: skip
        dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, b, h * GROUP + member, H,
                             keys, full, SQ, SP, SK, diagonal, scale * LOG2_E, BM, D, CAUSAL, False,
                             ADDED)  # fmt: skip
    store_rows(dk_desc, b, h, n, dk * scale, BN, D)
    store_rows(dv_desc, b, h, n, dv, BN, D)


@triton.jit
def attention_dq_of_sums(sums_ptr, dq_desc, H, SP, scale, BM: tl.constexpr, D: tl.constexpr):
    """dQ of BM queries of one head from its sums. Grid: blocks of queries, heads of all batches."""
    m = tl.program_id(0) * BM
    head = tl.program_id(1)
    first = (head.to(tl.int64) * SP + m) * D
    block = from_registers(tl.load(sums_ptr + first + tl.arange(0, BM * D)), BM, D)
    store_rows(dq_desc, head // H, head % H, m, block * scale, BM, D)


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
    q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, H, SP, SK, diagonal, scale,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dQ of BM queries of one head. Grid: tiles of queries, heads of all batches."""
    m = tl.program_id(0) * BM
    head = tl.program_id(1)
    b, h = head // H, head % H
    rows = m + tl.arange(0, BM)
    q = load_rows(q_desc, b, h, m, BM, D)
    do = load_rows(do_desc, b, h, m, BM, D)
    lse = tl.load(lse_ptr + head * SP + rows)
    delta = tl.load(delta_ptr + head * SP + rows)
    dq = tl.zeros([BM, D], tl.float32)
    low, _, full_high, high = key_range(m, diagonal, SK, BM, BN, CAUSAL, 0)
    dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, b, h // GROUP, rows[:, None], low, full_high, SK, diagonal,
                  scale * LOG2_E, BN, D, CAUSAL, False)  # fmt: skip
    dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, b, h // GROUP, rows[:, None], full_high, high, SK, diagonal,
                  scale * LOG2_E, BN, D, CAUSAL, True)  # fmt: skip
    store_rows(dq_desc, b, h, m, dq * scale, BM, D)
