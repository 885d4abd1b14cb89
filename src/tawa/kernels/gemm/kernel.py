"""GEMM kernels as Triton users write them: plain `@triton.jit`, no word of Tawa in them.

The file covers the shapes that the main loop takes: one tile per program or persistent, descriptors from the host or made in the
kernel, operands stored either way round, batched, ragged, several dots or several loops. `epilogues.py` holds what follows
the loop, `declined.py` the kernels that stock Triton must keep.

Shape letters: M rows of C, N columns of C, K the summed dimension; BM, BN, BK the tile. ``A_T``: A is stored K x M.
``B_T``: B is stored N x K (K-major). Every kernel sums in float32 and casts to the element type of C.
"""

import triton
import triton.language as tl


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile (row, column) of program `pid`, in groups of GROUP_M rows so that the L2 cache is shared."""
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
def gemm_tile(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
              A_T: tl.constexpr, B_T: tl.constexpr):
    """C = A @ B, one tile per program, host descriptors."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = load_a(a_desc, pm * BM, k, A_T)
        b = load_b(b_desc, k, pn * BN, B_T)
        acc = tl.dot(a, b, acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_plus_equals(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A @ B written with ``+=``, a 2-D grid and a loop over block numbers."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.cdiv(K, BK)):
        acc += tl.dot(a_desc.load([pm * BM, i * BK]), b_desc.load([i * BK, pn * BN]))
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_precise(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 GROUP_M: tl.constexpr):
    """C = A @ B^T in fp8 with the partial sums kept in float32 registers (no fast accumulation)."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([pn * BN, k])
        acc = tl.dot(a, b.T, acc, max_num_imprecise_acc=32)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_device_desc(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                     GROUP_M: tl.constexpr, B_T: tl.constexpr):
    """C = A @ B, one tile per program, descriptors made in the kernel."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    if B_T:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = load_b(b_desc, k, pn * BN, B_T)
        acc = tl.dot(a, b, acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_persistent(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                    GROUP_M: tl.constexpr, A_T: tl.constexpr, B_T: tl.constexpr, FLATTEN: tl.constexpr):
    """C = A @ B, each program walks over many tiles (`tl.range`, flattened or not)."""
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
def gemm_persistent_range(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                          GROUP_M: tl.constexpr):
    """C = A @ B^T, persistent with Python's own `range` and a K loop over block numbers."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(tl.cdiv(K, BK)):
            a = a_desc.load([pm * BM, i * BK])
            b = b_desc.load([pn * BN, i * BK])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_persistent_while(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                          GROUP_M: tl.constexpr):
    """C = A @ B^T, persistent with `while`."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    tile = tl.program_id(0)
    while tile < num_tiles:
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([pn * BN, k]).T, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
        tile += tl.num_programs(0)


@triton.jit
def gemm_persistent_device_desc(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                                GROUP_M: tl.constexpr, B_T: tl.constexpr, FLATTEN: tl.constexpr):
    """C = A @ B, persistent, descriptors made once per program."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    if B_T:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = a_desc.load([pm * BM, k])
            b = load_b(b_desc, k, pn * BN, B_T)
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_triangular(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                    GROUP_M: tl.constexpr, FLATTEN: tl.constexpr):
    """C = tril(A, -1 block) @ B: tile row pm sums columns [0, pm * BM) only, so the first row makes no trip at all."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, min(K, pm * BM), BK):
            a = a_desc.load([pm * BM, k])
            b = b_desc.load([k, pn * BN])
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_ragged(a_desc, b_desc, c_desc, trips_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                GROUP_M: tl.constexpr):
    """C = A @ B where each tile row reads from memory how many blocks of K it sums."""
    num_tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        pm, pn = tile_of(tile, M, N, BM, BN, GROUP_M)
        trips = tl.load(trips_ptr + pm)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(trips):
            a = a_desc.load([pm * BM, i * BK])
            b = b_desc.load([i * BK, pn * BN])
            acc = tl.dot(a, b, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_batched_grid(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      GROUP_M: tl.constexpr):
    """C[z] = A[z] @ B[z]: the batch is a grid axis, the descriptors see all matrices stacked in rows (M = rows of one)."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    z = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([z * M + pm * BM, k])
        b = b_desc.load([z * K + k, pn * BN])
        acc = tl.dot(a, b, acc)
    c_desc.store([z * M + pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_batched_desc(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      GROUP_M: tl.constexpr, B_T: tl.constexpr):
    """C[z] = A[z] @ B[z]: the batch is the first dimension of 3-D descriptors."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    z = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([z, pm * BM, k]).reshape(BM, BK)
        if B_T:
            b = b_desc.load([z, pn * BN, k]).reshape(BN, BK).T
        else:
            b = b_desc.load([z, k, pn * BN]).reshape(BK, BN)
        acc = tl.dot(a, b, acc)
    c_desc.store([z, pm * BM, pn * BN], acc.to(c_desc.dtype).reshape(1, BM, BN))


@triton.jit
def gemm_gate_up(a_desc, gate_desc, up_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 GROUP_M: tl.constexpr):
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
def gemm_two_loops(a_desc, b_desc, a2_desc, b2_desc, c_desc, M, N, K, K2, BM: tl.constexpr, BN: tl.constexpr,
                   BK: tl.constexpr, GROUP_M: tl.constexpr):
    """C = A @ B + A2 @ B2: two K loops in a row into one accumulator."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    for k in range(0, K2, BK):
        acc = tl.dot(a2_desc.load([pm * BM, k]), b2_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_lower_only(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                    GROUP_M: tl.constexpr):
    """The tiles of C = A @ B^T that touch the lower triangle; the others are left alone (the K loop is inside an `if`)."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    if (pm + 1) * BM > pn * BN:
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([pn * BN, k]).T, acc)
        c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_if_accumulate(a_desc, b_desc, c_desc, c0_desc, M, N, K, skip, BM: tl.constexpr, BN: tl.constexpr,
                       BK: tl.constexpr, GROUP_M: tl.constexpr):
    """C = C0 + A @ B, where the sum is left out when `skip` is not 0: the `if` around the K loop yields the accumulator."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = c0_desc.load([pm * BM, pn * BN]).to(tl.float32)
    if skip == 0:
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def gemm_split_k(a_desc, b_desc, c_ptr, M, N, K, stride_cz, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 GROUP_M: tl.constexpr, SPLIT: tl.constexpr):
    """Partial sums C[s] of SPLIT slices of K; the loop starts and steps at run-time values."""
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    s = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(s * BK, K, SPLIT * BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    at = c_ptr + s * stride_cz + rows[:, None] * N + columns[None, :]
    tl.store(at, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))
