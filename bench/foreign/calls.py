"""Calls that launch the Gluon kernels of files without tests, by the name of the file: evaluated in its module."""

from __future__ import annotations

from typing import Any

_ATTENTION = ", ".join(4 * ["half(1, 2, 1024, 128)"])

CALLS: dict[str, tuple[str, ...]] = {
    "gluon_fa.py": tuple(
        f"run_fa({_ATTENTION}, single(2, 1024), {causal}, PP={ping_pong})"
        for causal in (False, True)
        for ping_pong in (False, True)
    ),
    "gluon_gemm.py": (
        "run_gemm(half(1024, 512), half(512, 1024), half(1024, 1024))",
        "run_gemm(half(1024, 512), half(512, 1024), half(1024, 1024), D=3, P=0, EN=256)",
    ),
    "gluon_nt.py": (
        "run_nt(half(1024, 512), half(1024, 512), half(1024, 1024), BK=64)",
        "run_nt(byte(1024, 512), byte(1024, 512), half(1024, 1024))",
    ),
    "attention_groups.py": tuple(f"run({_ATTENTION}, {groups}, 128, 2, 160)" for groups in (2, 3)),
    "gluon_ring.py": (
        "kernel[(1,)](tiles(half(64, 512), 64, 64), tiles(half(512, 128), 64, 128), single(192, 128), 512, 128, 64, 3)",
    ),
}


def environment() -> dict[str, Any]:
    """What the calls need: `half`, `single` and `byte` make a tensor of a shape, `tiles` a descriptor with a box."""
    import torch
    from triton.experimental.gluon.language import NVMMASharedLayout, float16
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    def maker(dtype: Any) -> Any:
        return lambda *shape: torch.empty(shape, dtype=dtype, device="meta")

    def tiles(tensor: Any, *box: int) -> Any:
        layout: Any = NVMMASharedLayout.get_default_for([*box], float16)
        return TensorDescriptor.from_tensor(tensor, [*box], layout)

    return {
        "half": maker(torch.float16), "single": maker(torch.float32), "byte": maker(torch.float8_e4m3fn),
        "tiles": tiles,
    }  # fmt: skip
