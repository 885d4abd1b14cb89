"""Chunkwise mLSTM, forward and backward: a recurrent part over the states of the chunks and a parallel part.

Plain Triton with block pointers, in the style of that package. Q and K are (heads, S, DK), V and the outputs
(heads, S, DV), S in chunks of L; gates are (heads, S): `b` has the running sums of the forget gates of each chunk, `i`
the input gates. States are fp32: (heads, chunks + 1, DK, DV), their norms (heads, chunks + 1, DK), their stabilisers
`m` (heads, chunks + 1).
"""

import triton
import triton.language as tl


@triton.jit
def mlstm_states(
    k_ptr, v_ptr, b_ptr, i_ptr, states_ptr, norms_ptr, m_ptr, stride_kh, stride_kt, stride_vh, stride_vt, stride_sh,
    stride_nh, S: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Forward, recurrent: the state before each chunk is stored, then the chunk's K^T @ V is added, gated."""
    pk = tl.program_id(0)
    pv = tl.program_id(1)
    head = tl.program_id(2)
    chunks: tl.constexpr = S // L
    state = tl.zeros((BM, BN), dtype=tl.float32)
    norm = tl.zeros((BM,), dtype=tl.float32)
    m = 0.0
    for c in range(chunks):
        k_block = tl.make_block_ptr(
            k_ptr + head * stride_kh, (DK, S), (1, stride_kt), (pk * BM, c * L), (BM, L), (0, 1)
        )
        v_block = tl.make_block_ptr(
            v_ptr + head * stride_vh, (S, DV), (stride_vt, 1), (c * L, pv * BN), (L, BN), (1, 0)
        )
        out = tl.make_block_ptr(states_ptr + head * stride_sh + c * DK * DV, (DK, DV), (DV, 1), (pk * BM, pv * BN),
                                (BM, BN), (1, 0))  # fmt: skip
        tl.store(out, state, boundary_check=(0, 1))
        if pv == 0:
            tl.store(norms_ptr + head * stride_nh + c * DK + pk * BM + tl.arange(0, BM), norm)
        if (pk == 0) and (pv == 0):
            tl.store(m_ptr + head * (chunks + 1) + c, m)
        last = tl.load(b_ptr + head * S + c * L + L - 1).to(tl.float32)
        b = tl.load(b_ptr + head * S + c * L + tl.arange(0, L)).to(tl.float32)
        i = tl.load(i_ptr + head * S + c * L + tl.arange(0, L)).to(tl.float32)
        a = last - b + i
        m_next = tl.maximum(last + m, tl.max(a))
        k = tl.load(k_block, boundary_check=(0, 1)).to(tl.float32)
        v = tl.load(v_block, boundary_check=(0, 1))
        decay = tl.exp(last + m - m_next)
        k_gated = (k * tl.exp(a - m_next)[None, :]).to(v.dtype)
        state = decay * state + tl.dot(k_gated, v)
        norm = decay * norm + tl.sum(k_gated.to(tl.float32), axis=1)
        m = m_next
    out = tl.make_block_ptr(states_ptr + head * stride_sh + chunks * DK * DV, (DK, DV), (DV, 1), (pk * BM, pv * BN),
                            (BM, BN), (1, 0))  # fmt: skip
    tl.store(out, state, boundary_check=(0, 1))
    if pv == 0:
        tl.store(norms_ptr + head * stride_nh + chunks * DK + pk * BM + tl.arange(0, BM), norm)
    if (pk == 0) and (pv == 0):
        tl.store(m_ptr + head * (chunks + 1) + chunks, m)


@triton.jit
def mlstm_outputs(
    q_ptr, k_ptr, v_ptr, b_ptr, i_ptr, states_ptr, norms_ptr, m_ptr, o_ptr, n_ptr, stabiliser_ptr, scale, stride_kh,
    stride_kt, stride_vh, stride_vt, stride_sh, stride_nh, S: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    L: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Forward, parallel: outputs of a chunk from its own rows and from the state before it."""
    pv = tl.program_id(0)
    c = tl.program_id(1)
    head = tl.program_id(2)
    chunks: tl.constexpr = S // L
    times = tl.arange(0, L)
    b = tl.load(b_ptr + head * S + c * L + times).to(tl.float32)
    i = tl.load(i_ptr + head * S + c * L + times).to(tl.float32)
    m = tl.load(m_ptr + head * (chunks + 1) + c)
    gates = tl.where(times[:, None] >= times[None, :], b[:, None] - b[None, :] + i[None, :], float("-inf"))
    stabiliser = tl.maximum(tl.max(gates, axis=1), b + m)
    inner = tl.exp(gates - stabiliser[:, None])
    outer = tl.exp(b + m - stabiliser)
    scores = tl.zeros((L, L), dtype=tl.float32)
    from_state = tl.zeros((L, BN), dtype=tl.float32)
    norm = tl.zeros((L,), dtype=tl.float32)
    for d in range(tl.cdiv(DK, BK)):
        q_block = tl.make_block_ptr(q_ptr + head * stride_kh, (S, DK), (stride_kt, 1), (c * L, d * BK), (L, BK), (1, 0))
        k_block = tl.make_block_ptr(k_ptr + head * stride_kh, (DK, S), (1, stride_kt), (d * BK, c * L), (BK, L), (0, 1))
        state_block = tl.make_block_ptr(states_ptr + head * stride_sh + c * DK * DV, (DK, DV), (DV, 1),
                                        (d * BK, pv * BN), (BK, BN), (1, 0))  # fmt: skip
        q = tl.load(q_block, boundary_check=(0, 1))
        k = tl.load(k_block, boundary_check=(0, 1))
        scores += tl.dot(q, k) * scale
        q_gated = q.to(tl.float32) * outer[:, None] * scale
        state = tl.load(state_block, boundary_check=(0, 1)).to(q.dtype)
        from_state += tl.dot(q_gated.to(q.dtype), state)
        norms = tl.load(norms_ptr + head * stride_nh + c * DK + d * BK + tl.arange(0, BK)).to(tl.float32)
        norm += tl.sum(q_gated * norms[None, :], axis=1)
    gated = scores * inner
    v_block = tl.make_block_ptr(v_ptr + head * stride_vh, (S, DV), (stride_vt, 1), (c * L, pv * BN), (L, BN), (1, 0))
    v = tl.load(v_block, boundary_check=(0, 1))
    total = from_state + tl.dot(gated.to(v.dtype), v)
    n = tl.maximum(tl.abs(norm + tl.sum(gated, axis=1)), tl.exp(-stabiliser))
    o_block = tl.make_block_ptr(o_ptr + head * stride_vh, (S, DV), (stride_vt, 1), (c * L, pv * BN), (L, BN), (1, 0))
    tl.store(o_block, (total / (n[:, None] + 1e-6)).to(o_ptr.dtype.element_ty), boundary_check=(0, 1))
    if pv == 0:
        tl.store(n_ptr + head * S + c * L + times, n)
        tl.store(stabiliser_ptr + head * S + c * L + times, stabiliser)


@triton.jit
def mlstm_state_gradients(
    q_ptr, b_ptr, m_ptr, stabiliser_ptr, do_ptr, n_ptr, gradients_ptr, scale, stride_kh, stride_kt, stride_vh,
    stride_vt, stride_sh, S: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, L: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Backward, recurrent: gradients of the states from the last chunk to the first, Q^T @ dO of each chunk, gated."""
    pk = tl.program_id(0)
    pv = tl.program_id(1)
    head = tl.program_id(2)
    chunks: tl.constexpr = S // L
    times = tl.arange(0, L)
    gradient = tl.zeros((BM, BN), dtype=tl.float32)
    for c in range(chunks, 0, -1):
        out = tl.make_block_ptr(gradients_ptr + head * stride_sh + c * DK * DV, (DK, DV), (DV, 1), (pk * BM, pv * BN),
                                (BM, BN), (1, 0))  # fmt: skip
        tl.store(out, gradient, boundary_check=(0, 1))
        q_block = tl.make_block_ptr(q_ptr + head * stride_kh, (DK, S), (1, stride_kt), (pk * BM, (c - 1) * L), (BM, L),
                                    (0, 1))  # fmt: skip
        do_block = tl.make_block_ptr(do_ptr + head * stride_vh, (S, DV), (stride_vt, 1), ((c - 1) * L, pv * BN),
                                     (L, BN), (1, 0))  # fmt: skip
        b = tl.load(b_ptr + head * S + (c - 1) * L + times).to(tl.float32)
        last = tl.load(b_ptr + head * S + (c - 1) * L + L - 1).to(tl.float32)
        before = tl.load(m_ptr + head * (chunks + 1) + c - 1)
        after = tl.load(m_ptr + head * (chunks + 1) + c)
        stabiliser = tl.load(stabiliser_ptr + head * S + (c - 1) * L + times)
        n = tl.load(n_ptr + head * S + (c - 1) * L + times).to(tl.float32)
        q = tl.load(q_block, boundary_check=(0, 1)).to(tl.float32)
        do = tl.load(do_block, boundary_check=(0, 1))
        gated = (q * tl.exp(b + before - stabiliser)[None, :] * scale).to(do.dtype)
        do = (do.to(tl.float32) / (n[:, None] + 1e-6)).to(do_ptr.dtype.element_ty)
        gradient = tl.exp(last + before - after) * gradient + tl.dot(gated, do)
    out = tl.make_block_ptr(gradients_ptr + head * stride_sh, (DK, DV), (DV, 1), (pk * BM, pv * BN), (BM, BN), (1, 0))
    tl.store(out, gradient, boundary_check=(0, 1))


@triton.jit
def mlstm_gradients(
    q_ptr, k_ptr, v_ptr, b_ptr, i_ptr, stabiliser_ptr, m_ptr, states_ptr, do_ptr, n_ptr, gradients_ptr, dq_ptr, dk_ptr,
    dv_ptr, scale, stride_kh, stride_kt, stride_vh, stride_vt, stride_vz, stride_sh, S: tl.constexpr, DK: tl.constexpr,
    DV: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Backward, parallel: gradients of a chunk's Q, K and V; BM columns of Q and K add their part of dV each."""
    pk = tl.program_id(0)
    c = tl.program_id(1)
    head = tl.program_id(2)
    chunks: tl.constexpr = S // L
    times = tl.arange(0, L)
    b = tl.load(b_ptr + head * S + c * L + times).to(tl.float32)
    i = tl.load(i_ptr + head * S + c * L + times).to(tl.float32)
    stabiliser = tl.load(stabiliser_ptr + head * S + c * L + times)
    gates = tl.where(times[:, None] >= times[None, :], b[:, None] - b[None, :], float("-inf")) + i[None, :]
    inner = tl.exp(gates - stabiliser[:, None])
    before = tl.load(m_ptr + head * (chunks + 1) + c)
    after = tl.load(m_ptr + head * (chunks + 1) + c + 1)
    last = tl.load(b_ptr + head * S + c * L + L - 1).to(tl.float32)
    to_state = tl.exp(last - b + i - after)
    from_state = tl.exp(b + before - stabiliser)
    q_block = tl.make_block_ptr(q_ptr + head * stride_kh, (S, DK), (stride_kt, 1), (c * L, pk * BM), (L, BM), (1, 0))
    k_block = tl.make_block_ptr(k_ptr + head * stride_kh, (S, DK), (stride_kt, 1), (c * L, pk * BM), (L, BM), (1, 0))
    q = tl.load(q_block, boundary_check=(0, 1))
    k = tl.load(k_block, boundary_check=(0, 1))
    s = (tl.dot(q, tl.trans(k)) * scale * inner).to(q.dtype)
    k_gated = (k.to(tl.float32) * to_state[:, None]).to(k.dtype)
    n = tl.load(n_ptr + head * S + c * L + times).to(tl.float32)[:, None] + 1e-6
    dq = tl.zeros((L, BM), dtype=tl.float32)
    dk = tl.zeros((L, BM), dtype=tl.float32)
    ds = tl.zeros((L, L), dtype=tl.float32)
    for e in range(tl.cdiv(DV, BN)):
        v_block = tl.make_block_ptr(v_ptr + head * stride_vh, (S, DV), (stride_vt, 1), (c * L, e * BN), (L, BN), (1, 0))
        do_block = tl.make_block_ptr(do_ptr + head * stride_vh, (S, DV), (stride_vt, 1), (c * L, e * BN), (L, BN),
                                     (1, 0))  # fmt: skip
        state_block = tl.make_block_ptr(states_ptr + head * stride_sh + c * DK * DV, (DV, DK), (1, DV),
                                        (e * BN, pk * BM), (BN, BM), (0, 1))  # fmt: skip
        gradient_block = tl.make_block_ptr(gradients_ptr + head * stride_sh + (c + 1) * DK * DV, (DK, DV), (DV, 1),
                                           (pk * BM, e * BN), (BM, BN), (1, 0))  # fmt: skip
        dv_block = tl.make_block_ptr(dv_ptr + pk * stride_vz + head * stride_vh, (S, DV), (stride_vt, 1),
                                     (c * L, e * BN), (L, BN), (1, 0))  # fmt: skip
        do = tl.load(do_block, boundary_check=(0, 1)).to(tl.float32)
        v = tl.load(v_block, boundary_check=(0, 1))
        gradient = tl.load(gradient_block, boundary_check=(0, 1)).to(v.dtype)
        dk += tl.dot(v, tl.trans(gradient))
        state = tl.load(state_block, boundary_check=(0, 1)).to(v.dtype)
        dq += tl.dot(do.to(v.dtype), state) * scale
        ds += tl.dot((do / n).to(v.dtype), tl.trans(v))
        dv = tl.dot(tl.trans(s), (do / n).to(v.dtype)) + tl.dot(k_gated, gradient)
        tl.store(dv_block, dv.to(dv_ptr.dtype.element_ty), boundary_check=(0, 1))
    dq = dq * from_state[:, None] / n
    dk = dk * to_state[:, None]
    ds_gated = (ds * inner).to(q.dtype)
    dk += tl.dot(tl.trans(ds_gated), q) * scale
    dq += tl.dot(ds_gated, k) * scale
    dk_block = tl.make_block_ptr(dk_ptr + head * stride_kh, (S, DK), (stride_kt, 1), (c * L, pk * BM), (L, BM), (1, 0))
    dq_block = tl.make_block_ptr(dq_ptr + head * stride_kh, (S, DK), (stride_kt, 1), (c * L, pk * BM), (L, BM), (1, 0))
    tl.store(dk_block, dk.to(dk_ptr.dtype.element_ty), boundary_check=(0, 1))
    tl.store(dq_block, dq.to(dq_ptr.dtype.element_ty), boundary_check=(0, 1))
