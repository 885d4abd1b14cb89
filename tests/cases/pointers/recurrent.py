"""Loops with a state, and tiles that feed several dots: linear attention by chunks, and products that share operands.

Plain Triton. Linear attention: Q, K, V and O are (B, H, S, D) without gaps, BT rows of a chunk.
"""

import triton
import triton.language as tl

from tests.cases.pointers.gemm import store_tile


@triton.jit
def linear_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, state_ptr, S, scale, BT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """Causal linear attention: the state, D x DV, is carried over the chunks; K and V feed two dots each.

    ``o_t = scale * q_t @ sum over u <= t of k_u^T v_u``, in the style of flash-linear-attention's fused chunk kernels.
    """
    head = tl.program_id(0)
    times = tl.arange(0, BT)
    ds = tl.arange(0, D)
    es = tl.arange(0, DV)
    q_ptrs = q_ptr + head * S * D + times[:, None] * D + ds[None, :]
    k_ptrs = k_ptr + head * S * D + times[:, None] * D + ds[None, :]
    v_ptrs = v_ptr + head * S * DV + times[:, None] * DV + es[None, :]
    o_ptrs = o_ptr + head * S * DV + times[:, None] * DV + es[None, :]
    causal = times[:, None] >= times[None, :]
    state = tl.zeros([D, DV], tl.float32)
    for t in range(0, S, BT):
        inside = t + times[:, None] < S
        q = tl.load(q_ptrs, mask=inside, other=0.0)
        k = tl.load(k_ptrs, mask=inside, other=0.0)
        v = tl.load(v_ptrs, mask=inside, other=0.0)
        s = tl.where(causal, tl.dot(q, tl.trans(k)), 0.0)
        o = tl.dot(s.to(v.dtype), v)
        o = tl.dot(q, state.to(q.dtype), o)
        state = tl.dot(tl.trans(k), v, state)
        tl.store(o_ptrs, (o * scale).to(o_ptr.dtype.element_ty), mask=inside)
        q_ptrs += BT * D
        k_ptrs += BT * D
        v_ptrs += BT * DV
        o_ptrs += BT * DV
    tl.store(state_ptr + head * D * DV + ds[:, None] * DV + es[None, :], state)


@triton.jit
def linear_attention_backwards(
    q_ptr, do_ptr, dh_ptr, S, BT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """Gradients of the states, from the last chunk to the first: ``dh_c = sum over chunks u > c of q_u^T do_u``.

    In the style of flash-linear-attention's chunk_bwd_kernel_dh: the loop counts down, in 64 bits, and Q is loaded
    transposed. dH is (H, chunks, D, DV).
    """
    head = tl.program_id(0)
    ds = tl.arange(0, D)
    es = tl.arange(0, DV)
    chunks = tl.cdiv(S, BT)
    gradient = tl.zeros([D, DV], tl.float32)
    for c in range(chunks - 1, -1, -1):
        chunk = c.to(tl.int64)
        states = dh_ptr + (head * chunks + chunk) * D * DV
        tl.store(states + ds[:, None] * DV + es[None, :], gradient)
        times = chunk * BT + tl.arange(0, BT)
        q = tl.load(q_ptr + head * S * D + ds[:, None] + times[None, :] * D, mask=times[None, :] < S, other=0.0)
        do = tl.load(do_ptr + head * S * DV + times[:, None] * DV + es[None, :], mask=times[:, None] < S, other=0.0)
        gradient = tl.dot(q, do, gradient)


@triton.jit
def products_with_states(
    do_ptr, v_ptr, h_ptr, dh_ptr, dq_ptr, dk_ptr, S, BT: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """Gradients of a chunk's Q and K from the states, which are fp32: ``dq = dO @ H^T, dk = V @ dH^T``.

    In the style of flash-linear-attention's chunk_gla_bwd_kernel_inter: each iteration narrows two operands, and both
    dots may be in flight at once. H and dH are (H, chunks, D, DV), dQ and dK (H, S, D).
    """
    column = tl.program_id(0)
    chunk = tl.program_id(1)
    head = tl.program_id(2)
    times = chunk * BT + tl.arange(0, BT)
    ds = column * BD + tl.arange(0, BD)
    inside = times[:, None] < S
    states = (head * tl.cdiv(S, BT) + chunk) * D * DV
    dq = tl.zeros([BT, BD], tl.float32)
    dk = tl.zeros([BT, BD], tl.float32)
    for v in range(0, DV, BV):
        es = v + tl.arange(0, BV)
        rows = head * S * DV + times[:, None] * DV + es[None, :]
        do = tl.load(do_ptr + rows, mask=inside, other=0.0)
        values = tl.load(v_ptr + rows, mask=inside, other=0.0)
        h = tl.load(h_ptr + states + ds[None, :] * DV + es[:, None])
        dh = tl.load(dh_ptr + states + ds[None, :] * DV + es[:, None])
        dq = tl.dot(do, h.to(do.dtype), dq)
        dk = tl.dot(values, dh.to(values.dtype), dk)
    at = head * S * D + times[:, None] * D + ds[None, :]
    tl.store(dq_ptr + at, dq, mask=inside)
    tl.store(dk_ptr + at, dk, mask=inside)


@triton.jit
def chunk_output(
    q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, S, BT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """The output of a chunk from its state: ``o = exp2(g) * Q @ H + (exp2(g_t - g_u) * Q @ K^T for u <= t) @ V``.

    In the style of flash-linear-attention's chunk_fwd_kernel_o: no dot is in a loop, and a barrier stands before the
    last one. H is (H, chunks, D, DV) in the type of Q, G (H, S) in fp32.
    """
    chunk = tl.program_id(0)
    head = tl.program_id(1)
    times = chunk * BT + tl.arange(0, BT)
    ds = tl.arange(0, D)
    es = tl.arange(0, DV)
    inside = times < S
    rows = head * S * D + times[:, None] * D + ds[None, :]
    q = tl.load(q_ptr + rows, mask=inside[:, None], other=0.0)
    k = tl.load(k_ptr + rows, mask=inside[:, None], other=0.0)
    h = tl.load(h_ptr + (head * tl.cdiv(S, BT) + chunk) * D * DV + ds[:, None] * DV + es[None, :])
    g = tl.load(g_ptr + head * S + times, mask=inside, other=0.0)
    o = tl.dot(q, h) * tl.exp2(g)[:, None]
    s = tl.dot(q, tl.trans(k)) * tl.exp2(g[:, None] - g[None, :])
    s = tl.where(times[:, None] >= times[None, :], s, 0.0)
    tl.debug_barrier()
    values = head * S * DV + times[:, None] * DV + es[None, :]
    v = tl.load(v_ptr + values, mask=inside[:, None], other=0.0)
    o += tl.dot(s.to(v.dtype), v)
    tl.store(o_ptr + values, o.to(o_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def gemm_gate_up(
    a_ptr, b_ptr, u_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """silu(A @ B) * (A @ U): the tile of A feeds both dots."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    within = ks[:, None] * stride_bk + columns[None, :] * stride_bn
    gate = tl.zeros((BM, BN), dtype=tl.float32)
    up = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k, other=0.0)
        b = tl.load(b_ptr + k * stride_bk + within, mask=ks[:, None] < K - k, other=0.0)
        u = tl.load(u_ptr + k * stride_bk + within, mask=ks[:, None] < K - k, other=0.0)
        gate = tl.dot(a, b, gate)
        up = tl.dot(a, u, up)
        a_ptrs += BK * stride_ak
    store_tile(c_ptr, gate * tl.sigmoid(gate) * up, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_gram(
    a_ptr, c_ptr, M, K, stride_am, stride_ak, stride_cm, stride_cn, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Diagonal blocks of A @ A^T: one tile is both operands of the dot."""
    pm = tl.program_id(0)
    rows = (pm * BM + tl.arange(0, BM)) % M
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k, other=0.0)
        acc = tl.dot(a, tl.trans(a), acc)
        a_ptrs += BK * stride_ak
    store_tile(c_ptr, acc, pm, 0, M, BM, stride_cm, stride_cn, BM, BM)
