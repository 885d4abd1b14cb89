"""The backward pass of FlexAttention's template: programs for dK and dV beside programs for dQ, by lists of blocks.

Plain Triton, in the style of torch.compile's template. Each program walks two lists of blocks of BLOCK rows or keys:
those in which the mask must be applied, then those that are seen whole; offsets are carried by the loops. Causal with a
window, GROUP query heads share one key head. Q, dO, O's gradients are (B, H, S, D), K and V (B, HK, S, D). ALIBI:
scores fall with the distance, by the number of the head. CAP: scores become ``CAP · tanh(score / CAP)``, 0 for none.
documents_ptr: the number of each token's document, in 64 bits, outside of which nothing is seen; None for one document.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.cases.pointers.attention import next_offset


@triton.jit
def modified(s, scale, distance, h, ALIBI: tl.constexpr, CAP: tl.constexpr):
    """Scores in base 2, and the factor of their gradients."""
    if CAP > 0:
        t = libdevice.tanh(s * (scale / CAP))
        s, slope = t * (CAP * 1.44269504), 1.0 - t * t  # pyright: ignore[reportOperatorIssue]
    else:
        s, slope = s * (scale * 1.44269504), 1.0
    if ALIBI:
        s -= tl.abs(distance) * (tl.math.exp2((h + 1) * -0.5) * 1.44269504)
    return s, slope


@triton.jit
def gradient_queries(
    dq, q, do, delta, lse, k_base, v_base, stride_kn, blocks_ptr, count, rows, h, SK, scale, documents_ptr,
    BLOCK: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr,
    CAP: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """dQ's part of the listed blocks of keys. FULL: no mask but the end of the keys."""
    keys = tl.load(blocks_ptr) * BLOCK + tl.arange(0, BN)
    ds = tl.arange(0, D)
    kt_ptrs = k_base + keys[None, :] * stride_kn + ds[:, None]
    vt_ptrs = v_base + keys[None, :] * stride_kn + ds[:, None]
    steps: tl.constexpr = BLOCK // BN
    for i in range(tl.minimum(count * steps, tl.maximum(tl.cdiv(SK, BN), 1))):
        kt = tl.load(kt_ptrs, mask=keys[None, :] < SK, other=0.0)
        s, slope = modified(tl.dot(q, kt), scale, rows[:, None] - keys[None, :], h, ALIBI, CAP)
        seen = keys[None, :] < SK
        if not FULL:
            seen = seen & (keys[None, :] <= rows[:, None]) & (keys[None, :] > rows[:, None] - WINDOW)
            if documents_ptr is not None:
                seen = seen & (tl.load(documents_ptr + rows[:, None]) == tl.load(documents_ptr + keys[None, :]))
        p = tl.math.exp2(tl.where(seen, s, float("-inf")) - lse)
        vt = tl.load(vt_ptrs, mask=keys[None, :] < SK, other=0.0)
        dp = tl.dot(do, vt)
        dscores = tl.where(seen, p * (dp - delta[:, None]) * slope, 0.0)
        dq = tl.dot(dscores.to(kt.dtype), tl.trans(kt), dq)
        offset = next_offset(i, blocks_ptr, count, BLOCK, BN)
        kt_ptrs += offset * stride_kn
        vt_ptrs += offset * stride_kn
        keys += offset
    return dq


@triton.jit
def gradient_keys(
    dk, dv, k, v, q_base, do_base, lse_ptr, delta_ptr, stride_qm, blocks_ptr, count, keys, h, SQ, scale,
    documents_ptr, BLOCK: tl.constexpr, BM: tl.constexpr, D: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr,
    CAP: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """dK's and dV's part of the listed blocks of rows; scores are transposed."""
    rows = tl.load(blocks_ptr) * BLOCK + tl.arange(0, BM)
    ds = tl.arange(0, D)
    qt_ptrs = q_base + rows[None, :] * stride_qm + ds[:, None]
    do_ptrs = do_base + rows[:, None] * stride_qm + ds[None, :]
    steps: tl.constexpr = BLOCK // BM
    for i in range(tl.minimum(count * steps, tl.maximum(tl.cdiv(SQ, BM), 1))):
        qt = tl.load(qt_ptrs, mask=rows[None, :] < SQ, other=0.0)
        lse = tl.load(lse_ptr + rows, mask=rows < SQ, other=0.0)
        s, slope = modified(tl.dot(k, qt), scale, rows[None, :] - keys[:, None], h, ALIBI, CAP)
        seen = rows[None, :] < SQ
        if not FULL:
            seen = seen & (keys[:, None] <= rows[None, :]) & (keys[:, None] > rows[None, :] - WINDOW)
            if documents_ptr is not None:
                seen = seen & (tl.load(documents_ptr + rows[None, :]) == tl.load(documents_ptr + keys[:, None]))
        p = tl.math.exp2(tl.where(seen, s, float("-inf")) - lse[None, :])
        do = tl.load(do_ptrs, mask=rows[:, None] < SQ, other=0.0)
        dv = tl.dot(p.to(do.dtype), do, dv)
        delta = tl.load(delta_ptr + rows, mask=rows < SQ, other=0.0)
        dp = tl.dot(v, tl.trans(do))
        dscores = tl.where(seen, p * (dp - delta[None, :]) * slope, 0.0)
        dk = tl.dot(dscores.to(qt.dtype), tl.trans(qt), dk)
        offset = next_offset(i, blocks_ptr, count, BLOCK, BM)
        qt_ptrs += offset * stride_qm
        do_ptrs += offset * stride_qm
        rows += offset
    return dk, dv


@triton.jit
def flex_gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, counts_ptr, blocks_ptr, full_counts_ptr,
    full_blocks_ptr, q_counts_ptr, q_blocks_ptr, full_q_counts_ptr, full_q_blocks_ptr, documents_ptr, stride_qh,
    stride_qm, stride_kh, stride_kn, SQ, SK, ROW_BLOCKS, KEY_BLOCKS, scale, GROUP: tl.constexpr, BM1: tl.constexpr,
    BN1: tl.constexpr, BM2: tl.constexpr, BN2: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WINDOW: tl.constexpr,
    ALIBI: tl.constexpr, CAP: tl.constexpr,
):  # fmt: skip
    """Lists are the same for all heads: of each block of rows its blocks of keys, of keys its blocks of rows.

    The first programs have BN1 keys each, the others BM2 rows of a query head.
    """
    pid = tl.program_id(0)
    z = tl.program_id(1)
    of_keys = tl.cdiv(SK, BN1)
    of_rows = tl.cdiv(SQ, BM2)
    ds = tl.arange(0, D)
    k_base = k_ptr + z * stride_kh
    v_base = v_ptr + z * stride_kh
    if pid >= of_keys:
        at = pid - of_keys
        h = z * GROUP + at // of_rows
        tile = at % of_rows
        rows = tile * BM2 + tl.arange(0, BM2)
        inside = rows[:, None] < SQ
        q_offsets = h * stride_qh + rows[:, None] * stride_qm + ds[None, :]
        q = tl.load(q_ptr + q_offsets, mask=inside, other=0.0)
        do = tl.load(do_ptr + q_offsets, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + h * SQ + rows, mask=rows < SQ, other=0.0)
        lse = tl.load(lse_ptr + h * SQ + rows, mask=rows < SQ, other=0.0)[:, None]
        block = tile // (BLOCK // BM2)
        dq = tl.zeros([BM2, D], tl.float32)
        dq = gradient_queries(dq, q, do, delta, lse, k_base, v_base, stride_kn, blocks_ptr + block * KEY_BLOCKS,
                              tl.load(counts_ptr + block), rows, h, SK, scale, documents_ptr, BLOCK, BN2, D, WINDOW,
                              ALIBI, CAP, False)  # fmt: skip
        dq = gradient_queries(dq, q, do, delta, lse, k_base, v_base, stride_kn, full_blocks_ptr + block * KEY_BLOCKS,
                              tl.load(full_counts_ptr + block), rows, h, SK, scale, documents_ptr, BLOCK, BN2, D,
                              WINDOW, ALIBI, CAP, True)  # fmt: skip
        tl.store(dq_ptr + q_offsets, (dq * scale).to(dq_ptr.dtype.element_ty), mask=inside)
    else:
        keys = pid * BN1 + tl.arange(0, BN1)
        inside = keys[:, None] < SK
        k_offsets = keys[:, None] * stride_kn + ds[None, :]
        k = tl.load(k_base + k_offsets, mask=inside, other=0.0)
        v = tl.load(v_base + k_offsets, mask=inside, other=0.0)
        dk = tl.zeros([BN1, D], tl.float32)
        dv = tl.zeros([BN1, D], tl.float32)
        block = pid // (BLOCK // BN1)
        for g in range(GROUP):
            h = z * GROUP + g
            q_base = q_ptr + h * stride_qh
            do_base = do_ptr + h * stride_qh
            dk, dv = gradient_keys(dk, dv, k, v, q_base, do_base, lse_ptr + h * SQ, delta_ptr + h * SQ, stride_qm,
                                   q_blocks_ptr + block * ROW_BLOCKS, tl.load(q_counts_ptr + block), keys, h, SQ,
                                   scale, documents_ptr, BLOCK, BM1, D, WINDOW, ALIBI, CAP, False)  # fmt: skip
            dk, dv = gradient_keys(dk, dv, k, v, q_base, do_base, lse_ptr + h * SQ, delta_ptr + h * SQ, stride_qm,
                                   full_q_blocks_ptr + block * ROW_BLOCKS, tl.load(full_q_counts_ptr + block), keys,
                                   h, SQ, scale, documents_ptr, BLOCK, BM1, D, WINDOW, ALIBI, CAP, True)  # fmt: skip
        out = z * stride_kh + k_offsets
        tl.store(dv_ptr + out, dv.to(dv_ptr.dtype.element_ty), mask=inside)
        tl.store(dk_ptr + out, (dk * scale).to(dk_ptr.dtype.element_ty), mask=inside)
