"""What matrix products are compared with: float64, and PyTorch in the same precision for the allowed error."""

from __future__ import annotations

from typing import Any

import torch

ACTIVATIONS = {
    "none": lambda z: z,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
}


def linear_in(
    dtype: torch.dtype, x: Any, weight: Any, bias: Any = None, residual: Any = None, activation: str = "none",
    gated: bool = False,
) -> torch.Tensor:  # fmt: skip
    """`tawa.ops.linear`, step by step in one type."""
    x, weight = x.to(dtype), weight.to(dtype)
    z = x @ weight.mT
    if bias is not None:
        z = z + bias.to(dtype)
    act = ACTIVATIONS[activation]
    if gated:
        gate, other = z.chunk(2, dim=-1)
        z = act(gate) * other
    else:
        z = act(z)
    return z if residual is None else z + residual.to(dtype)


def allowed_error(exact: torch.Tensor, x: torch.Tensor, *rest: Any, **options: Any) -> float:
    """Twice the error of PyTorch in the type of `x`; float32 stands for TF32, with ten bits of a fraction."""
    if x.dtype == torch.float32:
        peer = linear_in(torch.float32, *(it if it is None else _as_tf32(it) for it in (x, *rest)), **options)
        room = 2 * (peer.double() - exact).abs().max().item()
        return room + 1e-5 * exact.abs().max().item()
    peer = linear_in(x.dtype, x, *rest, **options)
    return 2 * (peer.double() - exact).abs().max().item() + torch.finfo(x.dtype).eps * exact.abs().max().item() / 2


def _as_tf32(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & -8192).view(torch.float32)  # the hardware drops 13 bits


def check_product(found: torch.Tensor, x: torch.Tensor, *rest: Any, **options: Any) -> None:
    """Raises AssertionError unless the result is as precise as PyTorch's, and finite."""
    exact = linear_in(torch.float64, x, *rest, **options)
    assert found.shape == exact.shape and found.dtype == x.dtype
    assert bool(found.isfinite().all()), "not finite"
    error = (found.double() - exact).abs().max().item() if exact.numel() else 0.0
    allowed = allowed_error(exact, x, *rest, **options) if exact.numel() else 0.0
    assert error <= allowed, f"error {error:.3g}, allowed {allowed:.3g}"
