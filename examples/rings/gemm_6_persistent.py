"""A Hopper GEMM in Gluon, step 6: persistent programs. A tile is stored while the next one is computed.

C = A @ B in float16; A (M, K) and B (K, N), rows innermost.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from tawa.rings import Ring, StoreRing

ROWS = gl.constexpr(8)
"""Of tiles, whose columns of tiles are worked off one after the other, so that they stay in the L2."""


@gluon.jit
def place_of(tile, M, N, BM: gl.constexpr, BN: gl.constexpr):
    """The first row and the first column of a tile."""
    rows, columns = gl.cdiv(M, BM), gl.cdiv(N, BN)
    first = tile // (ROWS * columns) * ROWS
    height = gl.minimum(rows - first, ROWS)
    within = tile % (ROWS * columns)
    return (first + within % height) * BM, within // height * BN


@gluon.jit
def producer(ring, a, b, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """One warp: runs ahead into the next tile."""
    for tile in range(gl.program_id(0), gl.cdiv(M, BM) * gl.cdiv(N, BN), gl.num_programs(0)):
        m, n = place_of(tile, M, N, BM, BN)
        for k in range(0, K, BK):
            ring = ring.put((a, b), ([m, k], [k, n]))


@gluon.jit
def consumer(ring, out, c, M, N, K, GROUP: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """Four warps: half of the rows of each tile."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    HALF: gl.constexpr = BM // 2
    for tile in range(gl.program_id(0), gl.cdiv(M, BM) * gl.cdiv(N, BN), gl.num_programs(0)):
        m, n = place_of(tile, M, N, BM, BN)
        acc = gl.zeros([HALF, BN], gl.float32, layout)
        for k in range(0, K, BK):
            x, y, ring = ring.get()
            acc = warpgroup_mma(x.slice(GROUP * HALF, HALF), y, acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=(acc,))
            ring.consumed(1, pred=k > 0)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        ring.consumed(0, pred=K > 0)
        out = out.put(c, [m + GROUP * HALF, n], acc.to(c.dtype))
    out.drain()


@gluon.jit
def gemm(
    a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr
):
    """The tiles of one of as many programs as there are SMs. a, b, c: descriptors; c in boxes of BM / 2 rows."""
    ring = Ring.like((a, b), D, readers=2)
    first, second = StoreRing.like(c, 1), StoreRing.like(c, 1)
    gl.warp_specialize(
        [
            (consumer, (ring, first, c, M, N, K, 0, BM, BN, BK)),
            (consumer, (ring, second, c, M, N, K, 1, BM, BN, BK)),
            (producer, (ring, a, b, M, N, K, BM, BN, BK)),
        ],
        [4, 1],
        [232, 40],
    )
