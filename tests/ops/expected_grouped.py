"""What grouped products and mixtures of experts should give, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch


def ends_of(sizes: Sequence[int], device: str) -> Any:
    """The ends of groups of these sizes."""
    return torch.tensor(sizes, dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)


def of_groups(a: Any, b: Any, ends: Any) -> Any:
    """The grouped product in float64; 0 behind the last group."""
    bounds = [0, *ends.tolist()]
    parts = [slice(*it) for it in itertools.pairwise(bounds)]
    a, b = a.double(), b.double()
    if a.dim() == b.dim():
        return torch.stack([a[:, part] @ b[part] for part in parts])
    if a.dim() == 3:
        return of_groups(b.mT, a.mT, ends).mT
    c = a.new_zeros(a.shape[0], b.shape[2])
    for part, matrix in zip(parts, b, strict=True):
        c[part] = a[part] @ matrix
    return c


def of_moe(x: Any, gate_up: Any, down: Any, weights: Any, experts: Any) -> Any:
    """The mixture in float64."""
    x, gate_up, down, weights = (it.double() for it in (x, gate_up, down, weights))
    out = torch.zeros_like(x)
    for expert in range(gate_up.shape[0]):
        token, which = (experts == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ gate_up[expert].mT).chunk(2, -1)
        made = (torch.nn.functional.silu(gate) * up) @ down[expert].mT
        out.index_add_(0, token, made * weights[token, which].unsqueeze(-1))
    return out


def random_choices(
    tokens: int, choices: int, E: int, device: str, *, outside: bool = False, skew: float = 0.0
) -> tuple[Any, Any]:
    """Weights and experts (tokens, choices), of a token different ones. outside: some experts are not there.

    skew: how much more often the first experts are chosen.
    """
    numbers = torch.Generator(device="cpu").manual_seed(tokens + E)
    likes = torch.randn(tokens, E, generator=numbers) + skew * torch.linspace(1, -1, E)
    weights, experts = likes.softmax(-1).topk(min(choices, E))
    if outside:
        experts[torch.rand(experts.shape, generator=numbers) < 0.3] = -1
        experts[0, 0] = E + 3
    return weights.to(device), experts.int().to(device)


def check(found: Any, exact: Any, share: float = 2e-3) -> None:
    """Raises AssertionError unless every number is within a share of the largest."""
    assert found.shape == exact.shape
    assert torch.isfinite(found).all(), "not all written"
    error, largest = (found.double() - exact).abs().max().item(), exact.abs().max().item()
    assert error <= share * largest + 1e-12, f"error {error:.3g}, largest {largest:.3g}"
