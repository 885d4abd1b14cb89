"""Products that are described by lists in memory: grouped GEMM, and the gathered rows of a mixture of experts.

Plain Triton; letters as in `gemm.py`. Addresses and sizes of the loads depend on memory.
"""

import triton
import triton.language as tl

ELEMENTS = {"fp16": tl.float16, "bf16": tl.bfloat16, "fp8e4nv": tl.float8e4nv, "fp8e5": tl.float8e5}
"""The element type behind an address, by Triton's name."""


@triton.jit
def gemm_grouped(
    a_addresses, b_addresses, c_addresses, sizes_ptr, strides_ptr, GROUPS,
    PROGRAMS: tl.constexpr, ELEMENT: tl.constexpr, OUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """After Triton's tutorial 08: lists of base addresses, of (M, N, K) and of leading strides; no edges."""
    tile = tl.program_id(0)
    end = 0
    for g in range(GROUPS):
        m = tl.load(sizes_ptr + g * 3)
        n = tl.load(sizes_ptr + g * 3 + 1)
        k = tl.load(sizes_ptr + g * 3 + 2)
        num_n = tl.cdiv(n, BN)
        begin = end
        end += tl.cdiv(m, BM) * num_n
        while tile >= begin and tile < end:
            lda = tl.load(strides_ptr + g * 3)
            ldb = tl.load(strides_ptr + g * 3 + 1)
            ldc = tl.load(strides_ptr + g * 3 + 2)
            a_ptr = tl.load(a_addresses + g).to(tl.pointer_type(ELEMENT))
            b_ptr = tl.load(b_addresses + g).to(tl.pointer_type(ELEMENT))
            c_ptr = tl.load(c_addresses + g).to(tl.pointer_type(OUT))
            pm = (tile - begin) // num_n
            pn = (tile - begin) % num_n
            rows = pm * BM + tl.arange(0, BM)
            columns = pn * BN + tl.arange(0, BN)
            ks = tl.arange(0, BK)
            a_ptrs = a_ptr + rows[:, None] * lda + ks[None, :]
            b_ptrs = b_ptr + ks[:, None] * ldb + columns[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(tl.cdiv(k, BK)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs)
                b = tl.load(b_ptrs)
                acc += tl.dot(a, b)
                a_ptrs += BK
                b_ptrs += BK * ldb
            tl.store(c_ptr + rows[:, None] * ldc + columns[None, :], acc.to(OUT))
            tile += PROGRAMS


@triton.jit
def gemm_grouped_tma(
    a_addresses, b_addresses, c_addresses, sizes_ptr, strides_ptr, GROUPS,
    PROGRAMS: tl.constexpr, ELEMENT: tl.constexpr, OUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """The same with descriptors made in the kernel, once for each group of a program; B is (N, K)."""
    tile = tl.program_id(0)
    end = 0
    for g in range(GROUPS):
        m = tl.load(sizes_ptr + g * 3)
        n = tl.load(sizes_ptr + g * 3 + 1)
        k = tl.load(sizes_ptr + g * 3 + 2)
        num_n = tl.cdiv(n, BN)
        begin = end
        end += tl.cdiv(m, BM) * num_n
        if tile >= begin and tile < end:
            lda = tl.load(strides_ptr + g * 3)
            ldb = tl.load(strides_ptr + g * 3 + 1)
            ldc = tl.load(strides_ptr + g * 3 + 2)
            a_ptr = tl.load(a_addresses + g).to(tl.pointer_type(ELEMENT))
            b_ptr = tl.load(b_addresses + g).to(tl.pointer_type(ELEMENT))
            c_ptr = tl.load(c_addresses + g).to(tl.pointer_type(OUT))
            a_desc = tl.make_tensor_descriptor(a_ptr, shape=[m, k], strides=[lda, 1], block_shape=[BM, BK])
            b_desc = tl.make_tensor_descriptor(b_ptr, shape=[n, k], strides=[ldb, 1], block_shape=[BN, BK])
            c_desc = tl.make_tensor_descriptor(c_ptr, shape=[m, n], strides=[ldc, 1], block_shape=[BM, BN])
            while tile >= begin and tile < end:
                pm = (tile - begin) // num_n
                pn = (tile - begin) % num_n
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for i in range(tl.cdiv(k, BK)):
                    a = a_desc.load([pm * BM, i * BK])
                    b = b_desc.load([pn * BN, i * BK])
                    acc += tl.dot(a, b.T)
                c_desc.store([pm * BM, pn * BN], acc.to(OUT))
                tile += PROGRAMS


@triton.jit
def gemm_grouped_anew(
    a_addresses, b_addresses, c_addresses, sizes_ptr, strides_ptr, GROUPS,
    PROGRAMS: tl.constexpr, ELEMENT: tl.constexpr, OUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """The same with descriptors made for each tile, although that of B does not change within a group."""
    tile = tl.program_id(0)
    end = 0
    for g in range(GROUPS):
        m = tl.load(sizes_ptr + g * 3)
        n = tl.load(sizes_ptr + g * 3 + 1)
        k = tl.load(sizes_ptr + g * 3 + 2)
        num_n = tl.cdiv(n, BN)
        begin = end
        end += tl.cdiv(m, BM) * num_n
        lda = tl.load(strides_ptr + g * 3)
        ldb = tl.load(strides_ptr + g * 3 + 1)
        ldc = tl.load(strides_ptr + g * 3 + 2)
        b_ptr = tl.load(b_addresses + g).to(tl.pointer_type(ELEMENT))
        c_ptr = tl.load(c_addresses + g).to(tl.pointer_type(OUT))
        while tile >= begin and tile < end:
            a_ptr = tl.load(a_addresses + g).to(tl.pointer_type(ELEMENT))
            a_desc = tl.make_tensor_descriptor(a_ptr, shape=[m, k], strides=[lda, 1], block_shape=[BM, BK])
            b_desc = tl.make_tensor_descriptor(b_ptr, shape=[n, k], strides=[ldb, 1], block_shape=[BN, BK])
            c_desc = tl.make_tensor_descriptor(c_ptr, shape=[m, n], strides=[ldc, 1], block_shape=[BM, BN])
            pm = (tile - begin) // num_n
            pn = (tile - begin) % num_n
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for i in range(tl.cdiv(k, BK)):
                acc += tl.dot(a_desc.load([pm * BM, i * BK]), b_desc.load([pn * BN, i * BK]).T)
            c_desc.store([pm * BM, pn * BN], acc.to(OUT))
            tile += PROGRAMS


@triton.jit
def gemm_chain(x_addresses, b_addresses, STEPS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """X @ B is the next X, repeatedly, BN wide: one table has the addresses of both loads and stores."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    for g in range(STEPS):
        x_ptrs = tl.load(x_addresses + g).to(tl.pointer_type(tl.float16)) + rows[:, None] * BN + ks[None, :]
        b_ptrs = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16)) + ks[:, None] * BN + columns[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for _ in range(0, BN, BK):
            acc = tl.dot(tl.load(x_ptrs), tl.load(b_ptrs), acc)
            x_ptrs += BK
            b_ptrs += BK * BN
        y_ptr = tl.load(x_addresses + g + 1).to(tl.pointer_type(tl.float16))
        tl.store(y_ptr + rows[:, None] * BN + columns[None, :], acc.to(tl.float16))


@triton.jit
def gemm_offsets(
    a_ptr, b_ptr, c_ptr, offsets_ptr, N, K, stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm,
    stride_cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Grouped product of stacked rows: group e has the rows offsets[e] .. offsets[e + 1] of A, and the matrix B[e]."""
    e = tl.program_id(2)
    first = tl.load(offsets_ptr + e)
    last = tl.load(offsets_ptr + e + 1)
    row = first + tl.program_id(0) * BM
    if row < last:
        rows = row + tl.arange(0, BM)
        columns = tl.program_id(1) * BN + tl.arange(0, BN)
        ks = tl.arange(0, BK)
        a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
        b_ptrs = b_ptr + e * stride_be + ks[:, None] * stride_bk + columns[None, :] * stride_bn
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = tl.load(a_ptrs, mask=(rows[:, None] < last) & (ks[None, :] < K - k), other=0.0)
            b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += BK * stride_ak
            b_ptrs += BK * stride_bk
        c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
        inside = (rows[:, None] < last) & (columns[None, :] < N)
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gemm_segments(
    a_ptr, b_ptr, c_ptr, ends_ptr, GROUPS: tl.constexpr, ROWS: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Stacked rows, persistent: group g ends at row ends[g] of A and has the matrix B[g]; every size is a constant."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[ROWS, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[GROUPS, N, K], strides=[N * K, K, 1], block_shape=[1, BN, BK])
    tile = tl.program_id(0)
    last = 0
    before = 0
    for g in range(GROUPS):
        first = last
        last = tl.load(ends_ptr + g)
        rows_here = last - first
        if rows_here > 0:
            num_m = tl.cdiv(rows_here, BM)
            behind = before + num_m * tl.cdiv(N, BN)
            while tile >= before and tile < behind:
                row = (tile - before) % num_m * BM
                column = (tile - before) // num_m * BN
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for k in range(K // BK):
                    b = b_desc.load([g, column, k * BK]).reshape(BN, BK)
                    acc = tl.dot(a_desc.load([first + row, k * BK]), b.T, acc)
                rows = row + tl.arange(0, BM)
                columns = column + tl.arange(0, BN)
                c_ptrs = c_ptr + (first + rows[:, None]) * N + columns[None, :]
                inside = (rows[:, None] < rows_here) & (columns[None, :] < N)
                tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)
                tile += PROGRAMS
            before = behind


@triton.jit
def gemm_experts(
    a_ptr, b_ptr, c_ptr, weights_ptr, tokens_ptr, experts_ptr, padded_ptr, M, N, K, TOKENS, stride_am, stride_ak,
    stride_be, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP_M: tl.constexpr, TOP_K: tl.constexpr, WEIGHTED: tl.constexpr, EXIT: tl.constexpr,
):  # fmt: skip
    """Fused mixture of experts, in the form of inference servers: rows of A are gathered by a sorted list of tokens.

    tokens: for each row of the padded problem the number of a (token, choice) pair, TOKENS for none; experts: for each
    block of BM rows its expert; padded: how many rows there are. C has one row for each pair. EXIT: programs past the
    last row return at once; without it all of their rows are masked.
    """
    num_n = tl.cdiv(N, BN)
    pid = tl.program_id(axis=0)
    width = GROUP_M * num_n
    first = pid // width * GROUP_M
    rows_here = min(tl.cdiv(M, BM) - first, GROUP_M)
    pm = first + pid % width % rows_here
    pn = pid % width // rows_here
    if EXIT and pm * BM >= tl.load(padded_ptr):
        return
    pairs = tl.load(tokens_ptr + pm * BM + tl.arange(0, BM))
    valid = pairs < TOKENS
    columns = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (pairs[:, None] // TOP_K * stride_am + ks[None, :] * stride_ak)
    expert = tl.load(experts_ptr + pm)
    b_ptrs = b_ptr + expert * stride_be + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=valid[:, None] & (ks[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if WEIGHTED:
        acc = acc * tl.load(weights_ptr + pairs, mask=valid, other=0.0)[:, None]
    columns = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + pairs[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=valid[:, None] & (columns[None, :] < N))
