"""Runs the six steps of a Hopper GEMM in Gluon, checks them, and prints their rates beside cuBLAS.

    python examples/ladder.py [SIZE]

The steps are the files of the folder `rings`. Without a Hopper GPU, `tawa verify` and `tawa simulate` take them, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

STEPS = ("1_registers", "2_tma", "3_ring", "4_producer", "5_two_groups", "6_persistent")
TILE = {"BM": 128, "BN": 256, "BK": 64, "D": 3}


def launch(step: str, a: Any, b: Any, c: Any, programs: int) -> Callable[[], Any]:
    """A launch of one step. programs: of the persistent one."""
    import torch

    kernel: Any = import_module(f"{'examples.' * (__name__ != '__main__')}rings.gemm_{step}").gemm
    (M, K), N = a.shape, b.shape[1]
    BM, BN, BK = (TILE[it] for it in ("BM", "BN", "BK"))
    groups = step.startswith(("5", "6"))
    warps = 4 if groups else 8
    grid = (programs,) if step.startswith("6") else (M // BM, N // BN)
    if step.startswith("1"):
        return lambda: kernel[grid](a, b, c, M, N, K, **TILE, num_warps=warps)
    boxes = ((a, [BM, BK]), (b, [BK, BN]), (c, [BM // 2 if groups else BM, BN]))
    made = [
        TensorDescriptor.from_tensor(x, box, gl.NVMMASharedLayout.get_default_for(box, gl.float16)) for x, box in boxes
    ]
    assert a.dtype == torch.float16
    return lambda: kernel[grid](*made, M, N, K, **TILE, num_warps=warps)


def main() -> None:
    """Checks and times all steps."""
    from hopper import median_us, torch_on_hopper

    torch = torch_on_hopper("`tawa verify` and `tawa simulate` take the kernels of examples/rings.")
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 8192
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in "ab")
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    rows = torch.randint(0, size, (64,), device="cuda")
    exact = a[rows].double() @ b.double()
    c = torch.empty_like(a)
    ways: dict[str, Callable[[], Any]] = {step: launch(step, a, b, c, programs) for step in STEPS}
    for step, run in ways.items():
        c.fill_(float("nan"))
        run()
        error = float((c[rows].double() - exact).abs().max() / exact.abs().max())
        assert error < 2e-3, f"{step}: the largest error is {error:.1e} of the largest value"
    ways["cuBLAS"] = lambda: torch.mm(a, b, out=c)
    for name, time_us in median_us(ways).items():
        print(f"{name:>16} {2e-6 * size**3 / time_us:8.0f} TFLOP/s")


if __name__ == "__main__":
    main()
