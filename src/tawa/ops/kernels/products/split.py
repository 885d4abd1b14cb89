"""Splitting the summed dimension of a product over several programs. Plain Triton.

Each of the SPLIT programs of a tile writes its partial sums to memory, and counts itself in a semaphore. The last one
to arrive, whichever that is, adds the parts in the order of the summed dimension: equal launches give equal bits. It
also resets the semaphore, so that the next launch finds it at 0.

The programs may instead add their sums to one part by atomics (`add_part`). That takes less memory, and the order of
sums is that in which programs arrive: equal launches may differ in the last bits.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def write_part(parts, acc, tile, piece, SPLIT: tl.constexpr):
    """Writes the partial sums of one program. parts: (tiles, SPLIT, BM, BN) in float32; acc: (BM, BN)."""
    BM: tl.constexpr = acc.shape[0]
    BN: tl.constexpr = acc.shape[1]
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    at = parts + (tile * SPLIT + piece).to(tl.int64) * (BM * BN)
    tl.store(at + m[:, None] * BN + n[None, :], acc)


@triton.jit
def add_part(parts, acc, tile):
    """Adds the partial sums of one program to those of the others. parts: (tiles, BM, BN) in float32, 0 at first."""
    BM: tl.constexpr = acc.shape[0]
    BN: tl.constexpr = acc.shape[1]
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    at = parts + tile.to(tl.int64) * (BM * BN)
    tl.atomic_add(at + m[:, None] * BN + n[None, :], acc, sem="relaxed")


@triton.jit
def arrive(semaphores, tile, SPLIT: tl.constexpr):
    """Counts this program, once all its threads have written; whether it is the last one of its tile."""
    tl.debug_barrier()
    last = tl.atomic_add(semaphores + tile, 1, sem="acq_rel") == SPLIT - 1
    if last:
        tl.store(semaphores + tile, 0)
    return last


@triton.jit
def sum_parts(parts, tile, column, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr, SPLIT: tl.constexpr):
    """The sums (BM, WIDTH) of all parts of a tile, from one column of it on, in order. They come from the L2."""
    m, n = tl.arange(0, BM), tl.arange(0, WIDTH)
    at = parts + tile.to(tl.int64) * (SPLIT * BM * BN) + column + m[:, None] * BN + n[None, :]
    acc = tl.load(at, cache_modifier=".cg")
    for piece in tl.static_range(1, SPLIT):
        acc += tl.load(at + piece * (BM * BN), cache_modifier=".cg")
    return acc
