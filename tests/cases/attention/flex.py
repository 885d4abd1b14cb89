"""Forward attention whose key blocks come from an index array, in the style of FlexAttention's template.

A block mask lists, for each tile of queries, the key blocks to visit: those in which a mask must be applied
(`kv_indices`, `kv_num_blocks`), then those that need no mask (`full_kv_indices`, `full_kv_num_blocks`). The indices are
loaded in the loop, so the address of the next block of K depends on memory. Plain Triton; letters and
layouts as in `parts.py`; the lists are (B, H, tiles, blocks), their lengths (B, H, tiles).
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, LOWEST, finish, load_rows, softmax_step, store_rows, visible


@triton.jit
def attend_listed(
    acc, m_i, l_i, q, k_desc, v_desc, b, h, rows, indices_ptr, count, SK, diagonal, qk_scale,
    BN: tl.constexpr, D: tl.constexpr, WINDOW: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """Attends to the `count` blocks listed at `indices_ptr`. FULL: no mask."""
    for i in range(count):
        n = tl.load(indices_ptr + i) * BN
        k = load_rows(k_desc, b, h, n, BN, D)
        s = tl.dot(q, k.T)
        if not FULL:
            keys = n + tl.arange(0, BN)[None, :]
            s = tl.where(visible(rows, keys, diagonal, SK, True, WINDOW), s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, qk_scale)
        v = load_rows(v_desc, b, h, n, BN, D)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return acc, m_i, l_i


@triton.jit
def attention_flex(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, kv_num_blocks_ptr, kv_indices_ptr, full_kv_num_blocks_ptr,
    full_kv_indices_ptr, H, SQ, SK, TILES, BLOCKS, diagonal, scale, GROUP: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, D: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """Causal attention with an optional window, by the lists of TILES tiles and at most BLOCKS key blocks each."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b, h = head // H, head % H
    rows = tile * BM + tl.arange(0, BM)
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    q = load_rows(q_desc, b, h, tile * BM, BM, D)
    entry = head * TILES + tile
    count = tl.load(kv_num_blocks_ptr + entry)
    acc, m_i, l_i = attend_listed(acc, m_i, l_i, q, k_desc, v_desc, b, h // GROUP, rows[:, None],
                                  kv_indices_ptr + entry * BLOCKS, count, SK, diagonal, scale * LOG2_E, BN, D, WINDOW,
                                  False)  # fmt: skip
    full_count = tl.load(full_kv_num_blocks_ptr + entry)
    acc, m_i, l_i = attend_listed(acc, m_i, l_i, q, k_desc, v_desc, b, h // GROUP, rows[:, None],
                                  full_kv_indices_ptr + entry * BLOCKS, full_count, SK, diagonal, scale * LOG2_E, BN, D,
                                  WINDOW, True)  # fmt: skip
    o, lse = finish(acc, m_i, l_i)
    tl.store(lse_ptr + head * SQ + rows, lse, mask=rows < SQ)
    store_rows(o_desc, b, h, tile * BM, o, BM, D)
