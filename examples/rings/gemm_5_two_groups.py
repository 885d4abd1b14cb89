"""A Hopper GEMM in Gluon, step 5: two groups of warps share the tiles; each has half of the rows, and its own pace.

C = A @ B in float16; A (M, K) and B (K, N), rows innermost.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from tawa.rings import Ring, StoreRing


@gluon.jit
def producer(ring, a, b, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """One warp: fills slots as they become empty, which takes both groups."""
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    for k in range(0, K, BK):
        ring = ring.put((a, b), ([m, k], [k, n]))


@gluon.jit
def consumer(ring, out, c, K, GROUP: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """Four warps: half of the rows of the tile."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    ROWS: gl.constexpr = BM // 2
    acc = gl.zeros([ROWS, BN], gl.float32, layout)
    for k in range(0, K, BK):
        x, y, ring = ring.get()
        acc = warpgroup_mma(x.slice(GROUP * ROWS, ROWS), y, acc, is_async=True)
        acc = warpgroup_mma_wait(1, deps=(acc,))
        ring.consumed(1, pred=k > 0)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    out.put(c, [gl.program_id(0) * BM + GROUP * ROWS, gl.program_id(1) * BN], acc.to(c.dtype)).drain()


@gluon.jit
def gemm(
    a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr
):
    """One tile of C. a, b, c: descriptors; c in boxes of BM / 2 rows."""
    ring = Ring.like((a, b), D, readers=2)
    first, second = StoreRing.like(c, 1), StoreRing.like(c, 1)
    gl.warp_specialize(
        [
            (consumer, (ring, first, c, K, 0, BM, BN, BK)),
            (consumer, (ring, second, c, K, 1, BM, BN, BK)),
            (producer, (ring, a, b, K, BM, BN, BK)),
        ],
        [4, 1],
        [232, 24],
    )
