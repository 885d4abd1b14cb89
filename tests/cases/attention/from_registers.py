"""Backward attention whose blocks of dQ are added through pointers, from the registers of the threads, without a mask.

Plain Triton; letters and layouts as in `tawa.ops.kernels.attention.backward`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.backward import WIDTH, by_registers
from tawa.ops.kernels.attention.parts import LOG2_E, load_rows, store_rows


@triton.jit
def attention_from_registers(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, sums_ptr, lse_ptr, delta_ptr, H, SQ, SP, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """dK and dV of BN keys, and dQ / scale is added up in the order of `by_registers`. Grid: keys, heads."""
    n, head = tl.program_id(0) * BN, tl.program_id(1)
    b, h = head // H, head % H
    dk, dv = tl.zeros([BN, D], tl.float32), tl.zeros([BN, D], tl.float32)
    k, v = load_rows(k_desc, b, h, n, BN, D), load_rows(v_desc, b, h, n, BN, D)
    at = tl.arange(0, BM * D // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    for m in range(0, SQ, BM):
        rows = head * SP + m + tl.arange(0, BM)
        q = load_rows(q_desc, b, h, m, BM, D)
        p = tl.exp2(tl.dot(k, q.T) * (scale * LOG2_E) - tl.load(lse_ptr + rows)[None, :])
        do = load_rows(do_desc, b, h, m, BM, D)
        dv = tl.dot(p.to(do.dtype), do, dv)
        ds = (p * (tl.dot(v, do.T) - tl.load(delta_ptr + rows)[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, dk)
        block = by_registers(tl.dot(ds.T, k), BM, D)
        tl.atomic_add(sums_ptr + (head * SP + m) * D + at, block, sem="relaxed")
    store_rows(dk_desc, b, h, n, dk * scale, BN, D)
    store_rows(dv_desc, b, h, n, dv, BN, D)
