"""`tawa.ops.scaled_mm`: products in 8-bit floating point with scales, as a PyTorch operator.

As `attention_op`: plain calls launch their kernel without the dispatcher; all others go through ``tawa::scaled_mm``.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.checks import FP8, ArgumentError, check_devices, name_of, shape_of
from tawa.ops.calls.operators import defined
from tawa.ops.calls.plain import KnownCalls, autograd_is_on, is_plain
from tawa.ops.calls.tables import blocks
from tawa.ops.products.scaled_launch import SPAN, Scaled, kind_of, run_scaled, scaled_product

_SCHEMA = (
    "scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias, ScalarType out_dtype, "
    "bool use_fast_accum) -> Tensor"
)
OUTPUTS = (torch.bfloat16, torch.float16, torch.float32)


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    *,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """(A * scale_a) @ (B * scale_b) + bias of 8-bit operands, as `torch.nn.functional.scaled_mm`.

    Args:
        a: (M, K) in float8_e4m3fn or float8_e5m2.
        b: (K, N) in one of these types, not necessarily that of a. It is read in place if K is innermost in memory,
            as in ``weights.t()`` of weights (N, K), and rows begin at multiples of 16 bytes; else it is copied. The
            same holds for a.
        scale_a: float32, with any strides: one number; (M, 1), one for each row; (M, ceil(K / 128)), for each 128
            elements of a row; or (ceil(M / 128), ceil(K / 128)), for each 128 x 128.
        scale_b: as for a, transposed: one number; (1, N); (ceil(K / 128), N); or (ceil(K / 128), ceil(N / 128)).
        bias: (N,) in float16, bfloat16 or float32, added in float32.
        out_dtype: bfloat16 (also if None), float16 or float32.
        use_fast_accum: whether the tensor cores add up all of K, with fewer bits than float32. If not, and with scales
            for each 128 elements of K, they add 128 products at a time, and these sums are added in float32.

    Returns:
        C (M, N), contiguous.

    Raises:
        ArgumentError: there is no kernel for a tensor or an option, or a gradient is wanted.
        DeviceError: the tensors are not on one CUDA device.
    """
    plain = is_plain(a, b, scale_a, scale_b) and (bias is None or is_plain(bias))
    wanted = torch.is_grad_enabled() and (
        scale_a.requires_grad or scale_b.requires_grad or a.requires_grad or b.requires_grad
        or (bias is not None and bias.requires_grad)
    )  # fmt: skip
    if wanted and (not plain or autograd_is_on()):
        raise ArgumentError("scaled_mm has no backward kernels; cure: torch.no_grad(), or tensors without gradients")
    if not plain:
        check(a, b, scale_a, scale_b, bias, out_dtype)
        return _scaled_mm(a, b, scale_a, scale_b, bias, out_dtype or torch.bfloat16, bool(use_fast_accum))
    known = (
        a.shape, b.shape, scale_a.shape, scale_b.shape, a.stride(), b.stride(), scale_a.stride(), scale_b.stride(),
        a.dtype, b.dtype, scale_a.dtype, scale_b.dtype, a.device, b.device, scale_a.device, scale_b.device,
        None if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.device), out_dtype, bool(use_fast_accum),
    )  # fmt: skip
    call = _calls.get(known)
    if call is None:
        check(a, b, scale_a, scale_b, bias, out_dtype)
        output = out_dtype or torch.bfloat16
        if 0 in a.shape or 0 in b.shape:
            return run_scaled(a, b, scale_a, scale_b, bias, output, bool(use_fast_accum))
        call = _calls.keep(known, scaled_product(a, b, scale_a, scale_b, bias, output, bool(use_fast_accum)))
    return call(a, b, scale_a, scale_b, bias)


_calls: KnownCalls[Scaled] = KnownCalls()


def check(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> None:  # fmt: skip
    """Raises ArgumentError or DeviceError unless there is a kernel for these arguments."""
    for name, operand in (("a", a), ("b", b)):
        if operand.dim() != 2:
            raise ArgumentError(f"{name} has shape {shape_of(operand)}; cure: a matrix, of two dimensions")
        if operand.dtype not in FP8:
            types = " and ".join(name_of(dtype) for dtype in FP8)
            raise ArgumentError(
                f"{name} has type {name_of(operand.dtype)}: there are kernels for {types}; cure: quantise it"
            )
    if a.shape[1] != b.shape[0]:
        raise ArgumentError(
            f"a has shape {shape_of(a)}, b {shape_of(b)}: they do not share K; cure: b = weights.t() of weights (N, K)"
        )
    (M, K), N = a.shape, b.shape[1]
    _check_scale("scale_a", scale_a, M, K, ("M", "K"), False)
    _check_scale("scale_b", scale_b, N, K, ("N", "K"), True)
    if bias is not None and (tuple(bias.shape) != (N,) or bias.dtype not in OUTPUTS or bias.stride(0) not in (1, N)):
        raise ArgumentError(
            f"bias has shape {shape_of(bias)}, type {name_of(bias.dtype)}; cure: ({N},), contiguous, in "
            f"{', '.join(name_of(dtype) for dtype in OUTPUTS)}"
        )
    if out_dtype is not None and out_dtype not in OUTPUTS:
        raise ArgumentError(f"out_dtype={out_dtype}; cure: {', '.join(name_of(dtype) for dtype in OUTPUTS)}")
    given = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}
    check_devices(given if bias is None else {**given, "bias": bias})


def _check_scale(name: str, scale: torch.Tensor, rows: int, K: int, letters: tuple[str, str], transposed: bool) -> None:
    if scale.dtype != torch.float32:
        raise ArgumentError(f"{name} has type {name_of(scale.dtype)}; cure: {name}.float()")
    shape = tuple(scale.shape)
    if kind_of(shape[::-1] if transposed else shape, rows, K) is None:
        steps = blocks(K, SPAN)
        shapes = [(rows, 1), (rows, steps), (blocks(rows, SPAN), steps)]
        listed = ", ".join(str(it[::-1] if transposed else it) for it in shapes)
        raise ArgumentError(
            f"{name} has shape {shape} for {letters[0]}={rows}, {letters[1]}={K}; cure: one number, or shape {listed}"
        )


def _fake(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None,
    out_dtype: torch.dtype, use_fast_accum: bool,
) -> torch.Tensor:  # fmt: skip
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)


_scaled_mm: Any = defined(_SCHEMA, run_scaled, _fake)
