"""Kernels for the command line to load, in a file that prints while it is imported."""

import triton
import triton.language as tl

import tawa

print("imported")  # must not end up in the JSON


@tawa.jit
@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr = 64):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.autotune(configs=[tawa.Config({"BM": 64}, aref_depth=2)], key=["n"])
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % 64 == 0})
@triton.jit
def fill(x, n, BM: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(x + i, i.to(tl.float16), mask=i < n)


@triton.jit
def double(x):
    return x * 2


@triton.jit
def broken(x, BM: tl.constexpr):
    tl.store(x + tl.arange(0, BM), no_such_name)  # noqa: F821


@triton.jit
def specialising(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr = 64):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def sums_beside(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr = 64):
    """A dot and the threads read the tiles of `a`."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for k in range(0, K, BK):
        tile = a.load([m, k])
        total += tl.sum(tile.to(tl.float32), 1)
        acc = tl.dot(tile, b.load([k, 0]), acc)
    c.store([m, 0], (acc + total[:, None]).to(tl.float16))


@triton.jit
def attention(q, k, v, o, scale, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, base = tl.program_id(0) * BM, tl.program_id(1) * S
    queries = q.load([base + m, 0])
    acc = tl.zeros((BM, D), tl.float32)
    high = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for n in range(0, S, BN):
        s = tl.dot(queries, k.load([base + n, 0]).T) * scale
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(high - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([base + n, 0]), acc * factor[:, None])
        high = new
    o.store([base + m, 0], (acc / total[:, None]).to(tl.float16))
