"""`tawa.ops.matmul` and `tawa.ops.linear` as PyTorch operators.

A call from eager PyTorch on ordinary tensors launches its kernel without PyTorch's dispatcher; what was checked and
decided for tensors of one shape and layout is kept. All other calls go through the operators
``tawa::mm`` and ``tawa::linear``, which torch.compile traces, and which have gradients.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.fallback import left_to_pytorch
from tawa.ops.calls.operators import defined, derived
from tawa.ops.calls.plain import KnownCalls, is_plain, records, wants_gradient
from tawa.ops.calls.tensors import unwritten
from tawa.ops.products.matmul_checks import check_factors, check_linear, stored_along, why_not
from tawa.ops.products.matmul_launch import Product, fits, gated_gradients, known_product

_MM = "mm(Tensor a, Tensor b) -> Tensor"
_OPTIONS = "Tensor x, Tensor weight, Tensor? bias, Tensor? residual, str activation, bool gated"
_LINEAR = f"linear({_OPTIONS}) -> Tensor"
_LINEAR_KEPT = f"linear_kept({_OPTIONS}) -> (Tensor, Tensor)"
_GATED_GRADIENTS = "gated_gradients(Tensor gradient, Tensor sums, str activation) -> Tensor"


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``A @ B``, as `torch.matmul`.

    Args:
        a: (..., M, K) or (K,) in float16, bfloat16, or float32, which is multiplied as TF32.
        b: (K, N) or (K,) of the same type. More dimensions of `b` are left to PyTorch.

    Returns:
        The product, contiguous, in the type of `a`. Sums are taken in float32, in one order for equal calls.

    Raises:
        ArgumentError: the shapes or the types do not fit.
        DeviceError: the tensors are not on one CUDA device.
    """
    a, b = autocast(a, b)
    if a.ndim == 2 and b.ndim == 2:
        return _product(a, b)
    check_factors(a, b)
    if b.ndim > 2:
        left_to_pytorch("tawa.ops.matmul", "b has more than two dimensions")
        return torch.matmul(a, b)
    if a.ndim == 1 or b.ndim == 1:
        rows = a.unsqueeze(0) if a.ndim == 1 else a
        made = matmul(rows, b.unsqueeze(1) if b.ndim == 1 else b)
        made = made.squeeze(-1) if b.ndim == 1 else made
        return made.squeeze(-2 if b.ndim > 1 else -1) if a.ndim == 1 else made
    if a.ndim > 2:
        return _product(a.reshape(-1, a.shape[-1]), b).view(*a.shape[:-1], b.shape[1])
    return _product(a, b)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    activation: str = "none",
    residual: torch.Tensor | None = None,
    gated: bool = False,
) -> torch.Tensor:
    """``act(x @ weight.T + bias) + residual``, as `torch.nn.functional.linear` and what follows it, in one kernel.

    Args:
        x: (..., K) in float16, bfloat16, or float32, which is multiplied as TF32.
        weight: (N, K) of the same type, as `torch.nn.Linear` has it.
        bias: (N,).
        activation: "relu", "gelu" (by the error function), "gelu_tanh", "silu", or "none".
        residual: added behind the activation; has the shape of the result.
        gated: the weight has the rows of a gate and as many others behind them: the result is
            ``act(x @ gate.T) * (x @ other.T)`` with N / 2 columns, as in SwiGLU.

    Returns:
        (..., N), contiguous, in the type of `x`; (..., N / 2) if gated. Sums, bias, activation and residual are
        computed in float32 and rounded once.

    Raises:
        ArgumentError: the shapes or the types do not fit.
        DeviceError: the tensors are not on one CUDA device.
    """
    x, weight = autocast(x, weight)
    bias, residual = autocast(bias, residual)
    return _affine(x, weight, bias, residual, activation, gated)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two matrices."""
    if not is_plain(a, b):
        check_factors(a, b)
        return _mm(a, b)
    if wants_gradient(a, b):
        return _of_mm.of(_mm_at_once, (a, b))  # type: ignore[no-any-return]
    return _mm_at_once(a, b)


def _mm_at_once(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same for plain tensors."""
    key = a.shape, a.stride(), b.shape, b.stride(), a.dtype, b.dtype, a.device, b.device
    known = _products.get(key)
    if known is None:
        check_factors(a, b)
        known = _products.keep(key, _known(a, b, None, None, "none", False))
    if known.product is not None and fits(a, b):
        return known.product(a, b)
    return _run_mm(a, b)


def _affine(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool,
) -> torch.Tensor:  # fmt: skip
    """As `linear`."""
    tensors = x, weight, bias, residual
    given = [it for it in tensors if it is not None]
    keeps = gated or activation != "none"
    if not is_plain(*given):
        check_linear(x, weight, bias, residual, activation, gated)
        if keeps and records(*given):
            return _linear_kept(*tensors, activation, gated)[0]
        return _linear(*tensors, activation, gated)
    if not wants_gradient(*given):
        return _linear_at_once(*tensors, activation, gated)
    if keeps:
        check_linear(x, weight, bias, residual, activation, gated)
        return _of_linear_kept.of(_run_linear_kept, tensors, activation, gated)[0]
    return _of_linear.of(_linear_at_once, tensors, activation, gated)  # type: ignore[no-any-return]


def _linear_at_once(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool,
) -> torch.Tensor:  # fmt: skip
    """The same for plain tensors, without a gradient."""
    key = (
        x.shape, x.stride(), weight.shape, weight.stride(), x.dtype, weight.dtype, x.device, weight.device,
        None if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.device),
        None if residual is None else (residual.shape, residual.stride(), residual.dtype, residual.device),
        activation, gated,
    )  # fmt: skip
    known = _calls.get(key)
    if known is None:
        check_linear(x, weight, bias, residual, activation, gated)
        rows = _rows(x)
        added = None if residual is None else _rows(residual)
        known = _calls.keep(key, _known(rows, weight.mT, bias, added, activation, gated, x.shape[:-1]))
    if known.product is not None and fits(x, weight, bias, residual):
        if known.outer is None:
            return known.product(x, weight, bias, residual)
        added = None if residual is None else _rows(residual)
        return known.product(_rows(x), weight, bias, added).view(known.outer)
    return _run_linear(x, weight, bias, residual, activation, gated)


def _of_gated(gradient: torch.Tensor, sums: torch.Tensor, activation: str) -> torch.Tensor:
    """The gradient of the sums of a gated product."""
    if is_plain(gradient, sums) and not wants_gradient(gradient, sums):
        return _run_gated_gradients(gradient, sums, activation)
    return _gated_gradients(gradient, sums, activation)


class _Known:
    """What calls on tensors of one shape and layout do. product: None if a tensor has to be copied, or PyTorch calls.

    outer: the shape of the result, if it is not a matrix.
    """

    __slots__ = ("outer", "product")

    def __init__(self, product: Product | None, outer: tuple[int, ...] | None) -> None:
        self.product, self.outer = product, outer


_products: KnownCalls[_Known] = KnownCalls()
_calls: KnownCalls[_Known] = KnownCalls()


def _known(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool, outer: tuple[int, ...] | None = None,
) -> _Known:  # fmt: skip
    columns = b.shape[1] // 2 if gated else b.shape[1]
    shape = None if outer is None or len(outer) == 1 else (*outer, columns)
    if why_not(a, b, columns, residual) or (bias is not None and bias.stride(0) != 1):
        return _Known(None, shape)
    return _Known(known_product(a, b, bias, residual, activation, gated), shape)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """As a matrix."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


# --- the operators ---


def _run_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = _for_wgmma(a, 1), _for_wgmma(b, 0)
    reason = why_not(a, b, b.shape[1])
    if reason:
        left_to_pytorch("tawa.ops.matmul", reason)
        return torch.mm(a, b)
    return known_product(a, b, None, None, "none", False)(a, b)


def _run_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool, sums: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    columns = weight.shape[0] // 2 if gated else weight.shape[0]
    rows, factor = _for_wgmma(_rows(x), 1), _for_wgmma(weight.mT, 0)
    added = None if residual is None else _rows(residual)
    if added is not None and (stored_along(added) != 1 or not fits(added)):
        added = added.clone(memory_format=torch.contiguous_format)
    reason = why_not(rows, factor, columns, added)
    if reason:
        left_to_pytorch("tawa.ops.linear", reason)
        return _in_pytorch(x, weight, bias, residual, activation, gated, sums)
    bias = None if bias is None else bias.contiguous()
    product = known_product(rows, factor, bias, added, activation, gated, sums is not None)
    return product(rows, factor, bias, added, sums).view(*x.shape[:-1], columns)


def _run_linear_kept(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    sums = unwritten(x, (math.prod(x.shape[:-1]), weight.shape[0]), x.dtype)
    return _run_linear(x, weight, bias, residual, activation, gated, sums), sums


def _for_wgmma(matrix: torch.Tensor, summed: int) -> torch.Tensor:
    """The matrix, or a copy of it that the kernels can read. summed: the axis of the summed dimension."""
    along = stored_along(matrix) if matrix.numel() else summed
    if along is None or (matrix.element_size() == 4 and along != summed):
        return matrix.contiguous() if summed == 1 else matrix.mT.contiguous().mT
    return matrix if fits(matrix) else matrix.clone()


def _in_pytorch(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool, sums: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    z = torch.nn.functional.linear(x, weight, bias)
    if sums is not None:
        sums.copy_(_rows(z))
    if gated:
        gate, other = z.chunk(2, dim=-1)
        z = _activated(gate, activation) * other
    else:
        z = _activated(z, activation)
    return z if residual is None else z + residual


def _activated(z: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "relu":
        return torch.relu(z)
    if activation == "silu":
        return torch.nn.functional.silu(z)
    if activation != "none":
        return torch.nn.functional.gelu(z, approximate="tanh" if activation == "gelu_tanh" else "none")
    return z


def _fake_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[1]))


def _fake_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: Any, residual: Any, activation: str, gated: bool
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0] // 2 if gated else weight.shape[0]))


def _fake_linear_kept(
    x: torch.Tensor, weight: torch.Tensor, bias: Any, residual: Any, activation: str, gated: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    return _fake_linear(x, weight, bias, residual, activation, gated), x.new_empty(
        (math.prod(x.shape[:-1]), weight.shape[0])
    )


def _run_gated_gradients(gradient: torch.Tensor, sums: torch.Tensor, activation: str) -> torch.Tensor:
    return gated_gradients(gradient.contiguous(), sums, activation)


_mm: Any = defined(_MM, _run_mm, _fake_mm)
_linear: Any = defined(_LINEAR, _run_linear, _fake_linear)
_linear_kept: Any = defined(_LINEAR_KEPT, _run_linear_kept, _fake_linear_kept)
_gated_gradients: Any = defined(
    _GATED_GRADIENTS, _run_gated_gradients, lambda gradient, sums, activation: torch.empty_like(sums)
)


# --- gradients ---


def _keep_factors(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _derive_mm(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    a, b = ctx.saved_tensors
    of_a, of_b = ctx.needs_input_grad[:2]
    return _product(gradient, b.mT) if of_a else None, _product(a.mT, gradient) if of_b else None


def _keep_linear(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, _, ctx.activation, ctx.gated = inputs
    ctx.save_for_backward(x, weight, bias, output[1] if isinstance(output, tuple) else None)
    ctx.set_materialize_grads(False)


def _derive_linear(
    ctx: Any, gradient: torch.Tensor | None, of_sums: torch.Tensor | None = None
) -> tuple[torch.Tensor | None, ...]:
    """of_sums: the gradient of the sums that were kept, which a second derivative has."""
    x, weight, bias, sums = ctx.saved_tensors
    of_x, of_weight, of_bias, of_residual = ctx.needs_input_grad[:4]
    rows = None if gradient is None else _rows(gradient)
    if rows is not None and (ctx.gated or ctx.activation != "none"):
        if sums is None:  # `tawa::linear` itself was called
            sums = _affine(_rows(x), weight, bias, None, "none", False)
        rows = _of_gated(rows, sums, ctx.activation) if ctx.gated else _derived(rows, sums, ctx.activation)
    summed = [it for it in (rows, of_sums) if it is not None]
    if not summed:
        return (None,) * 6
    rows = summed[0] if len(summed) == 1 else summed[0] + summed[1]
    return (
        _product(rows, weight).view(x.shape) if of_x else None,
        _product(rows.mT, _rows(x)) if of_weight else None,
        rows.sum(0) if of_bias else None,
        gradient if of_residual else None,
        None,
        None,
    )


def _keep_sums(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    gradient, sums, ctx.activation = inputs
    ctx.save_for_backward(gradient, sums)


def _derive_gated_gradients(ctx: Any, second: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    def gated(sums: torch.Tensor) -> torch.Tensor:
        gate, other = sums.chunk(2, dim=-1)
        return _activated(gate, ctx.activation) * other

    def gradients(gradient: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        return torch.func.vjp(gated, sums)[1](gradient)[0]

    return *torch.func.vjp(gradients, *ctx.saved_tensors)[1](second), None


def _derived(gradient: torch.Tensor, sums: torch.Tensor, activation: str) -> torch.Tensor:
    """The gradient of what goes into an activation."""
    aten = torch.ops.aten
    if activation == "relu":
        return aten.threshold_backward(gradient, sums, 0)
    if activation == "silu":
        return aten.silu_backward(gradient, sums)
    if activation != "none":
        return aten.gelu_backward(gradient, sums, approximate="tanh" if activation == "gelu_tanh" else "none")
    return gradient


_of_mm = derived("mm", _derive_mm, _keep_factors)
_of_linear = derived("linear", _derive_linear, _keep_linear)
_of_linear_kept = derived("linear_kept", _derive_linear, _keep_linear)
derived("gated_gradients", _derive_gated_gradients, _keep_sums)
