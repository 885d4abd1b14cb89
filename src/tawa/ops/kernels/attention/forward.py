"""Forward attention, one tile of queries per program: a loop without a mask, then a loop with one.

``O = softmax(mask(scale * Q @ K^T)) @ V``, and the base-2 logarithm of each row's sum in `lse_ptr` (B, H, SQ) where it
is not None. Full or causal, sliding window, ALiBi, softcap, grouped heads, any lengths. Plain Triton; letters, layouts
and masks as in `parts.py`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import (
    LOG2_E,
    LOWEST,
    factor,
    finish,
    key_range,
    load_rows,
    load_second,
    load_values,
    longest_first,
    modified,
    softmax_step,
    store_rows,
    store_second,
    visible,
    weights_of,
)
from tawa.ops.kernels.attention.reordered import reorder_keys


@triton.jit
def attend(
    acc, acc2, m_i, l_i, q, q2, k_desc, k2_desc, v_desc, v2_desc, b, h, rows, low, high, gap, gap_at, diagonal, SK,
    scale, slope, softcap, BN: tl.constexpr, D: tl.constexpr, D2: tl.constexpr, V1: tl.constexpr, V2: tl.constexpr,
    V_T: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Attends to the blocks of keys in [low, high). MASKED: not every row sees all of their keys.

    With a window the masked blocks are those on both of its edges: `gap` keys from `gap_at` on are left out.
    """
    for at in range(low, high - gap, BN):
        n = at
        if MASKED and WINDOW:
            n = tl.where(at < gap_at, at, at + gap)
        k = load_rows(k_desc, b, h, n, BN, D)
        s = tl.dot(q, k.T)
        if D2:
            k2 = load_second(k2_desc, b, h, n, BN, D, D2)
            s = tl.dot(q2, k2.T, s)
        keys = n + tl.arange(0, BN)[None, :]
        s = modified(s, rows, keys, diagonal, scale, slope, softcap, ALIBI, SOFTCAP)
        if MASKED:
            s = tl.where(visible(rows, keys, diagonal, SK, CAUSAL, WINDOW), s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, 1.0 if ALIBI or SOFTCAP else scale * LOG2_E)
        v = load_values(v_desc, b, h, n, BN, V1, V_T)
        if V2:
            v2 = load_second(v2_desc, b, h, n, BN, V1, V2)
            acc2 = acc2 * alpha[:, None]  # before the first dot, so that both are in flight at once
        p = p.to(weights_of(v.dtype))
        if V_T == 2:
            p = reorder_keys(p, p.shape[0], BN)
        acc = tl.dot(p, v, acc * alpha[:, None])
        if V2:
            acc2 = tl.dot(p, v2, acc2)
    return acc, acc2, m_i, l_i


@triton.jit
def attention_tile(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, tile, of_q, of_k, h, head, SUMS, SQ, SK, diagonal, scale,
    softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, EVEN: tl.constexpr,
    q2_desc=None, k2_desc=None, v2_desc=None, o2_desc=None, D2: tl.constexpr = 0, V1: tl.constexpr = 0,
    V2: tl.constexpr = 0, o_factor=None,
):  # fmt: skip
    """The rows of one tile of query head h, in up to two loops over the keys: without a mask, and with one.

    of_q, of_k: the batch, or the packed sequence (`load_rows`). Row 0 has its logarithm at ``lse_ptr + head * SUMS``.
    D2: the columns of Q and K in boxes of their own after the first D. V1, V2: those of V and O in their first and
    second boxes; 0 for D, and for no second box (`two_parts.py`). o_factor: of the output.
    """
    VALUES: tl.constexpr = V1 if V1 else D
    rows = tile * BM + tl.arange(0, BM)
    slope = tl.load(slopes_ptr + h) if ALIBI else 0.0
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, VALUES], tl.float32)
    acc2 = tl.zeros([BM, V2], tl.float32) if V2 else 0.0
    q = load_rows(q_desc, of_q, h, tile * BM, BM, D)
    q2 = load_second(q2_desc, of_q, h, tile * BM, BM, D, D2) if D2 else None
    low, full_low, full_high, high = key_range(tile * BM, diagonal, SK, BM, BN, CAUSAL, WINDOW)
    acc, acc2, m_i, l_i = attend(acc, acc2, m_i, l_i, q, q2, k_desc, k2_desc, v_desc, v2_desc, of_k, h // GROUP,
                                 rows[:, None], full_low, full_high, 0, 0, diagonal, SK, scale, slope, softcap, BN,
                                 D, D2, VALUES, V2, V_T, CAUSAL, WINDOW, ALIBI, SOFTCAP, False)  # fmt: skip
    if CAUSAL or WINDOW or not EVEN:
        gap = full_high - full_low if WINDOW else 0
        acc, acc2, m_i, l_i = attend(acc, acc2, m_i, l_i, q, q2, k_desc, k2_desc, v_desc, v2_desc, of_k, h // GROUP,
                                     rows[:, None], low if WINDOW else full_high, high, gap, full_low, diagonal, SK,
                                     scale, slope, softcap, BN, D, D2, VALUES, V2, V_T, CAUSAL, WINDOW, ALIBI,
                                     SOFTCAP, True)  # fmt: skip
    o, lse = finish(acc, m_i, l_i)
    if o_factor is not None:
        o = o * o_factor
    if lse_ptr is not None:
        tl.store(lse_ptr + head * SUMS + rows, lse, mask=rows < SQ)
    store_rows(o_desc, of_q, h, tile * BM, o, BM, VALUES)
    if V2:
        o2, _ = finish(acc2, m_i, l_i)
        store_second(o2_desc, of_q, h, tile * BM, o2, BM, VALUES, V2)


@triton.jit
def attention_two_loops(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, q_factors_ptr, k_factors_ptr, v_factors_ptr, together,
    H, SQ, SK, diagonal, scale, softcap, FQ_B, FQ_H, FK_B, FK_H, FV_B, FV_H,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A loop without a mask over the blocks that all rows see, then a masked one over the diagonal or the last keys.

    With a window the masked loop takes its far edge, too. EVEN: SK is a multiple of BN, so that full attention needs
    only one loop. together: as in `longest_first`. Grid: tiles of BM queries, heads of all batches; the longest tiles
    of a head start first under a causal mask.
    """
    head, tile = longest_first(together)
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile
    b, h = head // H, head % H
    scale = scale * factor(q_factors_ptr, b, h // GROUP, FQ_B, FQ_H) * factor(k_factors_ptr, b, h // GROUP, FK_B, FK_H)
    o_factor = factor(v_factors_ptr, b, h // GROUP, FV_B, FV_H) if v_factors_ptr is not None else None
    attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, tile, b, b, h, head, SQ, SQ, SK, diagonal,
                   scale, softcap, GROUP, BM, BN, D, V_T, CAUSAL, WINDOW, ALIBI, SOFTCAP, EVEN,
                   o_factor=o_factor)  # fmt: skip
