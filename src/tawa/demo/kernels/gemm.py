"""The GEMM kernels of the demo: one tile per program, persistent, gate and up projection, and one that is declined.

Plain `@triton.jit` kernels, as Triton users write them; operands come through host descriptors.

Shape letters: M rows of C, N columns of C, K the summed dimension; BM, BN, BK the tile. ``A_T``: A is stored K x M.
``B_T``: B is stored N x K (K-major). Every kernel sums in float32 and casts to the element type of C.
"""

import triton
import triton.language as tl


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile (row, column) of program `pid`, in groups of GROUP_M rows for reuse in the L2 cache."""
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    in_group = GROUP_M * num_n
    first_m = (pid // in_group) * GROUP_M
    group = min(num_m - first_m, GROUP_M)
    return first_m + (pid % in_group) % group, (pid % in_group) // group


@triton.jit
def load_a(a_desc, m, k, A_T: tl.constexpr):
    """The BM x BK block of A at row m, column k."""
    if A_T:
        return a_desc.load([k, m]).T
    else:
        return a_desc.load([m, k])


@triton.jit
def load_b(b_desc, k, n, B_T: tl.constexpr):
    """The BK x BN block of B at row k, column n."""
    if B_T:
        return b_desc.load([n, k]).T
    else:
        return b_desc.load([k, n])


@triton.jit
def gemm_tile(
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
    A_T: tl.constexpr,
    B_T: tl.constexpr,
):
    """C = A @ B, one tile per program, host descriptors."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = load_a(a_desc, pm * BM, k, A_T)
        b = load_b(b_desc, k, pn * BN, B_T)
        acc = tl.dot(a, b, acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_persistent(
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
    A_T: tl.constexpr,
    B_T: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """C = A @ B, each program iterates over many tiles (`tl.range`, flattened or not)."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = load_a(a_desc, pm * BM, k, A_T)
            b = load_b(b_desc, k, pn * BN, B_T)
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_gate_up(
    a_desc,
    gate_desc,
    up_desc,
    c_desc,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """C = silu(A @ G) * (A @ U): two dots in one loop share A."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    gate = tl.zeros((BM, BN), dtype=tl.float32)
    up = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        gate = tl.dot(a, gate_desc.load([k, pn * BN]), gate)
        up = tl.dot(a, up_desc.load([k, pn * BN]), up)
    c = gate * tl.sigmoid(gate) * up
    c_desc.store([pm * BM, pn * BN], c.to(c_desc.dtype))


@triton.jit
def dynamic_tiles(a_desc, b_desc, c_desc, counter_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Dynamic tile scheduler: the number of the tile comes from an atomic, which only one partition may execute."""
    num_n = tl.cdiv(N, BN)
    num_tiles = tl.cdiv(M, BM) * num_n
    tile = tl.atomic_add(counter_ptr, 1)
    while tile < num_tiles:
        pm = tile // num_n
        pn = tile % num_n
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
        tile = tl.atomic_add(counter_ptr, 1)
