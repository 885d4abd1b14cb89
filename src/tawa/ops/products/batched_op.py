"""`tawa.ops.batched_mm`: products of batches of matrices as a PyTorch operator.

As `attention_op`: plain calls without gradients launch their kernel without the dispatcher; all others go through
``tawa::batched_mm``, which has a derivative.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, shape_of
from tawa.ops.calls.operators import defined, derived
from tawa.ops.calls.plain import KnownCalls, is_plain, wants_gradient
from tawa.ops.products.batched_launch import BatchedMM, run_batched

TYPES = (*HALF, torch.float32)


def batched_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A @ B for each matrix of a batch, as `torch.bmm`; an operand with a batch of 1 is used for all.

    Args:
        a: (B, M, K) in float16, bfloat16 or float32, which is multiplied in tf32: with 10 bits of mantissa.
        b: (B, K, N) in the type of a.

    Either of the last two axes of a and b may be innermost in memory, as in ``x.mT``. Tensors that TMA cannot read are
    copied: those whose rows do not begin at multiples of 16 bytes, and of float32 those in which K is not innermost.

    Returns:
        C (B, M, N), contiguous, in the type of a.

    Raises:
        ArgumentError: there is no kernel for a tensor.
        DeviceError: the tensors are not on one CUDA device.
    """
    a, b = autocast(a, b)
    return _products(a, b)


def _products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if not is_plain(a, b):
        check(a, b)
        return _batched_mm(*_expanded(a, b))
    if wants_gradient(a, b):
        check(a, b)
        return _derivative.of(_at_once, _expanded(a, b))  # type: ignore[no-any-return]
    return _at_once(a, b)


def _at_once(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of plain tensors."""
    known = a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.device, b.device
    call = _calls.get(known)
    if call is None:
        check(a, b)
        first, second = _expanded(a, b)
        if 0 in a.shape or 0 in b.shape:
            return run_batched(first, second)
        call = _calls.keep(known, BatchedMM(first, second))
    return call(a, b)


_calls: KnownCalls[BatchedMM] = KnownCalls()


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raises ArgumentError or DeviceError unless there is a kernel for these arguments."""
    for name, operand in (("a", a), ("b", b)):
        if operand.dim() != 3:
            raise ArgumentError(f"{name} has shape {shape_of(operand)}; cure: a batch of matrices, of three dimensions")
    if a.shape[2] != b.shape[1]:
        raise ArgumentError(f"a has shape {shape_of(a)}, b {shape_of(b)}: they do not share K; cure: transpose one")
    if a.shape[0] != b.shape[0] and a.shape[0] != 1 and b.shape[0] != 1:
        raise ArgumentError(f"a has {a.shape[0]} batches, b {b.shape[0]}; cure: as many, or 1")
    check_types({"a": a, "b": b}, TYPES)
    check_devices({"a": a, "b": b})


def _expanded(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both with the same batch; a matrix of all batches is not copied."""
    if a.shape[0] == b.shape[0]:
        return a, b
    return (a.expand(b.shape[0], -1, -1), b) if a.shape[0] == 1 else (a, b.expand(a.shape[0], -1, -1))


def _fake(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], a.shape[1], b.shape[2]))


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _derive(ctx: Any, dc: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    a, b = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    return _products(dc, b.mT) if wanted[0] else None, _products(a.mT, dc) if wanted[1] else None


_batched_mm: Any = defined("batched_mm(Tensor a, Tensor b) -> Tensor", run_batched, _fake)
_derivative = derived("batched_mm", _derive, _keep)
