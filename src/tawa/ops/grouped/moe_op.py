"""`tawa.ops.moe`: a mixture of experts with SwiGLU as a PyTorch operator.

A call without gradients is one operator, ``tawa::moe``, whose kernels keep the rows of an expert together; plain calls
launch them without the dispatcher. With gradients the same is computed with `grouped_mm` and PyTorch's own operators.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, name_of, shape_of
from tawa.ops.calls.operators import defined
from tawa.ops.calls.plain import KnownCalls, autograd_is_on, is_plain
from tawa.ops.grouped.moe_launch import Mixture, run_moe, run_sort
from tawa.ops.grouped.op import MOST_GROUPS, grouped_mm

INTEGERS = (torch.int32, torch.int64)
_MOE = "moe(Tensor x, Tensor gate_up, Tensor down, Tensor weights, Tensor experts) -> Tensor"
_SORT = "moe_sort(Tensor experts, int count) -> (Tensor, Tensor, Tensor)"


def moe(
    x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
) -> torch.Tensor:
    """For each token the weighted sum of its experts' outputs, each ``(silu(x @ gate.T) * (x @ up.T)) @ down.T``.

    Args:
        x: (T, H) in float16 or bfloat16, a row for each token.
        gate_up: (E, 2 I, H) in the type of x: of each expert the rows of the gate, and behind them those of `up`.
        down: (E, H, I) in the type of x.
        weights: (T, C), the weight of each expert that a token chose, in float32 or the type of x.
        experts: (T, C) in int32 or int64, the numbers of these experts. A number below 0, or from E on, adds nothing.

    Returns:
        (T, H), contiguous, in the type of x. Sums are taken in float32, those over experts in the order of choices; the
        products before and behind the second matrix are rounded to the type of x. Equal calls give equal bits. A call
        that wants gradients also rounds the gate and what it multiplies.

    Raises:
        ArgumentError: there is no kernel for a tensor.
        DeviceError: the tensors are not on one CUDA device.
    """
    x, gate_up, down = autocast(x, gate_up, down)
    if weights.dtype != torch.float32:
        (weights,) = autocast(weights)
    given = x, gate_up, down, weights, experts
    plain = is_plain(*given)
    if torch.is_grad_enabled() and any(it.requires_grad for it in given) and (not plain or autograd_is_on()):
        check(*given)
        return _differentiable(*given)
    if not plain:
        check(*given)
        return _moe(*given)
    known = tuple((it.shape, it.stride(), it.dtype, it.device) for it in given)
    call = _calls.get(known)
    if call is None:
        check(*given)
        if 0 in x.shape or 0 in gate_up.shape or 0 in experts.shape:
            return run_moe(*given)
        call = _calls.keep(known, Mixture(x, gate_up, down, experts))
    return call(*given)


_calls: KnownCalls[Mixture] = KnownCalls()


def check(
    x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
) -> None:
    """Raises ArgumentError or DeviceError unless there is a kernel for these arguments."""
    if x.dim() != 2 or gate_up.dim() != 3 or down.dim() != 3:
        raise ArgumentError(
            f"x has shape {shape_of(x)}, gate_up {shape_of(gate_up)}, down {shape_of(down)}; cure: (T, H), (E, 2 I, H) "
            "and (E, H, I)"
        )
    H, (E, wide, _) = x.shape[1], gate_up.shape
    if gate_up.shape[2] != H or wide % 2 or down.shape != (E, H, wide // 2):
        raise ArgumentError(
            f"x has shape {shape_of(x)}, gate_up {shape_of(gate_up)}, down {shape_of(down)}: they do not fit; cure: "
            "(T, H), (E, 2 I, H) and (E, H, I)"
        )
    if experts.dim() != 2 or experts.shape[0] != x.shape[0] or weights.shape != experts.shape:
        raise ArgumentError(
            f"x has {x.shape[0]} rows, weights have shape {shape_of(weights)}, experts {shape_of(experts)}; cure: "
            "(T, C) of both"
        )
    if experts.dtype not in INTEGERS:
        raise ArgumentError(f"experts are {name_of(experts.dtype)}; cure: experts.int()")
    if weights.dtype not in (torch.float32, x.dtype):
        raise ArgumentError(f"weights are {name_of(weights.dtype)}; cure: weights.float()")
    if E > MOST_GROUPS:
        raise ArgumentError(f"{E} experts: there are kernels for {MOST_GROUPS}; cure: several calls")
    check_types({"x": x, "gate_up": gate_up, "down": down}, HALF)
    check_devices({"x": x, "gate_up": gate_up, "down": down, "weights": weights, "experts": experts})


def _differentiable(
    x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
) -> torch.Tensor:
    """As `moe`, of operators that have derivatives. Rows are moved by permutations, whose gradients are exact."""
    (T, H), choices = x.shape, experts.shape[1]
    order, rank, ends = _moe_sort(experts, gate_up.shape[0])
    rows = x.unsqueeze(1).expand(T, choices, H).reshape(T * choices, H).index_select(0, order)
    gate, up = grouped_mm(rows, gate_up.mT, ends).chunk(2, -1)
    between = (torch.nn.functional.silu(gate.float()) * up.float()).to(x.dtype)
    y = grouped_mm(between, down.mT, ends).index_select(0, rank).view(T, choices, H)
    return (y.float() * weights.float().unsqueeze(-1)).sum(1).to(x.dtype)


def _fake(
    x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
) -> torch.Tensor:
    return x.new_empty(x.shape)


def _fake_sort(experts: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    total = experts.shape[0] * experts.shape[1]

    def made(size: int) -> torch.Tensor:
        return experts.new_empty((size,), dtype=torch.int32)

    return made(total), made(total), made(count)


_moe: Any = defined(_MOE, run_moe, _fake)
_moe_sort: Any = defined(_SORT, run_sort, _fake_sort)
