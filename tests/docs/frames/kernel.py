# kernel=kernel sig="a=tensordesc<fp16[64,64]>, b=tensordesc<fp16[64,64]>, c=tensordesc<fp16[64,64]>, x=*fp16:16, flags=*i32:16, K=i32:16" const=BM=64,BN=64,BK=64 options=only_if_faster=False
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, c, x, flags, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    # the block
