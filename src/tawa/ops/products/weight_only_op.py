"""`tawa.ops.weight_only_mm`: products with weights in few bits as a PyTorch operator.

As `attention_op`: plain calls launch their kernel without the dispatcher; all others go through
``tawa::weight_only_mm``.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, name_of, shape_of
from tawa.ops.calls.operators import defined
from tawa.ops.calls.plain import KnownCalls, autograd_is_on, is_plain
from tawa.ops.calls.tables import blocks
from tawa.ops.products.weight_only_launch import WeightOnly, foreign_block, run_weight_only
from tawa.ops.products.weight_only_packing import BITS, FOREIGN, packed_shape

_SCHEMA = (
    "weight_only_mm(Tensor x, Tensor qweight, Tensor scales, Tensor? zeros, Tensor? bias, SymInt group_size, "
    "str format) -> Tensor"
)
NUMBERS = (*HALF, torch.float32)
LEAST_FOREIGN_GROUP = 16


def weight_only_mm(
    x: torch.Tensor,
    qweight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    group_size: int | None = None,
    format: str = "int4",
) -> torch.Tensor:
    """x @ W^T + bias, with ``W = (weights - zeros) * scales`` rounded to the type of x.

    Args:
        x: (..., K) in float16 or bfloat16.
        qweight: int32. "int4", "int8", "fp8_e4m3", "fp8_e5m2": from `pack_weights` or `repack`, which is read fastest.
            "gptq", "gptq_v2": (K / 8, N), eight rows of 4 bits to a word. "awq": (K, N / 8), eight columns to a word.
        scales: (groups, N) in float16, bfloat16 or float32; groups are ``ceil(K / group_size)``.
        zeros: for "int4" and "int8" (groups, N), whole numbers in a type of `scales`; for the others but fp8
            (groups, N / 8) int32, as packed there. None: 8 for 4 bits, 128 for "int8" as uint8, which is 0 as int8.
        bias: (N,) in a type of `scales`, added in float32.
        group_size: consecutive elements of K that share a scale, an even number; for packings from elsewhere a multiple
            of 16. None, -1: all.
        format: how the weights are packed.

    Returns:
        (..., N) in the type of x, contiguous.

    Raises:
        ArgumentError: there is no kernel for a tensor or an option, or a gradient is wanted.
        DeviceError: the tensors are not on one CUDA device.
    """
    (x,) = autocast(x)
    given = [it for it in (x, qweight, scales, zeros, bias) if it is not None]
    plain = is_plain(*given)
    if torch.is_grad_enabled() and any(it.requires_grad for it in given) and (not plain or autograd_is_on()):
        raise ArgumentError("weight_only_mm has no backward kernels; cure: torch.no_grad(), or x without gradient")
    size = 0 if group_size is None or group_size == -1 else group_size
    if not plain:
        check(x, qweight, scales, zeros, bias, size, format)
        return _weight_only_mm(x, qweight, scales, zeros, bias, size, format)
    known = (
        x.shape, x.stride(), x.dtype, x.device, qweight.shape, qweight.stride(), qweight.dtype, qweight.device,
        scales.shape, scales.stride(), scales.dtype, scales.device,
        None if zeros is None else (zeros.shape, zeros.stride(), zeros.dtype, zeros.device),
        None if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.device), size, type(size), format,
    )  # fmt: skip
    call = _calls.get(known)
    if call is None:
        check(x, qweight, scales, zeros, bias, size, format)
        usual = x.dim() == 2 and scales.is_contiguous() and (zeros is None or zeros.is_contiguous())
        if not usual or 0 in (*x.shape, scales.shape[1]):
            return run_weight_only(x, qweight, scales, zeros, bias, size, format)
        call = _calls.keep(known, WeightOnly(x, qweight, scales, zeros, bias, size, format))
    return call(x, qweight, scales, zeros, bias)


_calls: KnownCalls[WeightOnly] = KnownCalls()


def check(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None,
    bias: torch.Tensor | None, group_size: int, format: str,
) -> None:  # fmt: skip
    """Raises ArgumentError or DeviceError unless there is a kernel for these arguments. group_size: 0 for all of K."""
    if format not in BITS and format not in FOREIGN:
        raise ArgumentError(f"format={format!r}; cure: one of {', '.join((*BITS, *FOREIGN))}")
    if x.dim() < 1 or x.dtype not in HALF:
        types = " or ".join(name_of(dtype) for dtype in HALF)
        raise ArgumentError(f"x has shape {shape_of(x)}, type {name_of(x.dtype)}; cure: (..., K) in {types}")
    if qweight.dtype != torch.int32 or qweight.dim() != 2:
        raise ArgumentError(
            f"qweight has shape {shape_of(qweight)}, type {name_of(qweight.dtype)}; cure: two dimensions of int32, as "
            "from tawa.ops.pack_weights"
        )
    if scales.dim() != 2 or scales.dtype not in NUMBERS:
        raise ArgumentError(
            f"scales have shape {shape_of(scales)}, type {name_of(scales.dtype)}; cure: (groups, N) in "
            f"{', '.join(name_of(dtype) for dtype in NUMBERS)}"
        )
    K, N = x.shape[-1], scales.shape[1]
    _check_size(group_size, format)
    groups = blocks(K, group_size) if group_size else 1
    if scales.shape[0] != groups and K:
        raise ArgumentError(
            f"scales have {scales.shape[0]} groups, K={K} with group_size={group_size or K} has {groups}"
        )
    _check_weights(qweight, N, K, format)
    _check_zeros(zeros, scales, format)
    if bias is not None and (tuple(bias.shape) != (N,) or bias.dtype not in NUMBERS or bias.stride(0) not in (1, N)):
        raise ArgumentError(
            f"bias has shape {shape_of(bias)}, type {name_of(bias.dtype)}; cure: ({N},), contiguous, in "
            f"{', '.join(name_of(dtype) for dtype in NUMBERS)}"
        )
    named = {"x": x, "qweight": qweight, "scales": scales, "zeros": zeros, "bias": bias}
    check_devices({name: it for name, it in named.items() if it is not None})


def _check_size(group_size: int, format: str) -> None:
    if isinstance(group_size, bool) or group_size < 0 or group_size % 2:
        raise ArgumentError(f"group_size={group_size}; cure: an even number, or None for all of K")
    if format in FOREIGN and group_size and foreign_block(group_size) < LEAST_FOREIGN_GROUP:
        raise ArgumentError(f"group_size={group_size} for format {format!r}; cure: a multiple of 16")


def _check_weights(qweight: torch.Tensor, N: int, K: int, format: str) -> None:
    if format in BITS:
        wanted = packed_shape(N, K, format)
    elif N % 8 or K % 8:
        raise ArgumentError(f"weights ({N}, {K}) for format {format!r}; cure: multiples of 8")
    else:
        wanted = (K, N // 8) if format == "awq" else (K // 8, N)
    if tuple(qweight.shape) != wanted:
        raise ArgumentError(
            f"qweight has shape {shape_of(qweight)}, weights ({N}, {K}) of format {format!r} have {wanted}; cure: "
            "tawa.ops.pack_weights, or another format"
        )


def _check_zeros(zeros: torch.Tensor | None, scales: torch.Tensor, format: str) -> None:
    if zeros is None:
        return
    if format.startswith("fp8"):
        raise ArgumentError(f"zeros for format {format!r}: floating point has its own zero; cure: zeros=None")
    groups, N = scales.shape
    wanted, types = ((groups, N // 8), (torch.int32,)) if format in FOREIGN else ((groups, N), NUMBERS)
    if tuple(zeros.shape) != wanted or zeros.dtype not in types:
        raise ArgumentError(
            f"zeros have shape {shape_of(zeros)}, type {name_of(zeros.dtype)}; cure: {wanted} in "
            f"{', '.join(name_of(dtype) for dtype in types)}"
        )


def _fake(x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, *rest: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], scales.shape[1]))


_weight_only_mm: Any = defined(_SCHEMA, run_weight_only, _fake)
