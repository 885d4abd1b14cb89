"""A Hopper GEMM in Gluon, step 6: persistent programs, whose epilogue runs beside the next tile's loads.

C = A @ B in float16; A (M, K) and B (K, N), rows innermost.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from tawa.rings import Ring, StoreRing


@gluon.jit
def producer(ring, a, b, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    for tile in range(gl.program_id(0), gl.cdiv(M, BM) * gl.cdiv(N, BN), gl.num_programs(0)):
        m, n = tile % gl.cdiv(M, BM) * BM, tile // gl.cdiv(M, BM) * BN
        for k in range(0, K, BK):
            ring = ring.put((a, b), ([m, k], [k, n]))


@gluon.jit
def consumer(ring, out, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, GROUP: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    for tile in range(gl.program_id(0), gl.cdiv(M, BM) * gl.cdiv(N, BN), gl.num_programs(0)):
        m, n = tile % gl.cdiv(M, BM) * BM, tile // gl.cdiv(M, BM) * BN
        acc = gl.zeros([BM // 2, BN], gl.float32, layout)
        for k in range(0, K, BK):
            x, y, ring = ring.get()
            acc = warpgroup_mma(x.slice(GROUP * (BM // 2), BM // 2), y, acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=(acc,))
            ring.consumed(1, pred=k > 0)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        ring.consumed(0, pred=K > 0)
        out = out.put(c, [m + GROUP * (BM // 2), n], acc.to(c.dtype))
    out.drain()


@gluon.jit
def gemm(
    a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr
):
    ring = Ring.like((a, b), D, readers=2)
    first, second = StoreRing.like(c, 1), StoreRing.like(c, 1)
    gl.warp_specialize(
        [
            (consumer, (ring, first, c, M, N, K, BM, BN, BK, 0)),
            (consumer, (ring, second, c, M, N, K, BM, BN, BK, 1)),
            (producer, (ring, a, b, M, N, K, BM, BN, BK)),
        ],
        [4, 1],
        [232, 40],
    )
