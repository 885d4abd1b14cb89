# kernel=kernel sig="a=tensordesc<fp16[64,64]>, b=tensordesc<fp16[64,64]>, c=tensordesc<fp16[64,64]>, K=i32:16" const=BM=64,BN=64,BK=64
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


def launch(grid, arguments):
    # the block
