"""GEMM kernels with epilogues: bias row, activation, scale, residual tile, cast; stored by descriptor or by pointers.

Plain Triton; `tl.constexpr` branches choose the parts, and an argument that no branch uses is passed as None. The main
loop is ``C = A @ B^T`` over host descriptors. Shape letters as in `kernel.py`.
"""

import triton
import triton.language as tl

from tawa.demo.kernels.gemm import load_b, tile_of


@triton.jit
def activate(x, ACT: tl.constexpr):
    """The activation named by ACT ("relu", "silu", "gelu" in its tanh form; anything else leaves x)."""
    if ACT == "relu":
        return tl.maximum(x, 0.0)
    elif ACT == "silu":
        return x * tl.sigmoid(x)
    elif ACT == "gelu":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        return x * tl.sigmoid(2 * inner)
    else:
        return x


@triton.jit
def gemm_epilogue(
    a_desc,
    b_desc,
    c_desc,
    c_ptr,
    bias_ptr,
    scale_ptr,
    residual_desc,
    residual_ptr,
    scale,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    BIAS: tl.constexpr,
    ACT: tl.constexpr,
    SCALE: tl.constexpr,
    RESIDUAL: tl.constexpr,
    STORE: tl.constexpr,
):
    """C = act(scale * (A @ B^T) + bias) + residual.

    BIAS: whether `bias_ptr` (N) is added. SCALE: "scalar" (`scale`), "rows" (`scale_ptr`, M) or "".
    RESIDUAL: "descriptor", "pointer" or "". STORE: "descriptor" or "pointer" (with a mask).
    """
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([pn * BN, k])
        acc = tl.dot(a, b.T, acc)
    if SCALE == "scalar":
        acc *= scale
    elif SCALE == "rows":
        acc *= tl.load(scale_ptr + rows, mask=rows < M, other=0.0)[:, None]
    if BIAS:
        acc += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :].to(tl.float32)
    acc = activate(acc, ACT)
    if RESIDUAL == "descriptor":
        acc += residual_desc.load([pm * BM, pn * BN]).to(tl.float32)
    elif RESIDUAL == "pointer":
        acc += tl.load(residual_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    if STORE == "descriptor":
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
    else:
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gemm_persistent_epilogue(
    a_desc,
    b_desc,
    c_desc,
    bias_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """C = relu(A @ B^T + bias), persistent."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        columns = pn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([pn * BN, k]).T, acc)
        acc += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :].to(tl.float32)
        c_desc.store([pm * BM, pn * BN], activate(acc, "relu").to(c_desc.dtype))


@triton.jit
def gemm_split_epilogue(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    B_T: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """C = A @ B, persistent, stored in two halves: the staging buffer is half a tile (`c_desc` is BM x BN/2)."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), load_b(b_desc, k, pn * BN, B_T), acc)
        left, right = acc.reshape(BM, 2, BN // 2).permute(0, 2, 1).split()
        c_desc.store([pm * BM, pn * BN], left.to(c_desc.dtype))
        c_desc.store([pm * BM, pn * BN + BN // 2], right.to(c_desc.dtype))


@triton.jit
def gemm_invariant(
    a_desc,
    b_desc,
    c_desc,
    x_ptr,
    gain_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    W: tl.constexpr,
):
    """C = rsqrt(mean(X^2)) * gain * (A @ B): the row norm (X is M x W) and the gain row (N) come before the loop."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + rows[:, None] * W + tl.arange(0, W)[None, :], mask=rows[:, None] < M, other=1.0)
    norm = tl.rsqrt(tl.sum(x * x, axis=1) / W)
    gain = tl.load(gain_ptr + columns, mask=columns < N, other=0.0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([k, pn * BN])
        acc = tl.dot(a, b, acc)
    c_desc.store([pm * BM, pn * BN], (acc * norm[:, None] * gain[None, :]).to(c_desc.dtype))


@triton.jit
def gemm_initial_bias(
    a_desc,
    b_desc,
    c_desc,
    bias_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """C = bias + A @ B: the accumulator starts from the bias row instead of zero."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    columns = pn * BN + tl.arange(0, BN)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    acc = tl.zeros((BM, BN), dtype=tl.float32) + bias[None, :]
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_in_loop_scale(
    a_desc,
    b_desc,
    c_desc,
    scale_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """C = sum over blocks of K of scale[row, block] * (A @ B^T): the sum is scaled block by block, outside the dot."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    rows = pm * BM + tl.arange(0, BM)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.cdiv(K, BK)):
        scale = tl.load(scale_ptr + i * M + rows, mask=rows < M, other=0.0)
        part = tl.dot(a_desc.load([pm * BM, i * BK]), b_desc.load([pn * BN, i * BK]).T)
        acc += part * scale[:, None]
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
