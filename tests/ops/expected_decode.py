"""Caches of keys and values, in pages and not, and what attention over them must return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from tests.ops.expected import DEVICE, check_outputs, normal


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache full of NaN but for the keys of each sequence.

    keys, values: those of each sequence, (1, HK, length, D).
    """

    k: Any
    v: Any
    lengths: Any
    table: Any
    keys: tuple[Any, ...]
    values: tuple[Any, ...]


def make_cache(
    lengths: tuple[int, ...], key_heads: int, dim: int, *, rows: int, page: int = 0, dtype: Any = torch.float16,
    rows_first: bool = False,
) -> Cache:  # fmt: skip
    """A cache for `rows` keys of each sequence; in pages in a random order if `page` is not 0.

    rows_first: (B, S, HK, D) in memory, as in FlashAttention; else (B, HK, S, D).
    """
    keys, values = (
        tuple(normal(1, key_heads, max(length, 1), dim, dtype=dtype, seed=seed + 7 * b)[:, :, :length]
              for b, length in enumerate(lengths))
        for seed in (2, 3)
    )  # fmt: skip
    columns = -(-rows // page) if page else 0
    order = torch.randperm(len(lengths) * columns + 3, generator=torch.Generator().manual_seed(4))
    table = order[: len(lengths) * columns].reshape(len(lengths), columns).to(torch.int32) if page else None
    shape = (order.numel(), page, key_heads, dim) if page else (len(lengths), rows, key_heads, dim)
    made: list[Any] = []
    for of in (keys, values):
        cache = torch.full(shape, math.nan, dtype=dtype).transpose(1, 2)
        for b, tile in enumerate(of):
            for n in range(tile.shape[2]):
                place = (int(table[b, n // page]), n % page) if table is not None else (b, n)
                cache[place[0], :, place[1]] = tile[0, :, n]
        made.append((cache if rows_first else cache.contiguous()).to(DEVICE))
    counts = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    return Cache(*made, counts, None if table is None else table.to(DEVICE), keys, values)


def check_decoded(o: Any, lse: Any, q: Any, cache: Cache, **options: Any) -> None:
    """Every sequence alone, against float64; `lse` are natural logarithms."""
    for b, (k, v) in enumerate(zip(cache.keys, cache.values, strict=True)):
        own, sums = o[b : b + 1], lse[b : b + 1]
        if k.shape[2] == 0:
            assert (own == 0).all() and (sums == -math.inf).all()
            continue
        diagonal = k.shape[2] - q.shape[2] if options.get("causal") else 0
        check_outputs(own, sums, q[b : b + 1], k.to(q.device), v.to(q.device), diagonal=diagonal, **options)
