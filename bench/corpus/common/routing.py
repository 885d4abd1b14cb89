"""What the router of a mixture of experts hands to a fused kernel, in PyTorch."""

from __future__ import annotations

from typing import Any


def choose(tokens: int, experts: int, top: int, device: str) -> tuple[Any, Any]:
    """Random experts of each token, all different, as int32 (tokens, top), and their weights, which add up to 1."""
    import torch

    scores = torch.randn(tokens, experts, device=device)
    chosen = scores.topk(top, dim=-1)
    return chosen.indices.to(torch.int32), torch.softmax(chosen.values, dim=-1)


def aligned(chosen: Any, experts: int, block: int) -> tuple[Any, Any, Any]:
    """The rows of each expert, padded to whole blocks.

    Returns the rows in order of their experts, where a row is token · top + place and padding is the number of all
    rows; the expert of each block; and the number of rows with padding.
    """
    import torch

    flat = chosen.flatten().long()
    rows: list[Any] = []
    of_block: list[int] = []
    for expert in range(experts):
        mine = torch.where(flat == expert)[0]
        padding = -mine.numel() % block
        rows += [mine, torch.full((padding,), flat.numel(), dtype=mine.dtype, device=mine.device)]
        of_block += [expert] * ((mine.numel() + padding) // block)
    ordered = torch.cat(rows).to(torch.int32)
    blocks = torch.tensor(of_block, dtype=torch.int32, device=flat.device)
    return ordered, blocks, torch.tensor([ordered.numel()], dtype=torch.int32, device=flat.device)


def product_of_experts(x: Any, weights: Any, chosen: Any, factors: Any = None) -> Any:
    """x (tokens, K) times the weights (N, K) of each chosen expert: (tokens, top, N) in float32.

    x may also be (tokens · top, K), with a row for each choice. factors: (tokens, top), multiplied with the results.
    """
    import torch

    tokens, top = chosen.shape
    if x.shape[0] == tokens:
        x = x.repeat_interleave(top, 0)
    flat = chosen.flatten().long()
    y = torch.zeros(tokens * top, weights.shape[1], device=x.device)
    for expert in range(weights.shape[0]):
        mine = torch.where(flat == expert)[0]
        y[mine] = x[mine].float() @ weights[expert].float().T
    y = y.view(tokens, top, -1)
    return y if factors is None else y * factors[..., None].float()
