"""Attention backward in plain Triton that adds dQ from registers, for wide heads.

As `tawa.ops.kernels.attention.backward`, but a block of dQ is added by `tl.atomic_add`, in the order of the
accumulator's registers: no buffer of 64 KB, which for d = 256 leaves two slots to Q and dO. And dS is computed from P
as the other dots read it, in 16 bits: so one group can compute P and another one dS. For blocks of 64 queries and 64
keys, and 8 warps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from tawa.ops.kernels.attention.backward import WIDTH, by_registers

OWNED = {"groups": 2, "split": "columns", "exchange": True}
PLANS: dict[str, tuple[bool, dict[str, Any]]] = {
    "Tawa, one group": (False, {"groups": 1}),
    "Tawa, two groups": (True, OWNED),
    "Tawa, two groups, by keys": (False, OWNED),
}
"""By name: whether blocks are queries by keys, and a Plan. Groups that divide columns own different dots."""


@triton.jit
def add_queries(
    dk, dv, k, v, q_d, do_d, lse_ptr, delta_ptr, sums_ptr, n, base, low, high, scale, B: tl.constexpr,
    D: tl.constexpr, BY_QUERIES: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds what the queries in [low, high) contribute to dK and dV, and their dQ to memory.

    BY_QUERIES: blocks of P and dS are queries by keys, so that their left operands of dV and dK are turned. Otherwise
    they are keys by queries.
    """
    for m in range(low, high, B):
        rows = m + tl.arange(0, B)
        q = q_d.load([base + m, 0])
        lse = tl.load(lse_ptr + base + rows)
        do = do_d.load([base + m, 0])
        delta = tl.load(delta_ptr + base + rows)
        if BY_QUERIES:
            p = tl.exp2(tl.dot(q, k.T) * scale - lse[:, None])
            if MASKED:
                p = tl.where(n + tl.arange(0, B)[None, :] <= rows[:, None], p, 0.0)
            p = p.to(do.dtype)
            dv = tl.dot(p.T, do, dv)
            ds = (p * (tl.dot(do, v.T) - delta[:, None])).to(q.dtype)
            dk = tl.dot(ds.T, q, dk)
            dq = tl.dot(ds, k)
        else:
            p = tl.exp2(tl.dot(k, q.T) * scale - lse[None, :])
            if MASKED:
                p = tl.where(n + tl.arange(0, B)[:, None] <= rows[None, :], p, 0.0)
            p = p.to(do.dtype)
            dv = tl.dot(p, do, dv)
            ds = (p * (tl.dot(v, do.T) - delta[None, :])).to(q.dtype)
            dk = tl.dot(ds, q, dk)
            dq = tl.dot(ds.T, k)
        dq = by_registers(dq, B, D)
        at = tl.arange(0, B * D // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
        tl.atomic_add(sums_ptr + (base + m) * D + at, dq, sem="relaxed")
    return dk, dv


@triton.jit
def fused_backward(
    q_d, k_d, v_d, do_d, dk_d, dv_d, lse_ptr, delta_ptr, sums_ptr, L, scale, B: tl.constexpr, D: tl.constexpr,
    CAUSAL: tl.constexpr, BY_QUERIES: tl.constexpr,
):  # fmt: skip
    """dK and dV of B keys, and dQ / scale. Grid: blocks of keys, heads of all batches."""
    n, base = tl.program_id(0) * B, tl.program_id(1) * L
    dk, dv = tl.zeros([B, D], tl.float32), tl.zeros([B, D], tl.float32)
    k, v = k_d.load([base + n, 0]), v_d.load([base + n, 0])
    low = 0
    if CAUSAL:
        low = n + B
        dk, dv = add_queries(dk, dv, k, v, q_d, do_d, lse_ptr, delta_ptr, sums_ptr, n, base, n, low,
                             scale * 1.4426950408889634, B, D, BY_QUERIES, True)  # fmt: skip
    dk, dv = add_queries(dk, dv, k, v, q_d, do_d, lse_ptr, delta_ptr, sums_ptr, n, base, low, L,
                         scale * 1.4426950408889634, B, D, BY_QUERIES, False)  # fmt: skip
    dk_d.store([base + n, 0], (dk * scale).to(k.dtype))
    dv_d.store([base + n, 0], dv.to(v.dtype))


def prepare(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    do: Any,
    lse: Any,
    causal: bool,
    by_queries: bool,
    plan: dict[str, Any],
) -> tuple[Callable[[], tuple[Any, ...]], Callable[[], Any]]:
    """The whole backward pass, and what compiles its kernel, as `bench.peers.gluon_attention_backward.prepare`.

    plan: of the kernel, one of PLANS.
    """
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    import tawa
    from bench.peers.gluon_attention_backward import BLOCK, after, before

    batch, heads, length, head_dim = q.shape
    rows, scale = batch * heads * length, head_dim**-0.5
    sums, delta = (torch.empty(size, device=q.device) for size in (rows * head_dim, rows))
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    boxes = [TensorDescriptor.from_tensor(x.view(rows, head_dim), [BLOCK, head_dim]) for x in (q, k, v, do, dk, dv)]
    arguments = (*boxes, lse, delta, sums, length, scale)
    options = {"B": BLOCK, "D": head_dim, "CAUSAL": causal, "BY_QUERIES": by_queries, "num_warps": 8, "num_stages": 2,
               "only_if_faster": False, "plan": plan}  # fmt: skip
    kernel, grid = tawa.jit(fused_backward), (length // BLOCK, batch * heads)

    def run() -> tuple[Any, ...]:
        before[(rows // 32,)](o, do, delta, sums, head_dim, 32)
        kernel[grid](*arguments, **options)
        after[(2 * rows // BLOCK,)](sums, dq, scale, BLOCK, head_dim)
        return dq, dk, dv

    return run, lambda: kernel.warmup(*arguments, grid=grid, **options)
