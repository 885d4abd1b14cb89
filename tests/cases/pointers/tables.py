"""Products of matrices whose addresses are in tables: with edges, and one of a shape for each entry.

Plain Triton; letters as in `gemm.py`. Triton's tutorial 08 itself is in `groups.py`.
"""

import triton
import triton.language as tl


@triton.jit
def gemm_grouped_edges(
    a_addresses, b_addresses, c_addresses, sizes_ptr, strides_ptr, GROUPS,
    PROGRAMS: tl.constexpr, ELEMENT: tl.constexpr, OUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """The tutorial's kernel for sizes that the tile does not divide: elements outside a matrix are masked."""
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
            rows = (tile - begin) // num_n * BM + tl.arange(0, BM)
            columns = (tile - begin) % num_n * BN + tl.arange(0, BN)
            ks = tl.arange(0, BK)
            a_ptrs = a_ptr + rows[:, None] * lda + ks[None, :]
            b_ptrs = b_ptr + ks[:, None] * ldb + columns[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for i in range(tl.cdiv(k, BK)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs, mask=(rows[:, None] < m) & (ks[None, :] < k - i * BK), other=0.0)
                b = tl.load(b_ptrs, mask=(ks[:, None] < k - i * BK) & (columns[None, :] < n), other=0.0)
                acc += tl.dot(a, b)
                a_ptrs += BK
                b_ptrs += BK * ldb
            inside = (rows[:, None] < m) & (columns[None, :] < n)
            tl.store(c_ptr + rows[:, None] * ldc + columns[None, :], acc.to(OUT), mask=inside)
            tile += PROGRAMS


@triton.jit
def array_tile(
    a_ptr, b_addresses, c_ptr, z, rows, columns, M, N, K, stride_az, stride_am, stride_bk, stride_cz, stride_cm,
    ELEMENT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One tile of product `z`: A in one tensor, B at an address from the table."""
    b_ptr = tl.load(b_addresses + z).to(tl.pointer_type(ELEMENT))
    b_ptr = tl.multiple_of(b_ptr, 16)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + z * stride_az + rows[:, None] * stride_am + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * stride_bk
    c_ptrs = c_ptr + z * stride_cz + rows[:, None] * stride_cm + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gemm_array(
    a_ptr, b_addresses, c_ptr, COUNT, M, N, K, stride_az, stride_am, stride_bk, stride_cz, stride_cm,
    PROGRAMS: tl.constexpr, ELEMENT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Products of one shape: A in one tensor, each B at an address from the table, like the weights of experts."""
    num_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * num_n
    for tile in range(tl.program_id(0), COUNT * tiles, PROGRAMS):
        rows = tile % tiles // num_n * BM + tl.arange(0, BM)
        columns = tile % tiles % num_n * BN + tl.arange(0, BN)
        array_tile(a_ptr, b_addresses, c_ptr, tile // tiles, rows, columns, M, N, K, stride_az, stride_am, stride_bk,
                   stride_cz, stride_cm, ELEMENT, BM, BN, BK)  # fmt: skip


@triton.jit
def gemm_array_tiles(
    a_ptr, b_addresses, c_ptr, M, N, K, stride_az, stride_am, stride_bk, stride_cz, stride_cm,
    ELEMENT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same, one tile per program."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    array_tile(a_ptr, b_addresses, c_ptr, tl.program_id(2), rows, columns, M, N, K, stride_az, stride_am, stride_bk,
               stride_cz, stride_cm, ELEMENT, BM, BN, BK)  # fmt: skip
