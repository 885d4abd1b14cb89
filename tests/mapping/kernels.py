"""Kernels for mappings: an attention, loops in a helper, a loop without induction variable."""

from __future__ import annotations

import triton
import triton.language as tl

ATTEND = (
    "q=tensordesc<fp16[128,64]>, k=tensordesc<fp16[64,64]>, v=tensordesc<fp16[64,64]>, o=tensordesc<fp16[128,64]>, "
    "N=i32:16, scale=fp32"
)
BLOCKS = {"BM": 128, "BN": 64, "D": 64}
GEMM = "a=tensordesc<fp16[64,64]>, b=tensordesc<fp16[64,64]>, c=tensordesc<fp16[64,64]>, K=i32:16"


@triton.jit
def attend(q, k, v, o, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * BM
    qs = q.load([row, 0])
    acc = tl.zeros((BM, D), tl.float32)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)  # noqa: E741
    for n in range(0, N, BN):
        s = tl.dot(qs, k.load([n, 0]).T) * scale
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc * alpha[:, None])
        m = m_new
    o.store([row, 0], (acc / l[:, None]).to(tl.float16))


@triton.jit
def part(acc, a, b, first, last):
    for step in range(first, last, 64):
        acc = tl.dot(a.load([0, step]), b.load([step, 0]), acc)
    return acc


@triton.jit
def helped(a, b, c, K):
    acc = tl.zeros((64, 64), tl.float32)
    acc = part(acc, a, b, 0, K)
    acc = part(acc, a, b, K, 2 * K)
    c.store([0, 0], acc.to(tl.float16))


@triton.jit
def until(a, b, c, K):
    acc = tl.zeros((64, 64), tl.float32)
    k = 0
    while k < K:
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
        k += 64
    for tile in range(K):
        tl.store(c + tile + tl.arange(0, 64), tl.sum(acc, 1))
