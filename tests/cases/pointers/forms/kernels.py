"""Kernels in plain Triton, each with one form of address or mask that packages for Triton use."""

import triton
import triton.language as tl


@triton.jit
def differences(
    q_ptr, k_ptr, o_ptr, S, H, stride_b, stride_h, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Sums of scores over all keys; the program id is taken apart by quotients and differences.

    Q and K are (B, H, S, D); O is (B, H, S, BN): ``o[:, j] = q @ sum of k[j + BN*i]``.
    """
    pid = tl.program_id(0)
    tiles = tl.cdiv(S, BM)
    both = pid // tiles
    tile = pid - both * tiles
    batch = both // H
    head = both - batch * H
    start = batch * stride_b + head * stride_h
    rows = tile * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    q = tl.load(q_ptr + start + rows[:, None] * D + ds[None, :], mask=rows[:, None] < S, other=0.0)
    acc = tl.zeros((BM, BN), tl.float32)
    for s in range(0, S, BN):
        keys = s + tl.arange(0, BN)
        k = tl.load(k_ptr + start + keys[:, None] * D + ds[None, :], mask=keys[:, None] < S, other=0.0)
        acc = tl.dot(q, tl.trans(k), acc)
    at = (both * S + rows)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(o_ptr + at, acc, mask=rows[:, None] < S)


@triton.jit
def chunk_states(
    x_ptr, b_ptr, state_ptr, S, P, N, chunk_size, stride_xs, stride_bs, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """The state of each chunk, ``X^T @ B`` over its rows; the last chunk is shorter.

    In the style of the chunk states of state-space models: the rows end with the chunk or with the sequence.
    """
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(P, BM) * tiles_n
    chunk = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    x_ptr += chunk * chunk_size * stride_xs
    b_ptr += chunk * chunk_size * stride_bs
    ms = tile // tiles_n * BM + tl.arange(0, BM)
    ns = tile % tiles_n * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    x_ptrs = x_ptr + ms[:, None] + ks[None, :] * stride_xs
    b_ptrs = b_ptr + ks[:, None] * stride_bs + ns[None, :]
    limit = min(chunk_size, S - chunk * chunk_size)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, limit, BK):
        x = tl.load(x_ptrs, mask=(ms[:, None] < P) & (ks[None, :] < limit - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < limit - k) & (ns[None, :] < N), other=0.0)
        acc = tl.dot(x, b, acc)
        x_ptrs += BK * stride_xs
        b_ptrs += BK * stride_bs
    inside = (ms[:, None] < P) & (ns[None, :] < N)
    tl.store(state_ptr + chunk * P * N + ms[:, None] * N + ns[None, :], acc, mask=inside)


@triton.jit
def masks_as_numbers(
    q_ptr, k_ptr, v_ptr, o_ptr, S, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Attention of one head. K is masked without `other`; the mask of V's columns is computed with numbers."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    es = tl.arange(0, COLUMNS)
    columns = tl.where(es < DV, 1, 0).to(tl.int1)
    q = tl.load(q_ptr + rows[:, None] * D + ds[None, :], mask=rows[:, None] < S, other=0.0)
    best = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, COLUMNS), tl.float32)
    for s in range(0, S, BN):
        keys = s + tl.arange(0, BN)
        k = tl.load(k_ptr + keys[None, :] * D + ds[:, None], mask=keys[None, :] < S)
        scores = tl.where(keys[None, :] < S, tl.dot(q, k) * scale, -float("inf"))
        most = tl.maximum(best, tl.max(scores, 1))
        p = tl.exp2(scores - most[:, None])
        less = tl.exp2(best - most)
        total = total * less + tl.sum(p, 1)
        v = tl.load(
            v_ptr + keys[:, None] * DV + es[None, :], mask=columns[None, :] & (keys[:, None] < S), other=0.0
        )  # fmt: skip
        acc = tl.dot(p.to(v.dtype), v, acc * less[:, None])
        best = most
    inside = (rows[:, None] < S) & (es[None, :] < DV)
    tl.store(o_ptr + rows[:, None] * DV + es[None, :], acc / total[:, None], mask=inside)


@triton.jit
def packed_heads(
    q_ptr, k_ptr, o_ptr, T, S, stride_t, stride_h, BT: tl.constexpr, BN: tl.constexpr, G: tl.constexpr,
    D: tl.constexpr, DIMS: tl.constexpr,
):  # fmt: skip
    """Scores summed over tokens. A tile has BT tokens with G heads each: ``o[g, j] = sum over t of q[t, g] @ k[t, j]``.

    DIMS is 2 if the rows of the tile count both, and 3 if the tile has three dimensions and is reshaped.
    """
    keys = tl.program_id(0) * BN + tl.arange(0, BN)
    ds = tl.arange(0, D)
    rows = tl.arange(0, BT * G)
    acc = tl.zeros((BT * G, BN), tl.float32)
    for t in range(0, T, BT):
        if DIMS == 2:
            tokens = t + rows // G
            at = tokens[:, None] * stride_t + (rows % G)[:, None] * stride_h + ds[None, :]
            q = tl.load(q_ptr + at, mask=tokens[:, None] < T, other=0.0)
        else:
            tokens = t + tl.arange(0, BT)
            heads = tl.arange(0, G)
            at = tokens[:, None, None] * stride_t + heads[None, :, None] * stride_h + ds[None, None, :]
            q = tl.reshape(tl.load(q_ptr + at, mask=tokens[:, None, None] < T, other=0.0), (BT * G, D))
        k = tl.load(k_ptr + (t // BT * S + keys)[:, None] * D + ds[None, :], mask=keys[:, None] < S, other=0.0)
        acc = tl.dot(q, tl.trans(k), acc)
    at = rows[:, None] * S + keys[None, :]
    tl.store(o_ptr + at, acc, mask=keys[None, :] < S)


@triton.jit
def reshaped_places(a_ptr, b_ptr, c_ptr, N, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles of A stand one after another in memory: their places are one range in the shape of a tile."""
    ks = tl.arange(0, BK)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    places = tl.reshape(tl.arange(0, BM * BK), (BM, BK))
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + (tl.program_id(0) * T + t) * BM * BK + places)
        b = tl.load(b_ptr + (t * BK + ks)[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)
        acc = tl.dot(a, b, acc)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=columns[None, :] < N)


@triton.jit
def flipped_rows(
    k_ptr, v_ptr, gate_ptr, state_ptr, S, M, N, L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A state that later gates scale down: ``K^T @ (exp(sum of the gates behind) * V)`` of each chunk of L rows.

    The sum runs from the last row of a chunk, by flips of a row of gates that begins one element behind the chunk's
    first: an address that no box of TMA has.
    """
    ms = tl.program_id(0) * BM + tl.arange(0, BM)
    ns = tl.program_id(1) * BN + tl.arange(0, BN)
    times = tl.arange(0, L)
    state = tl.zeros((BM, BN), tl.float32)
    for t in range(0, S, L):
        gates = tl.load(gate_ptr + t + times + 1, mask=times < L - 1, other=0.0)
        behind = tl.flip(tl.cumsum(tl.flip(gates, 0), 0), 0)
        k = tl.load(k_ptr + (t + times)[None, :] * M + ms[:, None])
        v = tl.load(v_ptr + (t + times)[:, None] * N + ns[None, :])
        state = tl.dot(k, (v * tl.exp2(behind)[:, None]).to(k.dtype), state)
    tl.store(state_ptr + ms[:, None] * N + ns[None, :], state)
