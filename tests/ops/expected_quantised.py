"""What scaled, batched and weight-only products must compute, and random problems for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tawa.ops.products.weight_only_packing import (
    FOREIGN,
    FP8_FORMATS,
    foreign_codes,
    foreign_zeros,
    pack_weights,
    unpack_weights,
)

WEIGHTS = ("int4", "int8", "fp8_e4m3", "fp8_e5m2", *FOREIGN)
FACTOR = 2.0
"""Times the error of a product in the same precision."""


def check(found: Any, exact: Any, tolerance: float) -> None:
    """Raises AssertionError unless all of `found` is near `exact`. tolerance: of the largest value."""
    assert found.shape == exact.shape, f"shape {tuple(found.shape)}, not {tuple(exact.shape)}"
    error = (found.double() - exact).abs().max() / exact.abs().max()
    assert error <= tolerance, f"error {error:.2e} of the largest value, {tolerance:.2e} is allowed"


def random_scale(kind: int, rows: int, K: int, device: str = "cpu") -> Any:
    """Scales of a kind (`tawa.ops.products.scaled_launch`) for an operand (rows, K)."""
    steps = -(-K // 128)
    shapes: dict[int, tuple[int, ...]] = {0: (), 1: (rows, 1), 2: (rows, steps), 3: (-(-rows // 128), steps)}
    return 0.5 + torch.rand(shapes[kind], generator=torch.Generator().manual_seed(kind)).to(device)


def spread(scale: Any, rows: int, K: int) -> Any:
    """Scales of an operand (rows, K), one for each element."""
    if scale.numel() == 1:
        return scale.double().reshape(1, 1).expand(rows, K)
    scale = scale.double() if scale.shape[0] == rows else scale.double().repeat_interleave(128, 0)[:rows]
    return scale.expand(rows, K) if scale.shape[1] == 1 else scale.repeat_interleave(128, 1)[:, :K]


def of_scaled(a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any) -> Any:
    """C in float64."""
    (M, K), N = a.shape, b.shape[1]
    scale_b = spread(scale_b.t() if scale_b.dim() == 2 else scale_b, N, K)
    c = (a.double() * spread(scale_a, M, K)) @ (b.t().double() * scale_b).t()
    return c if bias is None else c + bias.double()


@dataclass(frozen=True)
class Weights:
    """Packed weights, and what they stand for in float64, (N, K)."""

    qweight: Any
    scales: Any
    zeros: Any
    exact: Any

    def check(self, y: Any, x: Any, bias: Any) -> None:
        """Raises AssertionError unless y is x @ W^T + bias, nearly as near as PyTorch with rounded weights."""
        added = 0.0 if bias is None else bias.double()
        exact = x.double() @ self.exact.t() + added
        peer = (x.double() @ self.exact.to(x.dtype).double().t() + added).to(x.dtype)
        error = (peer.double() - exact).abs().max() / exact.abs().max()
        check(y, exact, FACTOR * float(error))


def widened(qweight: Any, scales: Any, zeros: Any, K: int, group_size: int | None, format: str) -> Any:
    """The weights (N, K) that packed ones stand for, in float64: those of `weight_only_mm`, but for rounding."""
    if format in FOREIGN:
        codes, offset = foreign_codes(qweight, format), 8
        numbers = None if zeros is None else foreign_zeros(zeros, format)
    else:
        codes, offset, numbers = unpack_weights(qweight, K, format), {"int4": 8, "int8": 128}.get(format, 0), zeros
    if format in FP8_FORMATS.values():
        kind = next(it for it, name in FP8_FORMATS.items() if name == format)
        values = codes.to(torch.uint8).view(kind).double()
    else:
        values = codes.double()
    group = torch.arange(K, device=qweight.device) // (group_size or K)
    zero: Any = offset if numbers is None else numbers.double().t()[:, group]
    return (values - zero) * scales.double().t()[:, group]


def random_weights(
    format: str, N: int, K: int, size: int, has_zeros: bool, dtype: Any = torch.float16, device: str = "cpu"
) -> Weights:
    """Weights of a format. size: elements of K that share a scale; 0 for all."""
    numbers = torch.Generator().manual_seed(N + K)
    groups = -(-K // (size or K))

    def integers(low: int, high: int, *shape: int, dtype: Any = torch.int32) -> Any:
        return torch.randint(low, high, shape, generator=numbers, dtype=dtype)

    scales = ((0.5 + torch.rand(groups, N, generator=numbers)) / 16).to(dtype)
    zeros = None
    if format in FOREIGN:
        shape = (K, N // 8) if format == "awq" else (K // 8, N)
        qweight = integers(-(2**31), 2**31 - 1, *shape)
        zeros = integers(-(2**31), 2**31 - 1, groups, N // 8) if has_zeros else None
    elif format.startswith("fp8"):
        kind = torch.float8_e4m3fn if format == "fp8_e4m3" else torch.float8_e5m2
        qweight = pack_weights(torch.randn(N, K, generator=numbers).to(kind), format)
    else:
        low, high, kind = (0, 16, torch.uint8) if format == "int4" else (-128, 128, torch.int8)
        qweight = pack_weights(integers(low, high, N, K, dtype=kind), format)
        zeros = integers(0, high - low, groups, N).to(dtype) if has_zeros else None
    exact = widened(qweight, scales, zeros, K, size or None, format)
    qweight, scales, exact = (it.to(device) for it in (qweight, scales, exact))
    return Weights(qweight, scales, zeros if zeros is None else zeros.to(device), exact)
