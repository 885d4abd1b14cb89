"""How far two results are apart."""

from __future__ import annotations

from typing import Any


def peak(wanted: Any, stock: Any, got: Any) -> float:
    """The largest error of any element, over that of stock Triton's kernel or over that of rounding alone."""
    wanted, stock, got = (it.detach().double() for it in (wanted, stock, got))
    same = (got == stock) | (got.isnan() & stock.isnan())
    errors = (got - wanted).abs().masked_fill(same, 0.0).nan_to_num(nan=float("inf"), posinf=float("inf"))
    least = max(float((stock - wanted).abs().nan_to_num(posinf=0.0).max()), 1e-3 * float(wanted.square().mean().sqrt()))
    return float(errors.max()) / (least + 1e-30)


def same_bits(first: Any, second: Any) -> bool:
    """Whether two tensors are equal bit by bit."""
    import torch

    return first.shape == second.shape and torch.equal(
        first.contiguous().flatten().view(torch.uint8), second.contiguous().flatten().view(torch.uint8)
    )
