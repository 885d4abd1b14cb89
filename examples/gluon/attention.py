"""Attention forward in plain Triton, the kernel of the page "Source that you own".

q, k, v, o: float16, (heads * L, D), one head behind the other, as descriptors; no mask; L a multiple of BM and BN.

    tawa compile examples/gluon/attention.py:attention --sig "$SIG" --const BM=128,BN=128,D=128 --emit gluon
"""

import triton
import triton.language as tl


@triton.jit
def attention(q_desc, k_desc, v_desc, o_desc, L, qk_scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """BM rows of a head. Grid: (L / BM, heads). qk_scale: of the scores, in units of log2(e)."""
    # the rows of this program, and the keys of its head
    head = tl.program_id(1) * L
    row = head + tl.program_id(0) * BM
    m_i = tl.full([BM], -1e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    q = q_desc.load([row, 0])
    for n in range(0, L, BN):
        k = k_desc.load([head + n, 0])
        s = tl.dot(q, k.T)
        # softmax over the keys so far
        m_new = tl.maximum(m_i, tl.max(s, 1) * qk_scale)
        p = tl.exp2(s * qk_scale - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([head + n, 0])
        acc = tl.dot(p.to(tl.float16), v, acc)
        m_i = m_new
    # every row has seen a key
    acc = acc / l_i[:, None]
    o_desc.store([row, 0], acc.to(tl.float16))
