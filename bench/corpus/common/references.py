"""References in PyTorch that several packages share, in float32 or float64."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def attention(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Any:
    """Softmax attention in float32.

    q: (B, H, Sq, D). k, v: (B, heads of keys, Sk, D), repeated if there are fewer heads. causal: the last query sees
    all keys. A query that sees nothing gives 0.
    """
    import torch

    heads = q.shape[1] // k.shape[1]
    k, v = (it.float().repeat_interleave(heads, 1) for it in (k, v))
    scores = (q.float() @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = scores.shape[-2:]
        seen = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril(columns - rows)
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, dim=-1).nan_to_num(0.0) @ v


def packed_attention(q: Any, k: Any, v: Any, starts: Any, causal: bool = False, scale: float | None = None) -> Any:
    """Attention of sequences that lie one after the other: q (tokens, H, D), k and v with their own number of heads.

    starts: the first token of each sequence, and the number of tokens.
    """
    import torch

    parts: list[Any] = []
    ends = starts.tolist()
    for first, last in pairwise(ends):
        of_one = [it[first:last].transpose(0, 1)[None] for it in (q, k, v)]
        parts.append(attention(*of_one, causal=causal, scale=scale)[0].transpose(0, 1))
    return torch.cat(parts)


def product(a: Any, b: Any) -> Any:
    """A · B in float64."""
    return a.double() @ b.double()


def block_scaled(codes: Any, scales: Any, rows: int, columns: int) -> Any:
    """8-bit codes times their scales in float64; one scale for every `rows` × `columns` codes of the last two axes."""
    wide = scales.double().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    return codes.double() * wide[..., : codes.shape[-2], : codes.shape[-1]]
