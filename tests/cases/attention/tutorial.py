"""Forward attention in the style of Triton's tutorial on fused attention. Plain Triton.

It differs from `tawa.ops.kernels.attention.forward` in several ways. 2-D descriptors cover all rows of all heads, so
lengths must be multiples of the block. One inner function runs once or twice, by the bits of STAGE. The running maximum
starts at -inf and the running sum at 1, which the first step multiplies by 0. The mask adds a large negative number.

Shape letters: Z batches, H heads, N_CTX length, HEAD_DIM; BLOCK_M query rows and BLOCK_N keys of a block.
"""

import triton
import triton.language as tl


@triton.jit
def _inner(
    acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, dtype: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, STAGE: tl.constexpr, offs_m, offs_n,
    N_CTX, FP8: tl.constexpr,
):  # fmt: skip
    """One range of keys. STAGE 1: all before the diagonal, 2: the diagonal, 3: all keys, no mask."""
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    offsetk_y = offset_y + lo
    if FP8:
        offsetv_y = offset_y // N_CTX * HEAD_DIM
        offsetv_x = lo
    else:
        offsetv_y = offset_y + lo
        offsetv_x = 0
    for start_n in tl.range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = desc_k.load([offsetk_y, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if FP8:
            v = desc_v.load([offsetv_y, offsetv_x]).T
        else:
            v = desc_v.load([offsetv_y, 0])
        acc = tl.dot(p.to(dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        offsetk_y += BLOCK_N
        if FP8:
            offsetv_x += BLOCK_N
        else:
            offsetv_y += BLOCK_N
    return acc, l_i, m_i


@triton.jit
def attention_tutorial(
    sm_scale, M, Z, H, desc_q, desc_k, desc_v, desc_o, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, FP8: tl.constexpr, STAGE: tl.constexpr,
):  # fmt: skip
    """STAGE: 1 full, 3 causal. FP8: V is (Z * H * HEAD_DIM, N_CTX). `M` gets each row's base-2 log of the sum."""
    dtype = tl.float8e4nv if FP8 else desc_q.dtype
    tl.static_assert(BLOCK_M % BLOCK_N == 0)
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    offset_y = off_z * (N_CTX * H) + off_h * N_CTX
    qo_offset_y = offset_y + start_m * BLOCK_M
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = desc_q.load([qo_offset_y, 0])
    if STAGE & 1:
        acc, l_i, m_i = _inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, dtype, BLOCK_M, BLOCK_N,
                               HEAD_DIM, 4 - STAGE, offs_m, offs_n, N_CTX, FP8)  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = _inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, dtype, BLOCK_M, BLOCK_N,
                               HEAD_DIM, 2, offs_m, offs_n, N_CTX, FP8)  # fmt: skip
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    m_ptrs = M + off_hz * N_CTX + offs_m
    tl.store(m_ptrs, m_i)
    desc_o.store([qo_offset_y, 0], acc.to(desc_o.dtype))
