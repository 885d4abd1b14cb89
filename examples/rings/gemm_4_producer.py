"""A Hopper GEMM in Gluon, step 4: one warp does nothing but load, so that nobody else waits for an empty slot.

C = A @ B in float16; A (M, K) and B (K, N), rows innermost.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from tawa.rings import Ring, StoreRing


@gluon.jit
def producer(ring, a, b, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """One warp: fills slots as they become empty."""
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    for k in range(0, K, BK):
        ring = ring.put((a, b), ([m, k], [k, n]))


@gluon.jit
def consumer(ring, out, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """All other warps: one dot stays in flight while the next slot is waited for."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    acc = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, K, BK):
        x, y, ring = ring.get()
        acc = warpgroup_mma(x, y, acc, is_async=True)
        acc = warpgroup_mma_wait(1, deps=(acc,))
        ring.consumed(1, pred=k > 0)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    out.put(c, [gl.program_id(0) * BM, gl.program_id(1) * BN], acc.to(c.dtype)).drain()


@gluon.jit
def gemm(
    a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr
):
    """One tile of C. a, b, c: descriptors."""
    ring, out = Ring.like((a, b), D), StoreRing.like(c, 1)
    gl.warp_specialize([(consumer, (ring, out, c, K, BM, BN, BK)), (producer, (ring, a, b, K, BM, BN, BK))], [1], [24])
