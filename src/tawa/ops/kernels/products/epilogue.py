"""What happens to a tile of sums before it is stored. Plain Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_at(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """The row and the column of blocks of a tile. Tiles are counted by GROUP rows of blocks, column by column."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = tile // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    within = tile % (GROUP * columns)
    return first + within % size, within // size


@triton.jit
def activated(x, ACT: tl.constexpr):
    """An activation of a float32 tile: "relu", "gelu" (by the error function), "gelu_tanh", "silu", or "none"."""
    if ACT == "relu":
        x = tl.maximum(x, 0.0)
    elif ACT == "silu":
        x = x / (1.0 + tl.exp(-x))
    elif ACT == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACT == "gelu_tanh":
        # 0.5 * (1 + tanh(u)) is the logistic function of 2 u.
        x = x / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    return x


@triton.jit
def slope(x, ACT: tl.constexpr):
    """The derivative of `activated` at a float32 tile."""
    if ACT == "relu":
        y = tl.where(x > 0.0, 1.0, 0.0)
    elif ACT == "silu":
        s = 1.0 / (1.0 + tl.exp(-x))
        y = s * (1.0 + x * (1.0 - s))
    elif ACT == "gelu":
        y = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)
    elif ACT == "gelu_tanh":
        s = 1.0 / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
        y = s + x * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    else:
        y = tl.full(x.shape, 1.0, tl.float32)
    return y


@triton.jit
def gated_gradients(
    gradient, sums, made, rows, N, BM: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """The gradients of a gate and of what it gates: ``dC * other * act'(gate)`` and ``dC * act(gate)``.

    gradient: (rows, N). sums, made: (rows, 2 N), the gate's first. Grid: blocks of BN columns, blocks of BM rows.
    """
    row = (tl.program_id(1) * BM + tl.arange(0, BM))[:, None].to(tl.int64)
    column = (tl.program_id(0) * BN + tl.arange(0, BN))[None, :]
    inside = (row < rows) & (column < N)
    at = row * (2 * N) + column
    d = tl.load(gradient + row * N + column, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(sums + at, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(sums + at + N, mask=inside, other=0.0).to(tl.float32)
    tl.store(made + at, (d * other * slope(gate, ACT)).to(made.dtype.element_ty), mask=inside)
    tl.store(made + at + N, (d * activated(gate, ACT)).to(made.dtype.element_ty), mask=inside)


@triton.jit
def with_bias(acc, bias, n, N, ALONG: tl.constexpr):
    """Adds a vector to the rows of a float32 tile (ALONG = 1), or to its columns (0), from index n on; N: its end."""
    SIZE: tl.constexpr = acc.shape[ALONG]
    at = n + tl.arange(0, SIZE)
    added = tl.load(bias + at, mask=at < N, other=0.0).to(tl.float32)
    return acc + (added[None, :] if ALONG == 1 else added[:, None])


@triton.jit
def with_factors(acc, factors, first, limit, step, ALONG: tl.constexpr):
    """Multiplies the columns of a float32 tile (ALONG = 1), or its rows (0), by float32 numbers from index `first` on.

    limit: their end. step: from one to the next; 0 if there is one number for all.
    """
    at = first + tl.arange(0, acc.shape[ALONG])
    by = tl.load(factors + at.to(tl.int64) * step, mask=at < limit, other=0.0)
    return acc * (by[None, :] if ALONG == 1 else by[:, None])
