"""A dot in Gluon whose accumulator is used through the result of its wait, or bypassing it."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def chained(a_desc, b_desc, c_desc, K, THROUGH: gl.constexpr, num_warps: gl.constexpr):
    """C = A @ B, one buffer. THROUGH: uses the result of the last wait, else the result of the dot, still in flight."""
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    c = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    acc = gl.zeros((64, 64), dtype=gl.float32, layout=layout)
    phase = 0
    for k in range(0, K, 64):
        mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [0, k], bar, a)
        tma_load(b_desc, [k, 0], bar, b)
        mbarrier.wait(bar, phase)
        phase ^= 1
        raw = warpgroup_mma(a, b, acc, is_async=True)
        early = warpgroup_mma_wait(num_outstanding=1, deps=(raw,))
        done = warpgroup_mma_wait(num_outstanding=0, deps=(raw,))
        if THROUGH:
            acc = done
        else:
            acc = early
    mbarrier.invalidate(bar)
    c.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma_store(c_desc, [0, 0], c)
    tma.store_wait(0)
