"""Persistent forward attention: each program walks over tiles of queries, the longest first.

For short sequences, where the launch of a program and its epilogue weigh: the loads of the next tile can run beside the
epilogue of this one. Plain Triton; letters, layouts and masks as in `parts.py`.
"""

import triton
import triton.language as tl

from tawa.kernels.attention.forward import attention_tile


@triton.jit
def attention_persistent(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, HEADS, H, SQ, SK, diagonal, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Forward attention of HEADS = B * H heads by as many programs as the grid has.

    Tile numbers run through the heads first: programs that run together work on tiles of one length, and under a causal
    mask the last rows of all heads, which see most keys, come first.
    """
    tiles = tl.cdiv(SQ, BM)
    for i in tl.range(tl.program_id(0), tiles * HEADS, tl.num_programs(0)):
        tile = i // HEADS
        if CAUSAL:
            tile = tiles - 1 - tile
        attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, tile, i % HEADS, H, SQ, SK, diagonal,
                       scale, softcap, GROUP, BM, BN, D, V_T, CAUSAL, WINDOW, ALIBI, SOFTCAP, EVEN)  # fmt: skip
