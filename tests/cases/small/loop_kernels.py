"""Persistent loops as people write them for any number of programs: the step is the grid's or an argument."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def written_out(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Dots of three parts of K in sequence."""
    for t in range(tl.program_id(0), T, tl.num_programs(0)):
        acc = tl.zeros((BM, BN), tl.float32)
        acc = tl.dot(a_desc.load([t * BM, 0]), b_desc.load([0, 0]), acc)
        acc = tl.dot(a_desc.load([t * BM, BK]), b_desc.load([BK, 0]), acc)
        acc = tl.dot(a_desc.load([t * BM, 2 * BK]), b_desc.load([2 * BK, 0]), acc)
        c_desc.store([t * BM, 0], acc.to(tl.float16))


@triton.jit
def unrolled(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same, as a loop over K that is unrolled."""
    for t in range(tl.program_id(0), T, tl.num_programs(0)):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.static_range(0, 3):
            acc = tl.dot(a_desc.load([t * BM, k * BK]), b_desc.load([k * BK, 0]), acc)
        c_desc.store([t * BM, 0], acc.to(tl.float16))


@triton.jit
def by_argument(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The number of programs is an argument."""
    for t in range(tl.program_id(0), T, S):
        acc = tl.zeros((BM, BN), tl.float32)
        acc = tl.dot(a_desc.load([t * BM, 0]), b_desc.load([0, 0]), acc)
        acc = tl.dot(a_desc.load([t * BM, BK]), b_desc.load([BK, 0]), acc)
        c_desc.store([t * BM, 0], acc.to(tl.float16))


@triton.jit
def below_zero(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """From a negative number on, in 64 bits."""
    for t in range(-T, T - 1, S.to(tl.int64)):
        row = (t + T).to(tl.int32) * BM
        acc = tl.zeros((BM, BN), tl.float32)
        acc = tl.dot(a_desc.load([row, 0]), b_desc.load([0, 0]), acc)
        acc = tl.dot(a_desc.load([row, BK]), b_desc.load([BK, 0]), acc)
        c_desc.store([row, 0], acc.to(tl.float16))


@triton.jit
def backwards(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Counting down, which only a constant step can do."""
    for t in range(T - 1, -1, -1):
        acc = tl.zeros((BM, BN), tl.float32)
        acc = tl.dot(a_desc.load([t * BM, 0]), b_desc.load([0, 0]), acc)
        acc = tl.dot(a_desc.load([t * BM, BK]), b_desc.load([BK, 0]), acc)
        c_desc.store([t * BM, 0], acc.to(tl.float16))


@triton.jit
def along_k(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One tile per program; every S-th part of K."""
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, T * BK, BK * S):
        acc = tl.dot(a_desc.load([tl.program_id(0) * BM, k]), b_desc.load([k, 0]), acc)
    c_desc.store([tl.program_id(0) * BM, 0], acc.to(tl.float16))


@triton.jit
def inside(a_desc, b_desc, c_desc, T, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A loop over K inside the loop over tiles."""
    for t in range(tl.program_id(0), T, S):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, t * BK, BK):
            acc = tl.dot(a_desc.load([t * BM, k]), b_desc.load([k, 0]), acc)
        c_desc.store([t * BM, 0], acc.to(tl.float16))
