"""Calls of functions that launch Gluon kernels, for files that have no tests: by the name of the function."""

from __future__ import annotations

from typing import Any

_ATTENTION = "half(1, 2, 1024, 128)"
_QKVO = ", ".join(4 * [_ATTENTION])

CALLS: dict[str, tuple[str, ...]] = {
    "run_fa": tuple(
        f"run_fa({_QKVO}, single(2, 1024), {causal}, PP={ping_pong})"
        for causal in (False, True)
        for ping_pong in (False, True)
    ),
    "run_gemm": (
        "run_gemm(half(1024, 512), half(512, 1024), half(1024, 1024))",
        "run_gemm(half(1024, 512), half(512, 1024), half(1024, 1024), D=3, P=0, EN=256)",
    ),
    "run_nt": (
        "run_nt(half(1024, 512), half(1024, 512), half(1024, 1024), BK=64)",
        "run_nt(byte(1024, 512), byte(1024, 512), half(1024, 1024))",
    ),
    "run": tuple(f"run({_QKVO}, {groups}, 128, 2, 160)" for groups in (2, 3)),
}
"""`half`, `single` and `byte` make a tensor of float16, float32 or float8 of a shape."""


def environment() -> dict[str, Any]:
    """The names in the calls."""
    import torch

    def maker(dtype: Any) -> Any:
        return lambda *shape: torch.empty(shape, dtype=dtype, device="meta")

    return {"half": maker(torch.float16), "single": maker(torch.float32), "byte": maker(torch.float8_e4m3fn)}
