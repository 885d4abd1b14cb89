"""The arithmetics in which references are computed: float64, and the precision of the kernel. Needs torch.

A reference is written once over an `Arithmetic`. `Exact` works in float64. `SamePrecision` is what PyTorch does with
the same inputs: products on the tensor cores with float32 sums (`torch.mm` with ``out_dtype``, `torch._scaled_mm` with
fast accumulation, TF32 for float32), everything after that in float32, one cast at the end. Where PyTorch has no such
product (e5m2 by e5m2), it is replaced by float32 without TF32, which is stricter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

Tensors = Mapping[str, torch.Tensor]


class Arithmetic(Protocol):
    """How a reference multiplies, and in which type it does the rest."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of everything but the operands."""
        ...

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The product of two matrices in their own element type; the result has `dtype`."""
        ...


@dataclass(frozen=True)
class Exact:
    """Everything in float64."""

    dtype: torch.dtype = torch.float64

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The float64 product."""
        return a.to(torch.float64) @ b.to(torch.float64)


@dataclass(frozen=True)
class SamePrecision:
    """Tensor-core products with float32 sums, the rest in float32."""

    dtype: torch.dtype = torch.float32

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """PyTorch's product of the same element types, kept in float32."""
        if a.shape[1] == 0:
            return torch.zeros(a.shape[0], b.shape[1], device=a.device)
        if a.dtype == torch.float32:
            return _with_tf32(True, lambda: a @ b)
        try:
            if a.dtype == b.dtype == torch.float8_e5m2:
                return _product_of_e5m2(a, b)
            if a.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
                return _fp8_product(a, b)
            return torch.mm(a, b, out_dtype=torch.float32)
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return _with_tf32(False, lambda: a.float() @ b.float())


def _with_tf32(allowed: bool, product: Callable[[], torch.Tensor]) -> torch.Tensor:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        return product()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _fp8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    one = torch.ones((), device=a.device)
    columns = b.t().contiguous().t()
    return torch._scaled_mm(a.contiguous(), columns, one, one, out_dtype=torch.float32, use_fast_accum=True)


def _product_of_e5m2(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """PyTorch has no product of two matrices in e5m2: the large and the small elements of A are taken in e4m3.

    Both have all bits of A, whose elements are at most 448 (the largest in e4m3).
    """
    values = a.float()
    if bool((values.abs() > torch.finfo(torch.float8_e4m3fn).max).any()):
        raise ValueError("too large for e4m3")
    small = values.abs() < 2.0**-6  # the least normal number of e4m3
    parts = (values.masked_fill(small, 0.0), 1.0), (values.masked_fill(~small, 0.0), 2.0**12)
    large, rest = (_fp8_product((x * scale).to(torch.float8_e4m3fn), b) / scale for x, scale in parts)
    return large + rest
