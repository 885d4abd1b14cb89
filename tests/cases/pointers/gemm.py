"""GEMM with pointer loads: one tile per program, batches, block pointers.

Plain Triton. Shape letters: M, N, K sizes of C = A @ B; BM, BN, BK tile sizes. Every tensor comes with its strides, so
that one kernel serves both storage orders. CONFIGS is the list of tile sizes of Triton's third tutorial.
"""

import triton
import triton.language as tl

CONFIGS = (
    # BM, BN, BK, warps, stages
    (128, 256, 64, 8, 3), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4), (64, 128, 32, 4, 4),
    (128, 32, 32, 4, 4), (64, 32, 32, 2, 5), (32, 64, 32, 2, 5),
    # for fp8
    (128, 256, 128, 8, 3), (256, 128, 128, 8, 3), (256, 64, 128, 4, 4), (64, 256, 128, 4, 4), (128, 128, 128, 4, 4),
    (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (128, 32, 64, 4, 4),
)  # fmt: skip


@triton.jit
def grouped_tile(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """Row and column of a tile, in groups of GROUP_M rows of tiles for reuse in the L2 cache."""
    num_n = tl.cdiv(N, BN)
    width = GROUP_M * num_n
    first = pid // width * GROUP_M
    rows = min(tl.cdiv(M, BM) - first, GROUP_M)
    return first + pid % width % rows, pid % width // rows


@triton.jit
def leaky_relu(x):
    """The activation of the tutorial."""
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr):
    """Stores one tile of C, cast to its element type; elements out of bounds are masked."""
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def gemm_tutorial(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """One tile per program, after Triton's tutorial 03: rows and columns wrap around (`% M`), only K is masked."""
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
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
    if ACT == "leaky_relu":
        acc = leaky_relu(acc)
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_masked(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """The other common form: every edge is masked, addresses are recomputed in each iteration."""
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        a_mask = (rows[:, None] < M) & (ks[None, :] < K)
        b_mask = (ks[:, None] < K) & (columns[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn, mask=b_mask, other=0.0)
        acc += tl.dot(a, b)
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_even_k(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """After PyTorch's template for tuned products: the loop counts down the rest of K, rows have alignment hints."""
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    rows_in = tl.max_contiguous(tl.multiple_of(rows % M, BM), BM)
    columns_in = tl.max_contiguous(tl.multiple_of(columns % N, BN), BN)
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows_in[:, None] * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + (ks[:, None] * stride_bk + columns_in[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for left in range(K, 0, -BK):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=ks[None, :] < left, other=0.0)
            b = tl.load(b_ptrs, mask=ks[:, None] < left, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_batched(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_az, stride_am, stride_ak, stride_bz, stride_bk, stride_bn, stride_cz,
    stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """A batch of products in the usual form: the second program id selects the matrices."""
    pid_b = tl.program_id(axis=1)
    a_ptr += pid_b * stride_az
    b_ptr += pid_b * stride_bz
    c_ptr += pid_b * stride_cz
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_block_pointers(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Block pointers, which Triton rewrites to pointers and masks; the style of linear-attention packages."""
    pm, pn = grouped_tile(tl.program_id(axis=0), M, N, BM, BN, GROUP_M)
    a_block = tl.make_block_ptr(a_ptr, (M, K), (stride_am, stride_ak), (pm * BM, 0), (BM, BK), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)


@triton.jit
def gemm_mixed(
    a_ptr, b_desc, c_ptr, M, N, K, stride_am, stride_ak, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A by pointers, B by a host descriptor."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rows = pm * BM + tl.arange(0, BM)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inside = (rows[:, None] < M) & (k + ks[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * stride_am + (k + ks[None, :]) * stride_ak, mask=inside, other=0.0)
        acc = tl.dot(a, b_desc.load([k, pn * BN]), acc)
    store_tile(c_ptr, acc, pm, pn, M, N, stride_cm, stride_cn, BM, BN)
