"""Persistent forward attention: each program walks over tiles of queries.

For short sequences, where the launch of a program and its epilogue weigh: the loads of the next tile can run beside the
epilogue of this one. Plain Triton; letters, layouts and masks as in `parts.py`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.forward import attention_tile


@triton.jit
def attention_persistent(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, HEADS, H, SQ, SK, diagonal, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Forward attention of HEADS = B * H heads by as many programs as the grid has.

    Programs take the tiles of a head, then of the next, so that those at work read the same keys, out of the L2 cache.
    Under a causal mask they take two at a time, the last and the first that are left, which together see as many keys
    as any other two; the tile in the middle of an odd number comes alone.
    """
    tiles = tl.cdiv(SQ, BM)
    shares = tl.cdiv(tiles, 2) if CAUSAL else tiles
    for i in tl.range(tl.program_id(0), shares * HEADS, tl.num_programs(0)):
        share, head = i % shares, i // shares
        for part in tl.range(0, min(tiles - 2 * share, 2) if CAUSAL else 1):
            tile = share
            if CAUSAL:
                tile = tl.where(part == 0, tiles - 1 - share, share)
            attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, tile, head, H, SQ, SK, diagonal,
                           scale, softcap, GROUP, BM, BN, D, V_T, CAUSAL, WINDOW, ALIBI, SOFTCAP, EVEN)  # fmt: skip
