"""What the kernels of the demo must compute, in float64 and in the precision of the kernel. Needs torch.

A reference is written once over an `Arithmetic`. `Exact` works in float64. `SamePrecision` is what PyTorch does with
the same inputs: products on the tensor cores with float32 sums (`torch.mm` with ``out_dtype``, `torch._scaled_mm` with
fast accumulation, TF32 for float32), everything after that in float32, one cast at the end. Where PyTorch has no such
product (e5m2 by e5m2), it is replaced by float32 without TF32, which is stricter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from tawa.runtime.case import Case, Number

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


def left(case: Case, tensors: Tensors) -> torch.Tensor:
    """A as M x K, without the padding of an empty K."""
    a = tensors["a"].t() if case.tensors["a"].shape[0] == "K" else tensors["a"]
    return a[:, : case.size("K")]


def right(case: Case, tensors: Tensors) -> torch.Tensor:
    """B as K x N."""
    b = tensors["b"].t() if case.tensors["b"].shape[0] == "N" else tensors["b"]
    return b[: case.size("K")]


def product(case: Case, tensors: Tensors, arithmetic: Arithmetic) -> torch.Tensor:
    """A @ B."""
    return arithmetic.matmul(left(case, tensors), right(case, tensors))


def gate_up(case: Case, tensors: Tensors, arithmetic: Arithmetic) -> torch.Tensor:
    """silu(A @ G) * (A @ U); G is the tensor ``b``, U the tensor ``u``."""
    a, k = left(case, tensors), case.size("K")
    gate, up = arithmetic.matmul(a, tensors["b"][:k]), arithmetic.matmul(a, tensors["u"][:k])
    return gate * torch.sigmoid(gate) * up


def causal_attention(case: Case, tensors: Tensors, arithmetic: Arithmetic) -> dict[str, torch.Tensor]:
    """Causal attention of equal lengths, and the base-2 logarithm of each row's sum.

    Weights are relative to the maximum of their row; in the kernel's precision they are rounded to the type of V.
    """
    q, k, v = (tensors[name] for name in "qkv")
    o = torch.empty(q.shape, dtype=arithmetic.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=arithmetic.dtype, device=q.device)
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
    scale = case.arguments["scale"]
    assert isinstance(scale, Number) and isinstance(scale.value, float)
    to_base_2 = scale.value * math.log2(math.e)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = (arithmetic.matmul(q[b, h], k[b, h].t()) * to_base_2).masked_fill(hidden, float("-inf"))
            most = s.amax(dim=1, keepdim=True)
            p = torch.exp2(s - most)
            total = p.sum(dim=1, keepdim=True)
            weights = p if arithmetic.dtype == torch.float64 else p.to(v.dtype)
            o[b, h] = arithmetic.matmul(weights, v[b, h]) / total
            lse[b, h] = (most + torch.log2(total))[:, 0]
    return {"o": o, "lse": lse}


def reference(case: Case, tensors: Tensors, arithmetic: Arithmetic) -> dict[str, torch.Tensor]:
    """The outputs of a case of the demo by name: in float64 if `Exact`, else in the element type of the output."""
    match case.kernel.fn.__name__:
        case "attention_two_loops":
            found = causal_attention(case, tensors, arithmetic)
        case "gemm_gate_up":
            found = {"c": gate_up(case, tensors, arithmetic)}
        case _:
            found = {"c": product(case, tensors, arithmetic)}
    if arithmetic.dtype == torch.float64:
        return found
    return {name: value.to(tensors[name].dtype) for name, value in found.items()}
