"""`tawa.ops.grouped_mm`: products of groups of rows, each with a matrix of its own, as a PyTorch operator.

As `attention_op`: plain calls without gradients launch their kernels without the dispatcher; all others go through
``tawa::grouped_mm``, which has a derivative.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, name_of, shape_of
from tawa.ops.calls.operators import defined, derived
from tawa.ops.calls.plain import KnownCalls, is_plain, wants_gradient
from tawa.ops.grouped.launch import Call, run_grouped, shape_of_product

MOST_GROUPS = 1023
"""A program holds the bounds of all groups."""


def grouped_mm(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Products of groups, as `torch.nn.functional.grouped_mm`: rows, columns or summed elements come in G groups.

    ============  ============  ============  ======================================================
    a             b             result        group g
    ============  ============  ============  ======================================================
    (T, K)        (G, K, N)     (T, N)        rows ``offs[g - 1]`` to ``offs[g]`` of a and the result
    (G, M, K)     (K, T)        (M, T)        these columns of b and the result
    (M, T)        (T, N)        (G, M, N)     these columns of a, and rows of b, are summed over
    ============  ============  ============  ======================================================

    Args:
        a: in float16 or bfloat16. Either of the last two axes of matrices of groups may be innermost in memory, as in
            ``weights.mT``. Tensors that TMA cannot read are copied: those whose rows do not begin at multiples of 16
            bytes, and operands of two dimensions in which T is innermost.
        b: in the type of a.
        offs: (G,) in int32, the end of each group, ascending. Groups may be empty. It is read on the GPU only.

    Returns:
        The product in the type of a; contiguous; with a (G, M, K) its transpose is. It is 0 in rows and columns
        behind the last group, and for groups of no summed elements. Sums are taken in float32.

    Raises:
        ArgumentError: there is no kernel for a tensor.
        DeviceError: the tensors are not on one CUDA device.
    """
    a, b = autocast(a, b)
    return _products(a, b, offs)


def _products(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    if not is_plain(a, b, offs):
        check(a, b, offs)
        return _grouped_mm(a, b, offs)
    if wants_gradient(a, b):
        return _derivative.of(_at_once, (a, b), offs)  # type: ignore[no-any-return]
    return _at_once(a, b, offs)


def _at_once(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """The product of plain tensors."""
    known = (
        a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.device, b.device, offs.shape, offs.stride(),
        offs.dtype, offs.device,
    )  # fmt: skip
    call = _calls.get(known)
    if call is None:
        check(a, b, offs)
        if 0 in a.shape or 0 in b.shape or 0 in offs.shape:
            return run_grouped(a, b, offs)
        call = _calls.keep(known, Call(a, b, offs.numel()))
    return call(a, b, offs)


_calls: KnownCalls[Call] = KnownCalls()


def check(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> None:
    """Raises ArgumentError or DeviceError unless there is a kernel for these arguments."""
    dims = a.dim(), b.dim()
    if dims not in ((2, 3), (3, 2), (2, 2)):
        raise ArgumentError(
            f"a has shape {shape_of(a)}, b {shape_of(b)}; cure: one of them, or both, of two dimensions, the other of "
            "three" + (", or batched_mm" if dims == (3, 3) else "")
        )
    if a.shape[-1] != b.shape[-2]:
        raise ArgumentError(f"a has shape {shape_of(a)}, b {shape_of(b)}: they do not share K; cure: transpose one")
    if offs.dim() != 1 or offs.dtype != torch.int32 or (offs.numel() > 1 and offs.stride(0) != 1):
        raise ArgumentError(
            f"offs has shape {shape_of(offs)} and type {name_of(offs.dtype)}; cure: a contiguous vector in int32"
        )
    groups = b.shape[0] if dims == (2, 3) else a.shape[0] if dims == (3, 2) else offs.shape[0]
    if offs.shape[0] != groups:
        raise ArgumentError(f"offs has {offs.shape[0]} groups, the matrices {groups}; cure: as many")
    if groups > MOST_GROUPS:
        raise ArgumentError(f"{groups} groups: there are kernels for {MOST_GROUPS}; cure: several calls")
    check_types({"a": a, "b": b}, HALF)
    check_devices({"a": a, "b": b, "offs": offs})


def _fake(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    shape = shape_of_product(a, b, offs.shape[0])
    return a.new_empty(shape[::-1]).mT if a.dim() == 3 else a.new_empty(shape)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _derive(ctx: Any, dc: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    a, b, offs = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    da = _like(a, dc, b.mT, offs) if wanted[0] else None
    db = _like(b, a.mT, dc, offs) if wanted[1] else None
    return da, db, None


def _like(operand: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """The product, laid out in memory as an operand whose gradient it is."""
    if operand.stride(-2) == 1 and operand.stride(-1) != 1:
        return _products(b.mT, a.mT, offs).mT
    return _products(a, b, offs)


_grouped_mm: Any = defined("grouped_mm(Tensor a, Tensor b, Tensor offs) -> Tensor", run_grouped, _fake)
_derivative = derived("grouped_mm", _derive, _keep)
