"""Kernels that load through pointers in different ways; `tests/matrix/test_promoted.py` has the verdicts on the loads.

Letters: M N K of a GEMM, Z batches, H heads, S positions, D head size, L blocks of a list; BM, BN, BK tiles of them.
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl


@triton.jit
def grouped_pids(M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """Tiles in groups of rows, as Triton's tutorial 03 orders them."""
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BM)
    num_pid_n = tl.cdiv(N, BN)
    in_group = GROUP_M * num_pid_n
    group = pid // in_group
    first = group * GROUP_M
    size = min(num_pid_m - first, GROUP_M)
    return first + ((pid % in_group) % size), (pid % in_group) // size


@triton.jit
def tutorial_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, ASSUME: tl.constexpr,
):  # fmt: skip
    """Triton's tutorial 03: rows and columns wrap around, only K is masked, pointers move."""
    pid_m, pid_n = grouped_pids(M, N, BM, BN, GROUP_M)
    if ASSUME:
        tl.assume(pid_m >= 0)
        tl.assume(pid_n >= 0)
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    columns = (pid_n * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    rows_c = pid_m * BM + tl.arange(0, BM)
    columns_c = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * rows_c[:, None] + stride_cn * columns_c[None, :]
    inside = (rows_c[:, None] < M) & (columns_c[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def wrapped_sum(a_ptr, b_ptr, c_ptr, s_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows wrap around, and their sum is stored, so that out-of-bounds rows are visible."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :], mask=(k + ks)[None, :] < K, other=0.0)
        inside = ((k + ks)[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :], mask=inside, other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(s_ptr + pm * N + columns, tl.sum(acc, axis=0), mask=columns < N)


@triton.jit
def masked_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASK: tl.constexpr, MOVE: tl.constexpr,
):  # fmt: skip
    """All masks written out, or none. MOVE: pointers move; otherwise addresses are recomputed from k."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        if MOVE:
            a_at, b_at = a_ptrs, b_ptrs
        else:
            a_at, b_at = a_ptrs + k * stride_ak, b_ptrs + k * stride_bk
        if MASK:
            a = tl.load(a_at, mask=(rows < M)[:, None] & (ks + k < K)[None, :], other=0.0)
            inside = (ks + k < K)[:, None] & (N > columns)[None, :]  # noqa: SIM300 - the other way round
            b = tl.load(b_at, mask=inside, other=0.0)
        else:
            a = tl.load(a_at)
            b = tl.load(b_at)
        acc = tl.dot(a, b, acc)
        if MOVE:
            a_ptrs += BK * stride_ak
            b_ptrs += BK * stride_bk
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def batched_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_az, stride_am, stride_bz, stride_bk, stride_cz, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One matrix of a batch per program: its offset is the product of a program id and a stride."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    z = tl.program_id(2)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + z * stride_az + rows[:, None] * stride_am + ks[None, :]
    b_ptrs = b_ptr + z * stride_bz + ks[:, None] * stride_bk + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k * BK) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * stride_bk
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    c_ptrs = c_ptr + z * stride_cz + stride_cm * rows[:, None] + columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def persistent_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Persistent; pointers are recomputed for each tile, out-of-bounds rows become row 0."""
    num_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * num_n
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        pm = tile // num_n
        pn = tile % num_n
        rows = pm * BM + tl.arange(0, BM)
        columns = pn * BN + tl.arange(0, BN)
        rows_a = tl.where(rows < M, rows, 0)
        columns_b = tl.where(columns < N, columns, 0)
        ks = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            at = k * BK + ks
            a = tl.load(a_ptr + rows_a[:, None] * stride_am + at[None, :], mask=ks[None, :] < K - k * BK, other=0.0)
            b = tl.load(b_ptr + at[:, None] * stride_bk + columns_b[None, :], mask=ks[:, None] < K - k * BK, other=0.0)
            acc = tl.dot(a, b, acc)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(c_ptr + stride_cm * rows[:, None] + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, stride_b, stride_h, stride_s, H, S, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Forward attention: K is loaded transposed, pointers move along the keys, batch and head from one program id."""
    start = tl.program_id(0)
    b = tl.program_id(1) // H
    h = tl.program_id(1) % H
    base = b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
    rows = start * BM + tl.arange(0, BM)
    keys = tl.arange(0, BN)
    ds = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * stride_s + ds[None, :], mask=rows[:, None] < S, other=0.0)
    k_ptrs = k_ptr + base + keys[None, :] * stride_s + ds[:, None]
    v_ptrs = v_ptr + base + keys[:, None] * stride_s + ds[None, :]
    m_i = tl.full([BM], -1.0e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = tl.minimum((start + 1) * BM, S) if CAUSAL else S
    for n in range(0, end, BN):
        n = tl.multiple_of(n, BN)
        if MASK:
            k = tl.load(k_ptrs, mask=n + keys[None, :] < S, other=0.0)
            v = tl.load(v_ptrs, mask=n + keys[:, None] < S, other=0.0)
        else:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        s = tl.dot(q, k) * scale
        visible = n + keys[None, :] < S
        if CAUSAL:
            visible = visible & (rows[:, None] >= n + keys[None, :])
        s = tl.where(visible, s, -1.0e30)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
        k_ptrs += BN * stride_s
        v_ptrs += BN * stride_s
    o_ptrs = o_ptr + base + rows[:, None] * stride_s + ds[None, :]
    tl.store(o_ptrs, (acc / l_i[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < S)


@triton.jit
def listed_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, list_ptr, count_ptr, stride_h, stride_s, S, L, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, JUMP: tl.constexpr,
):  # fmt: skip
    """Key blocks come from a list in memory. JUMP: pointers move from one to the next, as in FlexAttention."""
    start = tl.program_id(0)
    h = tl.program_id(1)
    rows = start * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    q = tl.load(q_ptr + h * stride_h + rows[:, None] * stride_s + ds[None, :], mask=rows[:, None] < S, other=0.0)
    k_base = k_ptr + h * stride_h
    v_base = v_ptr + h * stride_h
    entry = list_ptr + start * L
    count = tl.load(count_ptr + start)
    first = tl.load(entry) * BN
    keys = first + tl.arange(0, BN)
    m_i = tl.full([BM], -1.0e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for i in range(count):
        if not JUMP:
            keys = tl.load(entry + i) * BN + tl.arange(0, BN)
        k = tl.load(k_base + keys[None, :] * stride_s + ds[:, None], mask=keys[None, :] < S, other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where(keys[None, :] < S, s, -1.0e30)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_base + keys[:, None] * stride_s + ds[None, :], mask=keys[:, None] < S, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
        if JUMP:
            here = tl.load(entry + i)
            there = tl.load(entry + i + 1, mask=i + 1 < count, other=0)
            keys += (there - here) * BN
    o_ptrs = o_ptr + h * stride_h + rows[:, None] * stride_s + ds[None, :]
    tl.store(o_ptrs, (acc / l_i[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < S)


@triton.jit
def grouped_gemm(
    pointers_ptr, sizes_ptr, problems, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Triton's tutorial 08: the pointers of each problem are loaded from memory."""
    for g in range(problems):
        a_ptr = tl.load(pointers_ptr + 3 * g).to(tl.pointer_type(tl.float16))
        b_ptr = tl.load(pointers_ptr + 3 * g + 1).to(tl.pointer_type(tl.float16))
        c_ptr = tl.load(pointers_ptr + 3 * g + 2).to(tl.pointer_type(tl.float16))
        M = tl.load(sizes_ptr + g)
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        columns = tl.arange(0, BN)
        ks = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :], mask=rows[:, None] < M, other=0.0)
            b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(tl.float16), mask=rows[:, None] < M)


@triton.jit
def gathered_gemm(a_ptr, b_ptr, c_ptr, index_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The rows of A are gathered through an index array; B is plain."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    source = tl.load(index_ptr + rows, mask=rows < M, other=0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + source[:, None] * K + (k + ks)[None, :], mask=(k + ks)[None, :] < K, other=0.0)
        inside = ((k + ks)[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :], mask=inside, other=0.0)
        acc = tl.dot(a, b, acc)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def ragged_gemm(
    a_ptr, b_ptr, c_ptr, starts_ptr, N, K, stride_bz, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Rows of A in groups whose first rows are in an array; each group has a matrix B of its own."""
    z = tl.program_id(2)
    start = tl.load(starts_ptr + z)
    M = tl.load(starts_ptr + z + 1) - start
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inside = (rows[:, None] < M) & ((k + ks)[None, :] < K)
        a = tl.load(a_ptr + (start + rows)[:, None] * K + (k + ks)[None, :], mask=inside, other=0.0)
        inside = ((k + ks)[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + z * stride_bz + (k + ks)[:, None] * N + columns[None, :], mask=inside, other=0.0)
        acc = tl.dot(a, b, acc)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + (start + rows)[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def block_pointer_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Block pointers that are moved through K."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_block = tl.make_block_ptr(a_ptr, (M, K), (stride_am, 1), (pm * BM, 0), (BM, BK), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, 1), (0, pn * BN), (BK, BN), (1, 0))
    c_block = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    tl.store(c_block, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def windowed_gemm(a_ptr, b_ptr, c_ptr, M, N, K, shift, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows of A before the first and past the last are zero; tiles with only such rows skip their loop."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM) - BM
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inside = (rows[:, None] >= 0) & (rows[:, None] < M) & ((k + ks)[None, :] < K) & (k < shift)
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :], mask=inside, other=0.0)
        inside = ((k + ks)[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :], mask=inside, other=0.0)
        acc = tl.dot(a, b, acc)
    rows_c = pm * BM + tl.arange(0, BM)
    inside = (rows_c[:, None] < M + BM) & (columns[None, :] < N)
    tl.store(c_ptr + rows_c[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def flex_jump(indices, i, count, SPARSE: tl.constexpr, MULTIPLE: tl.constexpr, BN: tl.constexpr):
    """The distance from key block i to the next one: inside a sparse block, or to the next block of the list."""
    block = i // MULTIPLE
    here = tl.load(indices + block)
    there = tl.load(indices + block + 1, mask=block + 1 < count, other=0)
    jumps = (i + 1) % MULTIPLE == 0
    jump = (there - here) * SPARSE - (MULTIPLE - 1) * BN
    return jump * jumps + (1 - jumps) * BN


@triton.jit
def flex_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, list_ptr, count_ptr, S, L, scale,
    STRIDE_H: tl.constexpr, STRIDE_S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    SPARSE: tl.constexpr, GROUP: tl.constexpr, DIVISIBLE: tl.constexpr,
):  # fmt: skip
    """Like FlexAttention's template: constant strides, a running offset of the keys, K loaded plain and transposed."""
    start = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    MULTIPLE: tl.constexpr = SPARSE // BN
    rows = start * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    q_at = q_ptr + h * STRIDE_H + rows[:, None] * STRIDE_S + ds[None, :]
    q = tl.load(q_at, mask=rows[:, None] < S, other=0.0)
    k_base = k_ptr + (h // GROUP) * STRIDE_H
    v_base = v_ptr + (h // GROUP) * STRIDE_H
    indices = list_ptr + start * L
    blocks = tl.load(count_ptr + start)
    first = tl.load(indices) * SPARSE
    last = tl.minimum(blocks * MULTIPLE, tl.maximum(tl.cdiv(S, BN), 1))
    keys = first + tl.arange(0, BN)
    moved = 0
    m_i = tl.full([BM], -1.0e30, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for i in range(last):
        at = first + moved + tl.arange(0, BN)
        if DIVISIBLE:
            k = tl.load(k_base + at[:, None] * STRIDE_S + ds[None, :])
            v = tl.load(v_base + at[:, None] * STRIDE_S + ds[None, :])
        else:
            k = tl.load(k_base + at[:, None] * STRIDE_S + ds[None, :], mask=at[:, None] < S, other=0.0)
            v = tl.load(v_base + at[:, None] * STRIDE_S + ds[None, :], mask=at[:, None] < S, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(keys[None, :] < S, s, -1.0e30)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
        jump = flex_jump(indices, i, blocks, SPARSE, MULTIPLE, BN)
        keys = keys + jump
        moved += jump
    o_ptrs = o_ptr + h * STRIDE_H + rows[:, None] * STRIDE_S + ds[None, :]
    tl.store(o_ptrs, (acc / l_i[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < S)


@triton.jit
def odd_loop_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, first, last, skip,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STEP: tl.constexpr, FORM: tl.constexpr,
):  # fmt: skip
    """A part of K, from block `first` to block `last`, STEP at a time; FORM: how addresses and masks are written."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = skip + pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * K + (first * BK + ks)[None, :]
    b_row = b_ptr + first * BK * N
    b_ptrs = b_row + ks[:, None] * N + columns[None, :]
    at = first * BK
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(first, last, STEP):
        if FORM == 0:  # one number is carried, everything else is recomputed
            inside_a = (rows[:, None] <= M - 1) & (at + ks[None, :] <= K - 1)
            a = tl.load(a_ptr + rows[:, None] * K + at + ks[None, :], mask=inside_a, other=0.0)
            inside_b = (at + ks[:, None] < K) & (columns[None, :] < N)
            b = tl.load(b_ptr + (at + ks[:, None]) * N + columns[None, :], mask=inside_b, other=0.0)
            at += BK * STEP
        elif FORM == 1:  # pointers move
            inside_a = (rows[:, None] < M) & (ks[None, :] < K - i * BK)
            a = tl.load(a_ptrs, mask=inside_a, other=0.0)
            inside_b = (ks[:, None] < K - i * BK) & (columns[None, :] < N)
            b = tl.load(b_ptrs, mask=inside_b, other=0.0)
            a_ptrs += BK * STEP
            b_ptrs += BK * STEP * N
        else:  # scalar pointers move, and the mask is made of two bounds
            here = i * BK
            inside_a = (rows[:, None] < M) & (here + ks[None, :] < K) & (here + ks[None, :] < last * BK)
            a = tl.load(a_ptr + rows[:, None] * K + (here + ks)[None, :], mask=inside_a, other=0.0)
            inside_b = (here + ks[:, None] < K) & (columns[None, :] < N)
            b = tl.load(b_row + ks[:, None] * N + columns[None, :], mask=inside_b, other=0.0)
            b_row += BK * STEP * N
        acc = tl.dot(a, b, acc)
    rows_c = pm * BM + tl.arange(0, BM)
    inside = (rows_c[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows_c[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def tutorial_persistent_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr,
):  # fmt: skip
    """Triton's tutorial 09 with pointers: the epilogue has its own tile counter."""
    start = tl.program_id(axis=0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    in_group = GROUP_M * num_n
    tile_c = start - PROGRAMS
    ks = tl.arange(0, BK)
    for tile in tl.range(start, num_m * num_n, PROGRAMS, flatten=FLATTEN):
        first = tile // in_group * GROUP_M
        size = min(num_m - first, GROUP_M)
        rows = (first + tile % size) * BM + tl.arange(0, BM)
        columns = (tile % in_group // size) * BN + tl.arange(0, BN)
        rows = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), BM), BM)
        columns = tl.max_contiguous(tl.multiple_of(tl.where(columns < N, columns, 0), BN), BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(tl.cdiv(K, BK)):
            at = ki * BK + tl.arange(0, BK)
            a_at = a_ptr + (rows[:, None] * stride_am + at[None, :] * stride_ak)
            b_at = b_ptr + (at[:, None] * stride_bk + columns[None, :] * stride_bn)
            a = tl.load(a_at, mask=ks[None, :] < K - ki * BK, other=0.0)
            b = tl.load(b_at, mask=ks[:, None] < K - ki * BK, other=0.0)
            acc = tl.dot(a, b, acc)
        tile_c += PROGRAMS
        first = tile_c // in_group * GROUP_M
        size = min(num_m - first, GROUP_M)
        rows_c = (first + tile_c % size) * BM + tl.arange(0, BM)
        columns_c = (tile_c % in_group // size) * BN + tl.arange(0, BN)
        c_at = c_ptr + stride_cm * rows_c[:, None] + stride_cn * columns_c[None, :]
        inside = (rows_c[:, None] < M) & (columns_c[None, :] < N)
        tl.store(c_at, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def dequantised_gemm(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """B in 8-bit integers with a scale for each column: converted before the dot."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inside = (rows[:, None] < M) & ((k + ks)[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :], mask=inside, other=0.0)
        inside = ((k + ks)[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :], mask=inside, other=0)
        acc = tl.dot(a, b.to(a.dtype), acc)
    acc *= tl.load(scale_ptr + columns, mask=columns < N, other=0.0)[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def walking_gemm(
    a_ptr, b_ptr, c_ptr, list_ptr, M, N, K, first, skip,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Blocks of K in the order of a list; the pointers of A and B move back and forth from block `first`."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    at = first * BK + ks
    moved = 0
    a_ptrs = a_ptr + rows[:, None] * K + at[None, :]
    b_ptrs = b_ptr + at[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(skip):
        if MASK:
            a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (first * BK + moved + ks[None, :] < K), other=0.0)
            b = tl.load(b_ptrs, mask=(first * BK + moved + ks[:, None] < K) & (columns[None, :] < N), other=0.0)
        else:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        acc = tl.dot(a, b, acc)
        jump = tl.load(list_ptr + i) * BK
        moved += jump
        a_ptrs += jump
        b_ptrs += jump * N
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def neighbours(
    a_ptr, b_ptr, c_ptr, places_ptr, T, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Each block of rows sums over its neighbours; a list has their distances in elements."""
    pid = tl.program_id(0)
    rows = pid * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for t in range(T):
        far = tl.multiple_of(tl.load(places_ptr + pid * T + t), 32)
        a = tl.load(a_ptr + rows[:, None] * stride + far + ks[None, :])
        b = tl.load(b_ptr + (t * BK + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def halves(
    a_ptr, b_ptr, c_ptr, n, K, causal, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Two numbers from a branch; a hint says that one is a multiple, the loop begins at the other."""
    pid = tl.program_id(0)
    if causal > 0:
        low = pid * BK
        high = n + 2
    else:
        low = 0
        high = n + 1
    low = tl.multiple_of(low, BK)
    rows = pid * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(high, K - BK, BK):
        a = tl.load(a_ptr + rows[:, None] * stride + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    inside = columns[None, :] >= low - low
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def halved_gemm(
    a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FORM: tl.constexpr
):  # fmt: skip
    """Half of an index in steps of BK, as for operands of 4 bits in bytes."""
    half: tl.constexpr = BK // 2
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        if FORM == "quotient":
            hs = k // 2 + tl.arange(0, half)
        elif FORM == "shift":
            hs = (k >> 1) + tl.arange(0, half)
        elif FORM == "rounded up":
            hs = tl.cdiv(k, 2) + tl.arange(0, half)
        else:
            hs = k // BK * half + tl.arange(0, half)
        a = tl.load(a_ptr + rows[:, None] * (K // 2) + hs[None, :])
        b = tl.load(b_ptr + hs[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def codes_and_table(
    a_ptr, q_ptr, t_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """A tile of codes that is an operand and also has the addresses of another operand."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        q = tl.load(q_ptr + (k + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, tl.load(t_ptr + q), acc)
        acc = tl.dot(a, q.to(tl.float16), acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))
