"""Forward attention with a tile that is added to the scores: a mask or a bias of every row and key.

Plain Triton; letters and layouts as in `tawa.ops.kernels.attention.parts`. The tile is loaded in each iteration, beside
K and V, from a tensor (H, SQ, SK) that all batches share.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, LOWEST, finish, load_rows, softmax_step, store_rows


@triton.jit
def attention_biased(
    q_desc, k_desc, v_desc, bias_desc, bias_ptr, o_desc, H, SQ, SK, scale, GROUP: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """All keys in one loop. The bias comes by descriptor, or through pointers if there is none."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    b, h = head // H, head % H
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    q = load_rows(q_desc, b, h, tile * BM, BM, D)
    for n in range(0, SK, BN):
        k = load_rows(k_desc, b, h // GROUP, n, BN, D)
        keys = n + tl.arange(0, BN)[None, :]
        if bias_desc is not None:
            bias = bias_desc.load([h, tile * BM, n]).reshape([BM, BN])
        else:
            rows = tile * BM + tl.arange(0, BM)[:, None]
            inside = (rows < SQ) & (keys < SK)
            bias = tl.load(bias_ptr + (h * SQ + rows) * SK + keys, mask=inside, other=0.0)
        s = (tl.dot(q, k.T) * scale + bias) * LOG2_E
        s = tl.where(keys < SK, s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, 1.0)
        v = load_rows(v_desc, b, h // GROUP, n, BN, D)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    o, _ = finish(acc, m_i, l_i)
    store_rows(o_desc, b, h, tile * BM, o, BM, D)
