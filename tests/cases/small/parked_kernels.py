"""Kernels with tiles that are needed behind a loop, loaded before it or behind it, and with a dot before a loop."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gated(a_ptr, b_ptr, g_ptr, k_ptr, out_ptr, T, R, B: tl.constexpr, N: tl.constexpr):
    """out = (sum of a[t] b[t]) * 2 ** g * k + k, in R rows; g is loaded before the loop, k behind it."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    own = (rows < R)[:, None] & (columns < N)[None, :]
    g = tl.load(g_ptr + tile, mask=own, other=0.0)
    acc = tl.zeros((B, N), tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + t * B * B + rows[:, None] * B + rows[None, :])
        b = tl.load(b_ptr + t * B * N + tile)
        acc = tl.dot(a, b, acc)
    k = tl.load(k_ptr + tile, mask=own, other=0.0)
    tl.store(out_ptr + tile, acc * tl.math.exp2(g) * k + k, mask=own)


@triton.jit
def nested(a_ptr, b_ptr, g_ptr, k_ptr, out_ptr, T, R, B: tl.constexpr, N: tl.constexpr):
    """The same for two tiles in a row, in a loop."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    own = (rows < R)[:, None] & (columns < N)[None, :]
    for i in range(2):
        tile = i * B * N + rows[:, None] * N + columns[None, :]
        g = tl.load(g_ptr + tile, mask=own, other=0.0)
        acc = tl.zeros((B, N), tl.float32)
        for t in range(T):
            a = tl.load(a_ptr + (i + t) * B * B + rows[:, None] * B + rows[None, :])
            b = tl.load(b_ptr + t * B * N + rows[:, None] * N + columns[None, :])
            acc = tl.dot(a, b, acc)
        k = tl.load(k_ptr + tile, mask=own, other=0.0)
        tl.store(out_ptr + tile, acc * (k * tl.math.exp2(g)) + k, mask=own)


@triton.jit
def rewritten(a_ptr, b_ptr, g_ptr, k_ptr, out_ptr, T, R, B: tl.constexpr, N: tl.constexpr):
    """Reads behind the loop what the loop writes."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    acc = tl.zeros((B, N), tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + t * B * B + rows[:, None] * B + rows[None, :])
        b = tl.load(b_ptr + t * B * N + tile)
        acc = tl.dot(a, b, acc)
        tl.store(out_ptr + tile, acc)
    tl.debug_barrier()
    tl.store(out_ptr + tile, tl.load(out_ptr + tile) + 1.0)


@triton.jit
def by_rows(a_ptr, b_ptr, g_ptr, k_ptr, out_ptr, T, R, B: tl.constexpr, N: tl.constexpr):
    """out = g * k + the sum of the first T rows of g, and of k: a second loop loads rows of g."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    acc = tl.zeros((B, N), tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + t * B * B + rows[:, None] * B + rows[None, :])
        b = tl.load(b_ptr + t * B * N + tile)
        acc = tl.dot(a, b, acc)
    g = tl.load(g_ptr + tile)
    k = tl.load(k_ptr + tile)
    for t in range(T):
        acc += tl.load(g_ptr + t * N + columns)[None, :]
    tl.store(out_ptr + tile, acc * g + k)


@triton.jit
def dot_first(a_ptr, b_ptr, g_ptr, k_ptr, out_ptr, T, R, B: tl.constexpr, N: tl.constexpr):
    """out = a[T] g + the sum of a[t] b[t], in R rows; the first product is computed before the loop."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    own = (rows < R)[:, None] & (columns < N)[None, :]
    g = tl.load(g_ptr + tile, mask=own, other=0.0)
    last = tl.load(a_ptr + T * B * B + rows[:, None] * B + rows[None, :])
    acc = tl.dot(last, g.to(tl.float16))
    for t in range(T):
        a = tl.load(a_ptr + t * B * B + rows[:, None] * B + rows[None, :])
        b = tl.load(b_ptr + t * B * N + tile)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + tile, acc, mask=own)
