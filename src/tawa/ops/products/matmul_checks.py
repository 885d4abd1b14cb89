"""The arguments of `tawa.ops.matmul` and `tawa.ops.linear`: errors, and what is left to PyTorch."""

from __future__ import annotations

import torch

from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, name_of, shape_of
from tawa.ops.calls.tensors import TMA_BYTES

TYPES = (*HALF, torch.float32)
ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")
LARGEST = 2**31 - 2**16
"""Of M, N and K: sums of an index and of a tile stay within 32 bits."""


def check_factors(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raises ArgumentError or DeviceError unless A (..., K) and B (K, N) can be multiplied."""
    named = {"a": a, "b": b}
    if a.ndim < 1 or b.ndim < 1:
        raise ArgumentError("a product of scalars; cure: tensors with at least one dimension")
    check_devices(named)
    check_types(named, TYPES)
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ArgumentError(f"a has shape {shape_of(a)}, b {shape_of(b)}: {a.shape[-1]} columns meet {inner} rows")


def check_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool,
) -> None:  # fmt: skip
    """Raises ArgumentError or DeviceError unless the arguments of `linear` belong together."""
    if weight.ndim != 2 or x.ndim < 1:
        raise ArgumentError(
            f"x has shape {shape_of(x)}, weight {shape_of(weight)}; cure: x (..., K) and weight (N, K), as nn.Linear"
        )
    named = {"x": x, "weight": weight}
    named.update((name, it) for name, it in (("bias", bias), ("residual", residual)) if it is not None)
    check_devices(named)
    check_types(named, TYPES)
    if x.shape[-1] != weight.shape[1]:
        raise ArgumentError(f"x has {x.shape[-1]} features, weight takes {weight.shape[1]}")
    if activation not in ACTIVATIONS:
        raise ArgumentError(f"activation={activation!r}; cure: one of {', '.join(ACTIVATIONS)}")
    rows = weight.shape[0]
    if gated and rows % 2:
        raise ArgumentError(f"gated: weight has {rows} rows; cure: the rows of the gate, and as many behind them")
    if bias is not None and shape_of(bias) != (rows,):
        raise ArgumentError(f"bias has shape {shape_of(bias)}; cure: ({rows},)")
    wanted = (*x.shape[:-1], rows // 2 if gated else rows)
    if residual is not None and shape_of(residual) != wanted:
        raise ArgumentError(f"residual has shape {shape_of(residual)}; cure: that of the result, {wanted}")


def why_not(a: torch.Tensor, b: torch.Tensor, columns: int, residual: torch.Tensor | None = None) -> str:
    """Why the kernels cannot compute A (M, K) @ B (K, N); empty if they can. columns: those of the result."""
    if 0 in (*a.shape, b.shape[1], columns):
        return "a size is 0"
    if max(*a.shape, *b.shape) > LARGEST:
        return f"a size is more than {LARGEST}"
    size = a.element_size()
    if columns * size % TMA_BYTES:
        return f"rows of {columns} elements of {name_of(a.dtype)} are no multiple of {TMA_BYTES} bytes"
    for name, tensor, k in (("the left factor", a, 1), ("the right factor", b, 0)):
        if stored_along(tensor) is None:
            return f"{name} has strides {tensor.stride()} that TMA cannot read"
        if size == 4 and stored_along(tensor) != k:
            return f"{name} in float32 is not stored along the summed dimension, as wgmma takes it"
    if residual is not None and stored_along(residual) != 1:
        return f"the residual has strides {residual.stride()} that TMA cannot read"
    return ""


def stored_along(tensor: torch.Tensor) -> int | None:
    """The axis of a matrix along which elements are neighbours in memory; None if TMA cannot read the matrix.

    The address, which must be a multiple of 16 too, is not looked at. Either axis may do; then it is the last.
    """
    unit = TMA_BYTES // tensor.element_size()
    for axis in (1, 0):
        step, other = tensor.stride(axis), tensor.stride(1 - axis)
        if (step == 1 or tensor.shape[axis] == 1) and (
            tensor.shape[1 - axis] == 1 or (other > 0 and other % unit == 0)
        ):
            return axis
    return None
