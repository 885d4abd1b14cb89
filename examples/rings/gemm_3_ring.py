"""A Hopper GEMM in Gluon, step 3: a ring of D slots. The same warps load D - 1 steps ahead of what they multiply.

C = A @ B in float16; A (M, K) and B (K, N), rows innermost.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from tawa.rings import Ring, StoreRing


@gluon.jit
def gemm(
    a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr
):
    """One tile of C. a, b, c: descriptors. What a descriptor reads behind K is zero."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    ring = Ring.like((a, b), D)
    ahead = ring
    for step in gl.static_range(D - 1):
        ahead = ahead.put((a, b), ([m, step * BK], [step * BK, n]))
    acc = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, gl.cdiv(K, BK) * BK + (D - 1) * BK, BK):
        if k < K:
            ahead = ahead.put((a, b), ([m, k + (D - 1) * BK], [k + (D - 1) * BK, n]))
        x, y, ring = ring.get()
        acc = warpgroup_mma(x, y, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        ring.consumed()
    out = StoreRing.like(c, 1)
    out.put(c, [m, n], acc.to(c.dtype)).drain()
