"""Kernels that Tawa must leave to stock Triton, byte for byte, each for one reason.

Plain Triton and correct; each docstring has the reason why the kernel is declined. Shape letters as in `kernel.py`.
"""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, c_ptr, n, BM: tl.constexpr):
    """c = x + y: no dot at all."""
    at = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(c_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def softmax_rows(x_desc, c_desc, BM: tl.constexpr, BN: tl.constexpr):
    """Row softmax over descriptors: TMA, but no dot."""
    row = tl.program_id(0) * BM
    x = x_desc.load([row, 0]).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    c_desc.store([row, 0], (e / tl.sum(e, axis=1)[:, None]).to(c_desc.dtype))


@triton.jit
def single_dot(a_desc, b_desc, c_desc, BM: tl.constexpr, BN: tl.constexpr):
    """C = A @ B with a K of one block: the dot is not in a loop, so there is nothing to overlap."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.dot(a_desc.load([pm * BM, 0]), b_desc.load([0, pn * BN]))
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def in_place_descriptor(a_desc, b_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A = A @ B, block row by block row (N = K): the store goes to the descriptor that the next tile's loads read."""
    pm = tl.program_id(0)
    for n in range(0, N, BN):
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, n]), acc)
        a_desc.store([pm * BM, n], acc.to(a_desc.dtype))


@triton.jit
def in_place_pointer(a_ptr, b_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same with a descriptor made from the pointer that is stored through."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    for n in range(0, N, BN):
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([tl.program_id(0) * BM, k]), b_desc.load([k, n]), acc)
        columns = n + tl.arange(0, BN)
        tl.store(a_ptr + rows[:, None] * K + columns[None, :], acc.to(a_ptr.dtype.element_ty), mask=rows[:, None] < M)


@triton.jit
def atomic_row(a_desc, b_desc, c_desc, counter_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The row of the tile comes from an atomic before the loop."""
    pm = tl.atomic_add(counter_ptr + tl.program_id(1), 1)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def row_from_reduction(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The row of A depends on the sum so far (a huge entry would change it): the producer would need the consumer."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    row = pm * BM
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([k, pn * BN]), acc)
        row = pm * BM + (tl.max(tl.max(acc, axis=1), axis=0) > 1e30).to(tl.int32)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit
def with_impure_asm(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Inline assembly that is not pure, and has an instruction whose effects are unknown."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    acc = tl.inline_asm_elementwise(
        "wgmma.wait_group.sync.aligned 0; mov.b32 $0, $1;", "=r,r", [acc], dtype=tl.float32, is_pure=False, pack=1
    )
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))


@triton.jit(noinline=True)
def block_offset(pid, BLOCK: tl.constexpr):
    """A helper that is not inlined."""
    return pid * BLOCK


@triton.jit
def with_call(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A `noinline` helper: a call's effects are unknown."""
    m = block_offset(tl.program_id(0), BM)
    n = block_offset(tl.program_id(1), BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def with_print(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A `tl.device_print` in the loop: a side effect whose order is visible to users."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
        if k < 0:
            tl.device_print("k", k)
    c_desc.store([pm * BM, pn * BN], acc.to(c_desc.dtype))
