"""Forward attention with all blocks of keys in one loop.

Plain Triton; what it computes, its arguments and masks are those of `tawa.ops.kernels.attention.forward`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import (
    LOG2_E,
    LOWEST,
    finish,
    key_range,
    load_rows,
    load_values,
    modified,
    softmax_step,
    store_rows,
    visible,
)


@triton.jit
def attention_one_loop(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, H, SQ, SK, diagonal, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    """All blocks in one loop. BRANCH: an ``if`` masks those that need it; otherwise every block is masked."""
    tile = tl.program_id(0)
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile
    head = tl.program_id(1)
    b, h = head // H, head % H
    rows = tile * BM + tl.arange(0, BM)
    slope = tl.load(slopes_ptr + h) if ALIBI else 0.0
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    q = load_rows(q_desc, b, h, tile * BM, BM, D)
    low, full_low, full_high, high = key_range(tile * BM, diagonal, SK, BM, BN, CAUSAL, WINDOW)
    for n in range(low, high, BN):
        k = load_rows(k_desc, b, h // GROUP, n, BN, D)
        s = tl.dot(q, k.T)
        keys = n + tl.arange(0, BN)[None, :]
        s = modified(s, rows[:, None], keys, diagonal, scale, slope, softcap, ALIBI, SOFTCAP)
        if BRANCH:
            if (n < full_low) | (n >= full_high):
                s = tl.where(visible(rows[:, None], keys, diagonal, SK, CAUSAL, WINDOW), s, float("-inf"))
        else:
            s = tl.where(visible(rows[:, None], keys, diagonal, SK, CAUSAL, WINDOW), s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, 1.0 if ALIBI or SOFTCAP else scale * LOG2_E)
        v = load_values(v_desc, b, h // GROUP, n, BN, D, V_T)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    o, lse = finish(acc, m_i, l_i)
    if lse_ptr is not None:
        tl.store(lse_ptr + head * SQ + rows, lse, mask=rows < SQ)
    store_rows(o_desc, b, h, tile * BM, o, BM, D)
