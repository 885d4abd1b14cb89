"""Small kernels for the bridge's and the runtime's tests: quick to compile, each of another kind."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm_descriptors(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([row, k])
        b = b_desc.load([k, column])
        acc = tl.dot(a, b, acc)
    c_desc.store([row, column], acc.to(tl.float16))


@triton.jit
def gemm_pointers(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(tl.float16))


@triton.jit
def gemm_persistent(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0), flatten=True):
        row = tile // columns * BM
        column = tile % columns * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, acc)
        c_desc.store([row, column], acc.to(tl.float16))


@triton.jit
def gemm_row_sums(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    tl.store(out + row + tl.arange(0, BM), tl.sum(acc, axis=1))


@triton.jit
def softmax_rows(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + at, x / tl.sum(x, axis=0), mask=at < columns)


@triton.jit
def store_number(out, n):
    tl.store(out + tl.program_id(0), n)


@triton.jit
def do_nothing(out, n):
    pass


def tensor_of(element: str):
    """A stand-in for a tensor in `warmup`: aligned, on no device. element: PyTorch's name of its type, ``float16``.

    Its type is text: Triton remembers types by their hashes, and the hash of an object is its address, which another
    object gets later.
    """
    from triton.runtime.jit import MockTensor

    return MockTensor(f"torch.{element}")


def half_tensor():
    """A stand-in for a float16 tensor."""
    return tensor_of("float16")


@triton.jit
def gemm_square(a_ptr, b_ptr, c_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Persistent over T x T tiles, whose loops are T blocks long."""
    ks = tl.arange(0, BK)
    for tile in range(tl.program_id(0), T * T, tl.num_programs(0)):
        rows, columns = tile // T * BM + tl.arange(0, BM), tile % T * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, T * BK, BK):
            a = tl.load(a_ptr + rows[:, None] * (T * BK) + (k + ks)[None, :])
            b = tl.load(b_ptr + (k + ks)[:, None] * (T * BN) + columns[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + rows[:, None] * (T * BN) + columns[None, :], acc.to(tl.float16))


@triton.jit
def gemm_groups(a, b, c, tiles_ptr, G, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Persistent over G groups, each of as many tiles of rows as memory says, and of T tiles of columns."""
    first = 0
    for group in range(G):
        tiles = tl.load(tiles_ptr + group)
        for tile in range(tl.program_id(0), tiles * T, tl.num_programs(0)):
            row, column = (first + tile // T) * BM, tile % T * BN
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for k in range(T):
                acc = tl.dot(a.load([row, k * BK]), b.load([group * T * BK + k * BK, column]), acc)
            c.store([row, column], acc.to(tl.float16))
        first += tiles
