"""Small GEMMs with one peculiarity each: some must be declined, others only look as if they had to be.

Plain Triton; letters as in `gemm.py`. A is (M, K), B is (K, N), C is (M, N), without gaps, and the tiles divide all
sizes. Each differs from a GEMM that is specialised only in what its docstring says.
"""

import triton
import triton.language as tl


@triton.jit
def tiles(a_ptr, b_ptr, pm, pn, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Pointers to the first tiles of A and B."""
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    return a_ptr + rows[:, None] * K + ks[None, :], b_ptr + ks[:, None] * N + columns[None, :]


@triton.jit
def store(c_ptr, acc, pm, pn, N, BM: tl.constexpr, BN: tl.constexpr):
    """Stores one tile of C."""
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def in_place(a_ptr, b_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A = A @ B (N = K), block row by block row: the stores alias the loads of the next tile."""
    pm = tl.program_id(0)
    for pn in range(N // BN):
        a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for _ in range(0, K, BK):
            acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
            a_ptrs += BK
            b_ptrs += BK * N
        store(a_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def store_in_loop(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The loop stores to B: the sum of each iteration becomes a part of B that a later iteration reads."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        b = tl.load(b_ptrs)
        acc = tl.dot(tl.load(a_ptrs), b, acc)
        tl.store(b_ptrs, b * 2)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def adds_to_c(a_ptr, b_ptr, c_ptr, c0_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = C0 + A @ B: C0 is loaded before the loop and feeds no dot."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    acc = tl.load(c0_ptr + rows[:, None] * N + columns[None, :]).to(tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def adds_in_place(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C += A @ B: C is loaded and stored, but no load of the producer reads it."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    acc += tl.load(c_ptr + rows[:, None] * N + columns[None, :])
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def volatile_load(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A is loaded as volatile: another program may write it at any time."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs, volatile=True), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def cached_load(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Cache modifier and eviction policy on the loads, which concern only speed."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_ptrs, cache_modifier=".cg")
        b = tl.load(b_ptrs, eviction_policy="evict_last")
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def acquire_in_loop(
    a_ptr, b_ptr, c_ptr, flags_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """An acquiring atomic before each load; its result is unused, so the loop does not wait for anything."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        tl.atomic_add(flags_ptr + k // BK, 0, sem="acquire")
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def waits_for_flag(
    a_ptr, b_ptr, c_ptr, flags_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Spins on a flag that another program sets when A is complete; the loads must come after."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    while tl.atomic_cas(flags_ptr + pm, 1, 1) != 1:
        pass
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def assembly_in_loop(
    a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PURE: tl.constexpr
):  # fmt: skip
    """Inline assembly on the sums in the loop: with a fence, or PURE."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        code: tl.constexpr = "mov.b32 $0, $1;" if PURE else "fence.acq_rel.gpu; mov.b32 $0, $1;"
        acc = tl.inline_asm_elementwise(code, "=r,r", [acc], dtype=tl.float32, is_pure=PURE, pack=1)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def barriers_in_loop(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """In each iteration the sum goes through C: stored, and loaded by other threads after a `tl.debug_barrier`."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        store(c_ptr, acc, pm, pn, N, BM, BN)
        tl.debug_barrier()
        acc = tl.trans(tl.load(c_ptr + rows[None, :] * N + columns[:, None]))
        tl.debug_barrier()
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def barrier_between(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Half of the sum goes through C: stored, and loaded by other threads after a `tl.debug_barrier`."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K // 2, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)
    tl.debug_barrier()
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    acc = tl.trans(tl.load(c_ptr + rows[None, :] * N + columns[:, None]))
    for _ in range(K // 2, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.debug_barrier()
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def sums_in_memory(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C += A @ B, two blocks of K at a time: each iteration of the outer loop loads and stores the tile of C."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    for _ in range(0, K, 2 * BK):
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for _ in range(2):
            acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
            a_ptrs += BK
            b_ptrs += BK * N
        tl.store(c_ptrs, tl.load(c_ptrs) + acc)


@triton.jit
def print_in_loop(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A `tl.device_print` in the loop."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        if k < 0:
            tl.device_print("k", k)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def dependent_launch(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Programmatic dependent launch: waits for the grids before this one, and lets the next one start early."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    tl.extra.cuda.gdc_wait()
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.extra.cuda.gdc_launch_dependents()
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def plain(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Only launch options are peculiar: clusters, a cooperative grid."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit(noinline=True)
def column_of(pid, BN: tl.constexpr):
    """A helper that is not inlined."""
    return pid * BN


@triton.jit
def with_call(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A call that Triton does not inline."""
    pm = tl.program_id(0)
    pn = column_of(tl.program_id(1), BN) // BN
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def early_return(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Programs past the last row return at once."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    if pm * BM >= M:
        return
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def while_listed(
    a_ptr, b_ptr, c_ptr, list_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """A while loop whose condition and addresses come from a list that ends with a negative number."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    i = 0
    block = tl.load(list_ptr)
    while block >= 0:
        acc = tl.dot(tl.load(a_ptrs + block * BK), tl.load(b_ptrs + block * BK * N), acc)
        i += 1
        block = tl.load(list_ptr + i)
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def while_counted(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A while loop that counts, with its pointers carried."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    k = 0
    while k < K:
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
        k += BK
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def scan_behind(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Prefix sums along the columns of each tile after the loop."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, tl.cumsum(acc, axis=1), pm, pn, N, BM, BN)


@triton.jit
def atomics_behind(
    a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr,
    ORDER: tl.constexpr,
):  # fmt: skip
    """Split-K: SPLIT programs add their part of K to C by atomics after the loop."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    part = K // SPLIT
    first = tl.program_id(2) * part
    a_ptrs, b_ptrs = tiles(a_ptr + first, b_ptr + first * N, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, part, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    rows = pm * BM + tl.arange(0, BM)
    columns = pn * BN + tl.arange(0, BN)
    tl.atomic_add(c_ptr + rows[:, None] * N + columns[None, :], acc, sem=ORDER)


@triton.jit
def fill_with_one(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A is 1 past its end, where B continues: the fill value of the mask contributes to the sum."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs, mask=ks[None, :] < K - k, other=1.0), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    store(c_ptr, acc, pm, pn, N, BM, BN)


@triton.jit
def mask_from_memory(
    a_ptr, b_ptr, c_ptr, keep_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """The mask of the loads of A is itself loaded."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    a_ptrs, b_ptrs = tiles(a_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    keep_ptrs, _ = tiles(keep_ptr, b_ptr, pm, pn, N, K, BM, BN, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_ptrs, mask=tl.load(keep_ptrs) > 0, other=0.0)
        acc = tl.dot(a, tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK * N
        keep_ptrs += BK
    store(c_ptr, acc, pm, pn, N, BM, BN)
