"""What each GEMM case must compute, in float64 and in the precision of the kernel.

A reference is written once over an `Arithmetic` (`tests.cases.arithmetic`): the same code gives the float64 result and
that of PyTorch in the kernel's precision. The tolerance of every test is twice the error of the latter against the
former.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.cases.arithmetic import Arithmetic, Tensors
from tests.cases.case import Case, Specimen


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


def reference(case: Specimen, tensors: Tensors, arithmetic: Arithmetic) -> dict[str, torch.Tensor]:
    """The outputs of a case by name. `Exact` leaves them in float64, otherwise they have the output's element type."""
    result = REFERENCES[case.reference](case, tensors, arithmetic)
    if arithmetic.dtype != torch.float64:
        result = result.to(tensors["c"].dtype)
    return {"c": result}


def _masked(a: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """`a` where `keep`, else zero, in its own element type (fp8 has no `where`)."""
    return torch.where(keep, a.float(), 0.0).to(a.dtype)


def _split_k(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a, b = left(case, t), right(case, t)
    slice_of = torch.arange(a.shape[1], device=a.device) // case.size("BK") % case.size("SPLIT")
    return torch.stack([math.matmul(_masked(a, slice_of == s), b) for s in range(case.size("SPLIT"))])


def _triangular(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a = left(case, t)
    first = torch.arange(a.shape[0], device=a.device) // case.size("BM") * case.size("BM")
    keep = torch.arange(a.shape[1], device=a.device)[None, :] < first[:, None]
    return math.matmul(_masked(a, keep), right(case, t))


def _ragged(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a = left(case, t)
    tile_row = torch.arange(a.shape[0], device=a.device) // case.size("BM")
    keep = torch.arange(a.shape[1], device=a.device)[None, :] < (t["trips"][tile_row] * case.size("BK"))[:, None]
    return math.matmul(_masked(a, keep), right(case, t))


def _stacked(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    k, z = case.size("K"), case.size("Z")
    a = t["a"].reshape(z, case.size("M"), -1)[:, :, :k]
    b = t["b"][: z * k].reshape(z, k, case.size("N"))
    return torch.cat([math.matmul(a[i], b[i]) for i in range(z)])


def _batched(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    k = case.size("K")
    b = t["b"].transpose(1, 2) if case.tensors["b"].shape[1] == "N" else t["b"]
    return torch.stack([math.matmul(t["a"][i, :, :k], b[i, :k]) for i in range(case.size("Z"))])


def _two_loops(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    k2 = case.size("K2")
    return product(case, t, math) + math.matmul(t["a2"][:, :k2], t["b2"][:k2])


def _lower_only(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    c = product(case, t, math)
    rows = torch.arange(c.shape[0], device=c.device) // case.size("BM")
    columns = torch.arange(c.shape[1], device=c.device) // case.size("BN")
    stored = (rows[:, None] + 1) * case.size("BM") > columns[None, :] * case.size("BN")
    return torch.where(stored, c, float("nan"))


def _if_accumulate(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    start = t["c0"].to(math.dtype)
    return start if case.size("SKIP") else start + product(case, t, math)


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


def _epilogue(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    c, parts = product(case, t, math), case.constexprs
    if parts["SCALE"] == "scalar":
        c = c * torch.tensor(0.37, dtype=torch.float32).to(math.dtype).item()
    elif parts["SCALE"] == "rows":
        c = c * t["scale"].to(math.dtype)[:, None]
    if parts["BIAS"]:
        c = c + t["bias"].to(math.dtype)[None, :]
    c = _activate(c, parts["ACT"])
    return c + t["residual"].to(math.dtype) if parts["RESIDUAL"] else c


def _bias_relu(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return torch.relu(product(case, t, math) + t["bias"].to(math.dtype)[None, :])


def _invariant(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    norm = torch.rsqrt(t["x"].to(math.dtype).square().mean(dim=1))
    return product(case, t, math) * norm[:, None] * t["gain"].to(math.dtype)[None, :]


def _initial_bias(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return t["bias"].to(math.dtype)[None, :] + product(case, t, math)


def _in_loop_scale(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    a, b, step = left(case, t), right(case, t), case.size("BK")
    c = torch.zeros(a.shape[0], b.shape[1], device=a.device, dtype=math.dtype)
    for i, k in enumerate(range(0, case.size("K"), step)):
        c = c + math.matmul(a[:, k : k + step], b[k : k + step]) * t["scale"][i].to(math.dtype)[:, None]
    return c


def _add(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return t["x"].to(math.dtype) + t["y"].to(math.dtype)


def _softmax(case: Specimen, t: Tensors, math: Arithmetic) -> torch.Tensor:
    return torch.softmax(t["x"].to(math.dtype), dim=1)


REFERENCES: dict[str, Callable[[Specimen, Tensors, Arithmetic], torch.Tensor]] = {
    "gemm": product,
    "split_k": _split_k,
    "triangular": _triangular,
    "ragged": _ragged,
    "stacked": _stacked,
    "batched": _batched,
    "gate_up": gate_up,
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
