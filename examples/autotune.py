"""Tuning tiles, D and P together: `tawa.Config` is a `triton.Config` that takes Tawa's options too.

python examples/autotune.py                 needs a Hopper GPU and PyTorch
tawa explain examples/autotune.py:gemm_nt --sig 'a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[256,64]>,
    c=tensordesc<fp16[128,256]>, M=i32, N=i32, K=i32:16' --const BM=128,BN=256,BK=64 --num-warps 8
                                            needs neither: compiles one configuration and explains it
"""

from __future__ import annotations

import triton
import triton.language as tl

import tawa


def set_boxes(arguments) -> None:
    """Gives the host descriptors the boxes of the configuration that is about to run."""
    BM, BN, BK = arguments["BM"], arguments["BN"], arguments["BK"]
    arguments["a"].block_shape = [BM, BK]
    arguments["b"].block_shape = [BN, BK]
    arguments["c"].block_shape = [BM, BN]


def config(BM: int, BN: int, BK: int, num_warps: int, **options: int | bool) -> tawa.Config:
    """One configuration to try."""
    return tawa.Config({"BM": BM, "BN": BN, "BK": BK}, num_warps=num_warps, pre_hook=set_boxes, **options)


CONFIGS = [
    config(128, 256, 64, 8, aref_depth=3, mma_depth=1),
    config(128, 256, 64, 8, num_consumer_groups=1, num_buffers_warp_spec=4),  # names from Meta's branch of Triton
    config(128, 128, 64, 4, aref_depth=4, mma_depth=1),
    config(128, 128, 64, 4, enable_warp_specialization=False),  # stock Triton may win
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@tawa.jit
@triton.jit
def gemm_nt(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C[M, N] = A[M, K] @ B[N, K]^T, one BM x BN tile per program; a, b, c are TMA descriptors."""
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.float16))


def main() -> None:
    """Tunes one shape and prints the winner."""
    from hopper import torch_on_hopper

    torch = torch_on_hopper("Without them: the tawa explain command at the top of this file.")
    from triton.tools.tensor_descriptor import TensorDescriptor

    torch.manual_seed(0)
    M, N, K = 4096, 4096, 4096
    a = torch.randn((M, K), device="cuda", dtype=torch.float16)
    b = torch.randn((N, K), device="cuda", dtype=torch.float16)
    c = torch.empty((M, N), device="cuda", dtype=torch.float16)
    # The boxes are placeholders: `set_boxes` sets those of each configuration.
    descriptors = [TensorDescriptor.from_tensor(tensor, [128, 64]) for tensor in (a, b, c)]

    def grid(meta):
        return triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"])

    gemm_nt[grid](*descriptors, M, N, K)
    torch.testing.assert_close(c, a @ b.T, rtol=1e-2, atol=1e-1)
    print("best configuration:", gemm_nt.best_config)


if __name__ == "__main__":
    main()
