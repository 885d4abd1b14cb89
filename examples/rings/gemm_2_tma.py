"""A Hopper GEMM in Gluon, step 2: TMA moves the tiles, into one buffer.

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
    """One tile of C. a, b, c: descriptors. D is not used: there is one buffer."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    ring = Ring.like((a, b), 1)
    acc = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, K, BK):
        ring.put((a, b), ([m, k], [k, n]))
        x, y, ring = ring.get()
        acc = warpgroup_mma(x, y, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        ring.consumed()
    out = StoreRing.like(c, 1)
    out.put(c, [m, n], acc.to(c.dtype)).drain()
