"""Persistent forward attention: each program iterates over tiles of queries.

This pays for short sequences, where the start of a program and its epilogue matter: the loads of the next tile overlap
with the epilogue of this one. Plain Triton; letters, layouts and masks as in `parts.py`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.forward import attention_tile
from tawa.ops.kernels.attention.parts import factor


@triton.jit
def attention_persistent(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, q_factors_ptr, k_factors_ptr, v_factors_ptr, HEADS, PAIRED,
    H, SQ, SK, diagonal, scale, softcap, FQ_B, FQ_H, FK_B, FK_H, FV_B, FV_H,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Forward attention of HEADS = B * H heads by as many programs as the grid has.

    Programs take all tiles of a head before those of the next, so that concurrent programs read the same keys from the
    L2 cache. With a causal mask a program takes two tiles of the first PAIRED heads at a time, the last and the first
    of the remaining ones; all such pairs see the same number of keys. If the number of tiles is odd, the middle one
    comes alone. The tiles of the other heads come at the end, one by one, the longest first, for programs that take the
    next share from a counter: then all end at about the same time, whatever the number of pairs is.
    """
    tiles = tl.cdiv(SQ, BM)
    shares = tl.cdiv(tiles, 2) if CAUSAL else tiles
    paired = PAIRED if CAUSAL else HEADS
    for i in tl.range(tl.program_id(0), shares * paired + tiles * (HEADS - paired), tl.num_programs(0)):
        share, head, parts = i % shares, i // shares, 1
        if CAUSAL:
            single, others = i - shares * paired, max(HEADS - paired, 1)
            parts = tl.where(single < 0, min(tiles - 2 * share, 2), 1)
            head = tl.where(single < 0, head, paired + single % others)
            share = tl.where(single < 0, share, single // others)
        for part in tl.range(0, parts):
            tile = share
            if CAUSAL:
                tile = tl.where(part == 0, tiles - 1 - share, share)
            b, h = head // H, head % H
            of_scores = factor(q_factors_ptr, b, h // GROUP, FQ_B, FQ_H)
            of_scores *= factor(k_factors_ptr, b, h // GROUP, FK_B, FK_H)
            o_factor = factor(v_factors_ptr, b, h // GROUP, FV_B, FV_H) if v_factors_ptr is not None else None
            attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, tile, b, b, h, head, SQ, SQ, SK,
                           diagonal, scale * of_scores, softcap, GROUP, BM, BN, D, V_T, CAUSAL, WINDOW, ALIBI, SOFTCAP,
                           EVEN, o_factor=o_factor)  # fmt: skip
