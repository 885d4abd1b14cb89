"""A Hopper GEMM in Gluon, step 1: tiles come through registers, and everything waits for everything.

C = A @ B in float16; A (M, K) and B (K, N), rows innermost. All sizes are multiples of a tile's.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from tawa.rings.names import thread_barrier


@gluon.jit
def gemm(
    a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr
):
    """One tile of C. a, b, c: pointers. D is not used: there is one buffer."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [num_warps, 1], [1, 0])
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
    shared: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    of_m, of_n = gl.arange(0, BM, gl.SliceLayout(1, rows)), gl.arange(0, BN, gl.SliceLayout(0, rows))
    of_k, k_of_b = gl.arange(0, BK, gl.SliceLayout(0, rows)), gl.arange(0, BK, gl.SliceLayout(1, rows))
    x = gl.allocate_shared_memory(gl.float16, [BM, BK], shared)
    y = gl.allocate_shared_memory(gl.float16, [BK, BN], shared)
    acc = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, K, BK):
        x.store(gl.load(a + (m + of_m)[:, None] * K + (k + of_k)[None, :]))
        y.store(gl.load(b + (k + k_of_b)[:, None] * N + (n + of_n)[None, :]))
        fence_async_shared()
        thread_barrier()
        acc = warpgroup_mma(x, y, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    made = gl.convert_layout(acc.to(gl.float16), rows)
    gl.store(c + (m + of_m)[:, None] * N + (n + of_n)[None, :], made)
