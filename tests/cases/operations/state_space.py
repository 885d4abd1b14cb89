"""The products of a state-space model by chunks (Mamba-2): C @ B^T, the state of each chunk, and the outputs.

Plain Triton, in the style of that package: tiles by strides, masks for the end of the chunk and of the sequence, gates
that scale one operand of a dot. X and the outputs are (batch, S, H, P), B and C (batch, S, G, N), where H / G heads
share one group; dt and the running sums of the decay are (batch, chunks, H, CHUNK), C @ B^T (batch, chunks, G, CHUNK,
CHUNK), states (batch, chunks, H, P, N). SEQUENCES: numbers in `sequence_ptr` say which rows belong together.
"""

import triton
import triton.language as tl


@triton.jit
def chunk_products(
    c_ptr, b_ptr, cb_ptr, sequence_ptr, chunk, S, N, G, chunks, stride_ct, stride_cg, stride_bt, stride_bg, stride_cbz,
    stride_cbm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SEQUENCES: tl.constexpr,
):  # fmt: skip
    """C @ B^T within a chunk; tiles above the diagonal are left out."""
    num_n = tl.cdiv(chunk, BN)
    pm = tl.program_id(0) // num_n
    pn = tl.program_id(0) % num_n
    z = tl.program_id(1)
    if pn * BN >= (pm + 1) * BM:
        return
    g = z % G
    first = z // G % chunks * chunk
    batch = z // G // chunks
    c_ptr += (batch * S + first) * stride_ct + g * stride_cg
    b_ptr += (batch * S + first) * stride_bt + g * stride_bg
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    c_ptrs = c_ptr + rows[:, None] * stride_ct + ks[None, :]
    b_ptrs = b_ptr + columns[None, :] * stride_bt + ks[:, None]
    limit = min(chunk, S - first)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(N, BK)):
        c = tl.load(c_ptrs, mask=(rows[:, None] < limit) & (ks[None, :] < N - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < N - k * BK) & (columns[None, :] < limit), other=0.0)
        acc += tl.dot(c, b)
        c_ptrs += BK
        b_ptrs += BK
    if SEQUENCES:
        sequence_ptr += batch * S + first
        of_row = tl.load(sequence_ptr + rows, mask=rows < limit, other=-1)
        of_column = tl.load(sequence_ptr + columns, mask=columns < limit, other=-2)
        acc = tl.where(of_row[:, None] == of_column[None, :], acc, 0.0)
    out = cb_ptr + z * stride_cbz + rows[:, None] * stride_cbm + columns[None, :]
    inside = (rows[:, None] < chunk) & (columns[None, :] < chunk)
    tl.store(out, acc.to(cb_ptr.dtype.element_ty), mask=inside)


@triton.jit
def chunk_states(
    x_ptr, b_ptr, states_ptr, dt_ptr, decay_ptr, sequence_ptr, chunk, S, P, N, H, heads_per_group, chunks, stride_xt,
    stride_xh, stride_bt, stride_bg, stride_sz, stride_sp, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    SEQUENCES: tl.constexpr,
):  # fmt: skip
    """The state that a chunk adds: X^T @ (B * gates); X is loaded transposed, B is scaled in fp32."""
    num_n = tl.cdiv(N, BN)
    pm = tl.program_id(0) // num_n
    pn = tl.program_id(0) % num_n
    z = tl.program_id(1)
    h = z % H
    first = z // H % chunks * chunk
    batch = z // H // chunks
    x_ptr += (batch * S + first) * stride_xt + h * stride_xh
    b_ptr += (batch * S + first) * stride_bt + h // heads_per_group * stride_bg
    dt_ptr += z * chunk
    decay_ptr += z * chunk
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    times = tl.arange(0, BK)
    x_ptrs = x_ptr + rows[:, None] + times[None, :] * stride_xt
    b_ptrs = b_ptr + columns[None, :] + times[:, None] * stride_bt
    dt_ptrs = dt_ptr + times
    decay_ptrs = decay_ptr + times
    last = tl.load(decay_ptr + chunk - 1).to(tl.float32)
    limit = min(chunk, S - first)
    if SEQUENCES:
        sequence_ptr += batch * S + first
        of_last = tl.load(sequence_ptr + limit - 1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, limit, BK):
        x = tl.load(x_ptrs, mask=(rows[:, None] < P) & (times[None, :] < limit - k), other=0.0)
        b = tl.load(b_ptrs, mask=(times[:, None] < limit - k) & (columns[None, :] < N), other=0.0).to(tl.float32)
        decay = tl.load(decay_ptrs, mask=times < limit - k, other=0.0).to(tl.float32)
        dt = tl.load(dt_ptrs, mask=times < limit - k, other=0.0).to(tl.float32)
        scale = tl.exp(tl.minimum(last - decay, 0.0)) * dt
        if SEQUENCES:
            of_row = tl.load(sequence_ptr + k + times, mask=times < limit - k, other=-1)
            scale = tl.where(of_row == of_last, scale, 0.0)
        b *= scale[:, None]
        acc += tl.dot(x, b.to(x_ptr.dtype.element_ty))
        x_ptrs += BK * stride_xt
        b_ptrs += BK * stride_bt
        dt_ptrs += BK
        decay_ptrs += BK
    out = states_ptr + z * stride_sz + rows[:, None] * stride_sp + columns[None, :]
    inside = (rows[:, None] < P) & (columns[None, :] < N)
    tl.store(out, acc.to(states_ptr.dtype.element_ty), mask=inside)


@triton.jit
def chunk_scan(
    cb_ptr, x_ptr, z_ptr, out_ptr, dt_ptr, decay_ptr, sequence_ptr, c_ptr, states_ptr, d_ptr, chunk, S, P, N, H,
    heads_per_group, chunks, stride_cbz, stride_cbm, stride_xt, stride_xh, stride_ct, stride_cg, stride_sz, stride_sp,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCK_N: tl.constexpr, GATED: tl.constexpr,
    SEQUENCES: tl.constexpr,
):  # fmt: skip
    """Outputs of a chunk: what the previous state gives, and the causal product of C @ B^T, gated, with X."""
    num_n = tl.cdiv(P, BN)
    pm = tl.program_id(0) // num_n
    pn = tl.program_id(0) % num_n
    z = tl.program_id(1)
    h = z % H
    c = z // H % chunks
    first = c * chunk
    batch = z // H // chunks
    group = h // heads_per_group
    groups = H // heads_per_group
    cb_ptr += (z // H * groups + group) * stride_cbz
    x_ptr += (batch * S + first) * stride_xt + h * stride_xh
    c_ptr += (batch * S + first) * stride_ct + group * stride_cg
    dt_ptr += z * chunk
    decay_ptr += z * chunk
    states_ptr += z * stride_sz
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    limit = min(chunk, S - first)
    decay_m = tl.load(decay_ptr + rows, mask=rows < chunk, other=0.0).to(tl.float32)
    scale = tl.exp(decay_m)
    if SEQUENCES:
        sequence_ptr += batch * S + first
        before = tl.load(sequence_ptr - 1, mask=c >= 1, other=0)
        of_row = tl.load(sequence_ptr + rows, mask=rows < limit, other=-1)
        scale = tl.where(of_row == before, scale, 0.0)
    ns = tl.arange(0, BLOCK_N if BLOCK_N <= 128 else BK)
    c_ptrs = c_ptr + rows[:, None] * stride_ct + ns[None, :]
    states_ptrs = states_ptr + columns[None, :] * stride_sp + ns[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    if BLOCK_N <= 128:
        left = tl.load(c_ptrs, mask=(rows[:, None] < limit) & (ns[None, :] < N), other=0.0)
        right = tl.load(states_ptrs, mask=(ns[:, None] < N) & (columns[None, :] < P), other=0.0)
        acc = tl.dot(left, right.to(c_ptr.dtype.element_ty)) * scale[:, None]
    else:
        for k in range(0, N, BK):
            left = tl.load(c_ptrs, mask=(rows[:, None] < limit) & (ns[None, :] < N - k), other=0.0)
            right = tl.load(states_ptrs, mask=(ns[:, None] < N - k) & (columns[None, :] < P), other=0.0)
            acc += tl.dot(left, right.to(c_ptr.dtype.element_ty))
            c_ptrs += BK
            states_ptrs += BK
        acc *= scale[:, None]
    ks = tl.arange(0, BK)
    cb_ptrs = cb_ptr + rows[:, None] * stride_cbm + ks[None, :]
    x_ptrs = x_ptr + ks[:, None] * stride_xt + columns[None, :]
    dt_ptrs = dt_ptr + ks
    decay_ptrs = decay_ptr + ks
    end = min((pm + 1) * BM, limit)
    for k in range(0, end, BK):
        cb = tl.load(cb_ptrs, mask=(rows[:, None] < chunk) & (ks[None, :] < chunk - k), other=0.0).to(tl.float32)
        decay_k = tl.load(decay_ptrs, mask=ks < chunk - k, other=0.0).to(tl.float32)
        cb *= tl.exp(decay_m[:, None] - decay_k[None, :])
        cb *= tl.load(dt_ptrs, mask=ks < chunk - k, other=0.0).to(tl.float32)
        cb = tl.where(rows[:, None] >= k + ks[None, :], cb, 0.0).to(x_ptr.dtype.element_ty)
        x = tl.load(x_ptrs, mask=(ks[:, None] < limit - k) & (columns[None, :] < P), other=0.0)
        acc += tl.dot(cb, x)
        cb_ptrs += BK
        x_ptrs += BK * stride_xt
        dt_ptrs += BK
        decay_ptrs += BK
    inside = (rows[:, None] < limit) & (columns[None, :] < P)
    within = rows[:, None] * stride_xt + columns[None, :]
    skip = tl.load(x_ptr + within, mask=inside, other=0.0).to(tl.float32)
    acc += skip * tl.load(d_ptr + h).to(tl.float32)
    offset = (batch * S + first) * stride_xt + h * stride_xh
    if GATED:
        gate = tl.load(z_ptr + offset + within, mask=inside, other=0.0).to(tl.float32)
        acc *= gate * tl.sigmoid(gate)
    tl.store(out_ptr + offset + within, acc.to(out_ptr.dtype.element_ty), mask=inside)
