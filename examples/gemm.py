"""A matrix product in plain Triton: one decorator makes it warp-specialised.

python examples/gemm.py                     needs a Hopper GPU and PyTorch: runs, checks and times it
tawa explain examples/gemm.py:gemm --sig 'a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>,
    c=tensordesc<fp16[128,256]>, M=i32:16, N=i32:16, K=i32:16' --const BM=128,BN=256,BK=64 --num-warps 8
                                            needs neither: compiles it and explains it
"""

from __future__ import annotations

import triton
import triton.language as tl

import tawa

BM, BN, BK = 128, 256, 64


@tawa.jit
@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C[M, N] = A[M, K] @ B[K, N], one BM x BN tile per program; a, b, c are TMA descriptors."""
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


def matmul(a, b, **options):
    """Returns a @ b for two fp16 CUDA tensors; `options` are launch options, Triton's and Tawa's."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=torch.float16)
    descriptors = (
        TensorDescriptor.from_tensor(a, [BM, BK]),
        TensorDescriptor.from_tensor(b, [BK, BN]),
        TensorDescriptor.from_tensor(c, [BM, BN]),
    )
    grid = (triton.cdiv(M, BM), triton.cdiv(N, BN))
    gemm[grid](*descriptors, M, N, K, BM, BN, BK, num_warps=8, **options)
    return c


def main() -> None:
    """Checks the product against float64 and times stock, specialised and cuBLAS."""
    from hopper import median_us, torch_on_hopper

    torch = torch_on_hopper("Without them: the tawa explain command at the top of this file.")
    torch.manual_seed(0)
    M, N, K = 4096, 4096, 4096
    a = torch.randn((M, K), device="cuda", dtype=torch.float16)
    b = torch.randn((K, N), device="cuda", dtype=torch.float16)

    exact = a.double() @ b.double()
    error = (matmul(a, b, enable_warp_specialization=True).double() - exact).abs().max().item()
    cublas_error = ((a @ b).double() - exact).abs().max().item()
    print(f"largest error against float64: {error:.3g} (cuBLAS {cublas_error:.3g})")
    assert error <= 2 * cublas_error

    products = {
        "stock Triton": lambda: matmul(a, b, enable_warp_specialization=False),
        "Tawa": lambda: matmul(a, b, enable_warp_specialization=True),
        "cuBLAS": lambda: a @ b,
    }
    for name, time_us in median_us(products).items():
        print(f"{name:>14}: {2 * M * N * K / time_us * 1e-6:6.0f} TFLOP/s")
    print(tawa.explain(gemm))


if __name__ == "__main__":
    main()
