"""Attention with pointer loads: tiles by strides, keys in pages, and key blocks from lists.

Plain Triton. Shape letters as in `tawa.ops.kernels.attention.parts`: BM query rows and BN keys of a block, D the head
dimension, a power of two; Q, K, V and O are (B, H, S, D) by their strides, GROUP query heads share one key head.
Lengths need not be multiples of the blocks. Scores are in base 2.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, LOWEST


@triton.jit
def softmax_step(s, m_i, l_i, qk_scale):
    """One step of online softmax: weights, new maximum and sum, and the factor for the sums so far."""
    m_new = tl.maximum(m_i, tl.max(s, axis=1) * qk_scale)
    p = tl.math.exp2(s * qk_scale - m_new[:, None])
    alpha = tl.math.exp2(m_i - m_new)
    return p, m_new, l_i * alpha + tl.sum(p, axis=1), alpha


@triton.jit
def finish(acc, m_i, l_i):
    """Output and base-2 logarithm of the sums; 0 and -inf for rows that saw no key."""
    seen = l_i > 0.0
    acc = acc / tl.where(seen, l_i, 1.0)[:, None]
    return acc, tl.where(seen, m_i + tl.math.log2(tl.where(seen, l_i, 1.0)), float("-inf"))


@triton.jit
def attend(
    acc, m_i, l_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, rows, low, high, SK, diagonal, qk_scale,
    BN: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The keys from `low` to `high`; MASKED: some of them are out of bounds, or not seen by all rows."""
    k_ptrs += low * stride_kn
    v_ptrs += low * stride_vn
    for n in range(low, high, BN):
        n = tl.multiple_of(n, BN)
        keys = n + tl.arange(0, BN)
        if MASKED:
            k = tl.load(k_ptrs, mask=keys[None, :] < SK, other=0.0)
        else:
            k = tl.load(k_ptrs)
        s = tl.dot(q, k)
        if MASKED:
            visible = keys[None, :] < SK
            if CAUSAL:
                visible = visible & (keys[None, :] <= rows[:, None] + diagonal)
            s = tl.where(visible, s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, qk_scale)
        if MASKED:
            v = tl.load(v_ptrs, mask=keys[:, None] < SK, other=0.0)
        else:
            v = tl.load(v_ptrs)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        k_ptrs += BN * stride_kn
        v_ptrs += BN * stride_vn
    return acc, m_i, l_i


@triton.jit
def attention_pointers(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn,
    stride_kd, stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_om, stride_od, H, SQ, SK,
    diagonal, scale, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    TWO_LOOPS: tl.constexpr,
):  # fmt: skip
    """After the first versions of Triton's tutorial 06. TWO_LOOPS: blocks that all rows see have an unmasked loop."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b, h = head // H, head % H
    rows = tile * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    keys = tl.arange(0, BN)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm + ds[None, :] * stride_qd
    k_ptrs = k_ptr + b * stride_kb + h // GROUP * stride_kh + keys[None, :] * stride_kn + ds[:, None] * stride_kd
    v_ptrs = v_ptr + b * stride_vb + h // GROUP * stride_vh + keys[:, None] * stride_vn + ds[None, :] * stride_vd
    q = tl.load(q_ptrs, mask=rows[:, None] < SQ, other=0.0)
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    high = SK
    whole = SK // BN * BN
    if CAUSAL:
        high = tl.maximum(tl.minimum(SK, (tile + 1) * BM + diagonal), 0)
        whole = tl.minimum(whole, tl.maximum(tile * BM + diagonal + 1, 0) // BN * BN)
    qk_scale = scale * LOG2_E
    low = 0
    if TWO_LOOPS:
        acc, m_i, l_i = attend(acc, m_i, l_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, rows, 0, whole, SK, diagonal,
                               qk_scale, BN, False, CAUSAL)  # fmt: skip
        low = whole
    acc, m_i, l_i = attend(acc, m_i, l_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, rows, low, high, SK, diagonal,
                           qk_scale, BN, True, CAUSAL)  # fmt: skip
    acc, lse = finish(acc, m_i, l_i)
    tl.store(lse_ptr + head * SQ + rows, lse, mask=rows < SQ)
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows[:, None] * stride_om + ds[None, :] * stride_od
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < SQ)


@triton.jit
def attention_paged(
    q_ptr, k_ptr, v_ptr, o_ptr, pages_ptr, lengths_ptr, stride_qb, stride_qh, stride_qm, stride_kp, stride_kh,
    stride_kn, stride_pb, H, SQ, scale, GROUP: tl.constexpr, BM: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Keys in pages, as inference servers keep them: K and V are (pages, heads, PAGE, D).

    A table lists the pages of each sequence. The last SQ keys of a sequence are those of its queries (a prompt that is
    continued); causal.
    """
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b, h = head // H, head % H
    length = tl.load(lengths_ptr + b)
    rows = tile * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    keys = tl.arange(0, PAGE)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm + ds[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < SQ, other=0.0)
    within = h // GROUP * stride_kh + keys[:, None] * stride_kn + ds[None, :]
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for i in range(tl.cdiv(length, PAGE)):
        page = tl.load(pages_ptr + b * stride_pb + i)
        inside = i * PAGE + keys < length
        k = tl.load(k_ptr + page.to(tl.int64) * stride_kp + within, mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k))
        seen = inside[None, :] & (i * PAGE + keys[None, :] <= rows[:, None] + length - SQ)
        s = tl.where(seen, s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, scale * LOG2_E)
        v = tl.load(v_ptr + page.to(tl.int64) * stride_kp + within, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    acc, _ = finish(acc, m_i, l_i)
    o_ptrs = o_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm + ds[None, :]
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < SQ)


@triton.jit
def next_offset(i, blocks_ptr, count, BLOCK: tl.constexpr, BN: tl.constexpr):
    """The distance from the keys of step i to the next: BN, or at the end of a block that to the next listed block."""
    steps: tl.constexpr = BLOCK // BN
    here = tl.load(blocks_ptr + i // steps)
    there = tl.load(blocks_ptr + i // steps + 1, mask=i // steps + 1 < count, other=0)
    jump = ((i + 1) % steps == 0).to(tl.int32)
    return ((there - here) * BLOCK - (steps - 1) * BN) * jump + BN * (1 - jump)


@triton.jit
def attend_listed(
    acc, m_i, l_i, q, k_base, v_base, stride_kn, stride_vn, blocks_ptr, count, rows, SK, diagonal, qk_scale,
    BLOCK: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, WINDOW: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """The listed blocks of BLOCK keys, BN at a time. FULL: only the end of the keys is masked."""
    steps: tl.constexpr = BLOCK // BN
    start = tl.load(blocks_ptr) * BLOCK
    keys = start + tl.arange(0, BN)
    ds = tl.arange(0, D)
    offset = 0
    for i in range(tl.minimum(count * steps, tl.maximum(tl.cdiv(SK, BN), 1))):
        at = start + offset + tl.arange(0, BN)
        k = tl.load(k_base + at[:, None] * stride_kn + ds[None, :], mask=at[:, None] < SK, other=0.0)
        s = tl.dot(q, tl.trans(k))
        seen = keys[None, :] < SK
        if not FULL:
            seen = seen & (keys[None, :] <= rows[:, None] + diagonal)
            if WINDOW:
                seen = seen & (keys[None, :] > rows[:, None] + diagonal - WINDOW)
        s = tl.where(seen, s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, qk_scale)
        v = tl.load(v_base + at[:, None] * stride_vn + ds[None, :], mask=at[:, None] < SK, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        step = next_offset(i, blocks_ptr, count, BLOCK, BN)
        keys += step
        offset += step
    return acc, m_i, l_i


@triton.jit
def attention_flex(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, counts_ptr, blocks_ptr, full_counts_ptr, full_blocks_ptr, stride_qb,
    stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, H, SQ, SK, TILES, BLOCKS, diagonal, scale,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    """In the form of FlexAttention's template: two loops over listed key blocks, offsets carried by the loops."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b, h = head // H, head % H
    rows = tile * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm + ds[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < SQ, other=0.0)
    k_base = k_ptr + b * stride_kb + h // GROUP * stride_kh
    v_base = v_ptr + b * stride_kb + h // GROUP * stride_kh
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    entry = head * TILES + tile
    acc, m_i, l_i = attend_listed(acc, m_i, l_i, q, k_base, v_base, stride_kn, stride_kn, blocks_ptr + entry * BLOCKS,
                                  tl.load(counts_ptr + entry), rows, SK, diagonal, scale * LOG2_E, BLOCK, BN, D, WINDOW,
                                  False)  # fmt: skip
    acc, m_i, l_i = attend_listed(acc, m_i, l_i, q, k_base, v_base, stride_kn, stride_kn,
                                  full_blocks_ptr + entry * BLOCKS, tl.load(full_counts_ptr + entry), rows, SK,
                                  diagonal, scale * LOG2_E, BLOCK, BN, D, WINDOW, True)  # fmt: skip
    acc, lse = finish(acc, m_i, l_i)
    tl.store(lse_ptr + head * SQ + rows, lse, mask=rows < SQ)
    o_ptrs = o_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm + ds[None, :]
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < SQ)
