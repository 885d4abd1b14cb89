"""Forward attention over sequences of various lengths, packed one after the other.

Sequence b has the query rows ``cu_q[b] .. cu_q[b + 1] - 1`` and the key rows ``cu_k[b] .. cu_k[b + 1] - 1`` of packed
tensors (rows, heads, D), accessed by 3-D host descriptors with boxes of ``[rows, 1, D]``. The end of a sequence is not
an edge of the tensor. A load may therefore return rows of the next sequence. Keys past the end are masked by their
index, so that their values have weight 0; results for query rows past the end are dropped. A store of a whole box would
overwrite rows of the next sequence, so O is stored through pointers with a mask.

The transposed V of fp8 has its keys along the innermost dimension, where a TMA box must begin at a multiple of 16
bytes (an H200 ends the kernel with "illegal instruction" otherwise). The columns of sequence b therefore begin at
``cu_k[b] // 16 * 16 + 16 * b``: after those of sequence b - 1, with up to 31 columns between them that must be finite.

Plain Triton; letters and masks as in `tawa.ops.kernels.attention.parts`. The diagonal aligns the last query of a
sequence with its last key.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import LOG2_E, LOWEST, finish, key_range, softmax_step, visible


@triton.jit
def attend_packed(
    acc, m_i, l_i, q, k_desc, v_desc, first, column, h, rows, low, high, diagonal, SK, qk_scale,
    BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Attends to the blocks of keys in [low, high) of the sequence that begins at row `first`, V_T: at `column`."""
    for n in range(low, high, BN):
        k = k_desc.load([first + n, h, 0]).reshape([BN, D])
        s = tl.dot(q, k.T)
        if MASKED:
            keys = n + tl.arange(0, BN)[None, :]
            s = tl.where(visible(rows, keys, diagonal, SK, CAUSAL, WINDOW), s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, qk_scale)
        if V_T:
            v = v_desc.load([h, 0, column + n]).reshape([D, BN]).T
        else:
            v = v_desc.load([first + n, h, 0]).reshape([BN, D])
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return acc, m_i, l_i


@triton.jit
def attention_varlen(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, cu_q_ptr, cu_k_ptr, H, TOTAL_Q, HEAD_DIM, scale,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    """Grid: tiles of the longest sequence, heads, sequences; tiles past the end of a shorter one do nothing.

    `lse_ptr` is (heads, TOTAL_Q). HEAD_DIM is the D of memory, which may be less than the box's. V_T: V is (heads, D,
    rows), for fp8.
    """
    h = tl.program_id(1)
    sequence = tl.program_id(2)
    first_q = tl.load(cu_q_ptr + sequence)
    first_k = tl.load(cu_k_ptr + sequence)
    SQ = tl.load(cu_q_ptr + sequence + 1) - first_q
    SK = tl.load(cu_k_ptr + sequence + 1) - first_k
    tile = tl.program_id(0)
    if tile * BM < SQ:
        rows = tile * BM + tl.arange(0, BM)
        m_i = tl.full([BM], LOWEST, tl.float32)
        l_i = tl.zeros([BM], tl.float32)
        acc = tl.zeros([BM, D], tl.float32)
        q = q_desc.load([first_q + tile * BM, h, 0]).reshape([BM, D])
        diagonal = SK - SQ
        qk_scale = scale * LOG2_E
        column = first_k // 16 * 16 + 16 * sequence
        low, full_low, full_high, high = key_range(tile * BM, diagonal, SK, BM, BN, CAUSAL, WINDOW)
        if WINDOW:
            acc, m_i, l_i = attend_packed(acc, m_i, l_i, q, k_desc, v_desc, first_k, column, h // GROUP, rows[:, None],
                                          low, min(full_low, high), diagonal, SK, qk_scale, BN, D, V_T, CAUSAL, WINDOW,
                                          True)  # fmt: skip
        acc, m_i, l_i = attend_packed(acc, m_i, l_i, q, k_desc, v_desc, first_k, column, h // GROUP, rows[:, None],
                                      full_low, full_high, diagonal, SK, qk_scale, BN, D, V_T, CAUSAL, WINDOW,
                                      False)  # fmt: skip
        acc, m_i, l_i = attend_packed(acc, m_i, l_i, q, k_desc, v_desc, first_k, column, h // GROUP, rows[:, None],
                                      full_high, high, diagonal, SK, qk_scale, BN, D, V_T, CAUSAL, WINDOW,
                                      True)  # fmt: skip
        o, lse = finish(acc, m_i, l_i)
        tl.store(lse_ptr + h * TOTAL_Q + first_q + rows, lse, mask=rows < SQ)
        columns = tl.arange(0, D)
        at = o_ptr + ((first_q + rows[:, None]) * H + h) * HEAD_DIM + columns[None, :]
        tl.store(at, o.to(o_ptr.dtype.element_ty), mask=(rows[:, None] < SQ) & (columns[None, :] < HEAD_DIM))
