"""What each GEMM case must compute, in float64 and in the precision of the kernel.

A reference is written once over an `Arithmetic`. `Exact` works in float64. `SamePrecision` is what PyTorch does with
the same inputs: products by the tensor cores with float32 sums (`torch.mm` with ``out_dtype``, `torch._scaled_mm` with
fast accumulation, TF32 for float32), everything after that in float32, one cast at the end. The tolerance of every test
is twice the error of the latter against the former. Where PyTorch has no such product (e5m2 by e5m2), float32 without
TF32 stands in, which is stricter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from tawa.kernels.case import Case

Tensors = Mapping[str, torch.Tensor]


class Arithmetic(Protocol):
    """How a reference multiplies, and in which type it does the rest."""

    dtype: torch.dtype

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
            if a.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
                return _fp8_product(a, b)
            return torch.mm(a, b, out_dtype=torch.float32)
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return _with_tf32(False, lambda: a.float() @ b.float())


def reference(case: Case, tensors: Tensors, arithmetic: Arithmetic) -> dict[str, torch.Tensor]:
    """The outputs of a case by name. `Exact` leaves them in float64, otherwise they have the output's element type."""
    result = REFERENCES[case.reference](case, tensors, arithmetic)
    if arithmetic.dtype != torch.float64:
        result = result.to(tensors["c"].dtype)
    return {"c": result}


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


def _a(case: Case, tensors: Tensors) -> torch.Tensor:
    """A as M x K, without the padding of an empty K."""
    a = tensors["a"].t() if case.tensors["a"].shape[0] == "K" else tensors["a"]
    return a[:, : case.size("K")]


def _b(case: Case, tensors: Tensors) -> torch.Tensor:
    """B as K x N."""
    b = tensors["b"].t() if case.tensors["b"].shape[0] == "N" else tensors["b"]
    return b[: case.size("K")]


def _masked(a: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """`a` where `keep`, else zero, in its own element type (fp8 has no `where`)."""
    return torch.where(keep, a.float(), 0.0).to(a.dtype)


def _gemm(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return math.matmul(_a(case, t), _b(case, t))


def _split_k(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a, b = _a(case, t), _b(case, t)
    slice_of = torch.arange(a.shape[1], device=a.device) // case.size("BK") % case.size("SPLIT")
    return torch.stack([math.matmul(_masked(a, slice_of == s), b) for s in range(case.size("SPLIT"))])


def _triangular(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a = _a(case, t)
    first = torch.arange(a.shape[0], device=a.device) // case.size("BM") * case.size("BM")
    keep = torch.arange(a.shape[1], device=a.device)[None, :] < first[:, None]
    return math.matmul(_masked(a, keep), _b(case, t))


def _ragged(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a = _a(case, t)
    tile_row = torch.arange(a.shape[0], device=a.device) // case.size("BM")
    keep = torch.arange(a.shape[1], device=a.device)[None, :] < (t["trips"][tile_row] * case.size("BK"))[:, None]
    return math.matmul(_masked(a, keep), _b(case, t))


def _stacked(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    k, z = case.size("K"), case.size("Z")
    a = t["a"].reshape(z, case.size("M"), -1)[:, :, :k]
    b = t["b"][: z * k].reshape(z, k, case.size("N"))
    return torch.cat([math.matmul(a[i], b[i]) for i in range(z)])


def _batched(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    k = case.size("K")
    b = t["b"].transpose(1, 2) if case.tensors["b"].shape[1] == "N" else t["b"]
    return torch.stack([math.matmul(t["a"][i, :, :k], b[i, :k]) for i in range(case.size("Z"))])


def _gate_up(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a, k = _a(case, t), case.size("K")
    gate, up = math.matmul(a, t["b"][:k]), math.matmul(a, t["u"][:k])
    return gate * torch.sigmoid(gate) * up


def _two_loops(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    k2 = case.size("K2")
    return _gemm(case, t, math) + math.matmul(t["a2"][:, :k2], t["b2"][:k2])


def _lower_only(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    c = _gemm(case, t, math)
    rows = torch.arange(c.shape[0], device=c.device) // case.size("BM")
    columns = torch.arange(c.shape[1], device=c.device) // case.size("BN")
    stored = (rows[:, None] + 1) * case.size("BM") > columns[None, :] * case.size("BN")
    return torch.where(stored, c, float("nan"))


def _if_accumulate(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    start = t["c0"].to(math.dtype)
    return start if case.size("SKIP") else start + _gemm(case, t, math)


def _activate(x: torch.Tensor, name: str) -> torch.Tensor:
    match name:
        case "relu":
            return torch.relu(x)
        case "silu":
            return x * torch.sigmoid(x)
        case "gelu":
            return torch.nn.functional.gelu(x, approximate="tanh")
        case _:
            return x


def _epilogue(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    c, parts = _gemm(case, t, math), case.constexprs
    if parts["SCALE"] == "scalar":
        c = c * torch.tensor(0.37, dtype=torch.float32).to(math.dtype).item()
    elif parts["SCALE"] == "rows":
        c = c * t["scale"].to(math.dtype)[:, None]
    if parts["BIAS"]:
        c = c + t["bias"].to(math.dtype)[None, :]
    c = _activate(c, parts["ACT"])
    return c + t["residual"].to(math.dtype) if parts["RESIDUAL"] else c


def _bias_relu(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return torch.relu(_gemm(case, t, math) + t["bias"].to(math.dtype)[None, :])


def _invariant(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    norm = torch.rsqrt(t["x"].to(math.dtype).square().mean(dim=1))
    return _gemm(case, t, math) * norm[:, None] * t["gain"].to(math.dtype)[None, :]


def _initial_bias(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return t["bias"].to(math.dtype)[None, :] + _gemm(case, t, math)


def _in_loop_scale(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a, b, step = _a(case, t), _b(case, t), case.size("BK")
    c = torch.zeros(a.shape[0], b.shape[1], device=a.device, dtype=math.dtype)
    for i, k in enumerate(range(0, case.size("K"), step)):
        c = c + math.matmul(a[:, k : k + step], b[k : k + step]) * t["scale"][i].to(math.dtype)[:, None]
    return c


def _add(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return t["x"].to(math.dtype) + t["y"].to(math.dtype)


def _softmax(case: Case, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return torch.softmax(t["x"].to(math.dtype), dim=1)


REFERENCES: dict[str, Callable[[Case, Tensors, Arithmetic], torch.Tensor]] = {
    "gemm": _gemm,
    "split_k": _split_k,
    "triangular": _triangular,
    "ragged": _ragged,
    "stacked": _stacked,
    "batched": _batched,
    "gate_up": _gate_up,
    "two_loops": _two_loops,
    "lower_only": _lower_only,
    "if_accumulate": _if_accumulate,
    "epilogue": _epilogue,
    "bias_relu": _bias_relu,
    "invariant": _invariant,
    "initial_bias": _initial_bias,
    "in_loop_scale": _in_loop_scale,
    "add": _add,
    "softmax": _softmax,
}
