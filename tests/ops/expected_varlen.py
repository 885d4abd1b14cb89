"""What attention over packed sequences must return: that of every sequence alone, and nothing of its neighbours."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from tests.ops.expected import DEVICE, check_gradients, check_outputs, compare, normal

GAP = 3
"""Rows of NaN after every sequence that belong to none."""


def offsets(lengths: tuple[int, ...]) -> Any:
    """Where each sequence begins, and the end of the last."""
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=DEVICE)


def packed(
    queries: tuple[int, ...], keys: tuple[int, ...], dim: int = 64, heads: tuple[int, int] = (2, 2),
    dtype: Any = torch.float16,
) -> tuple[Any, ...]:  # fmt: skip
    """Q, K, V, and the offsets of the queries and of the keys."""
    of_q, of_k = heads
    return (
        normal(sum(queries), of_q, dim, dtype=dtype, seed=1),
        normal(sum(keys), of_k, dim, dtype=dtype, seed=2),
        normal(sum(keys), of_k, dim, dtype=dtype, seed=3),
        offsets(queries),
        offsets(keys),
    )


def pairs(cu: Any) -> list[tuple[int, int]]:
    """The first row of each sequence, and the row after its last."""
    return list(itertools.pairwise(cu.tolist()))


def check_sequences(o: Any, lse: Any, tensors: tuple[Any, ...], **options: Any) -> None:
    """Every sequence alone, against float64; `lse` are natural logarithms. A sequence without keys gives 0 and -inf."""
    q, k, v, cu_q, cu_k = tensors
    for (first, end), (begin, last) in zip(*map(pairs, (cu_q, cu_k)), strict=True):
        if first == end:
            continue
        own, sums = o[first:end].transpose(0, 1)[None], lse[None, :, first:end]
        if begin == last:
            assert (own == 0).all() and (sums == -math.inf).all()
            continue
        parts = (q[first:end], k[begin:last], v[begin:last])
        diagonal = (last - begin) - (end - first) if options.get("causal") else 0
        check_outputs(own, sums, *(x.transpose(0, 1)[None] for x in parts), diagonal=diagonal, **options)


def check_packed_gradients(found: Any, do: Any, dlse: Any, tensors: tuple[Any, ...], **options: Any) -> None:
    """dQ, dK and dV of every sequence alone; 0 where it has no queries or no keys. dlse: (heads, rows), or None."""
    q, k, v, cu_q, cu_k = tensors
    for (first, end), (begin, last) in zip(*map(pairs, (cu_q, cu_k)), strict=True):
        own = found[0][first:end], found[1][begin:last], found[2][begin:last]
        if first == end or begin == last:
            assert all((it == 0).all() for it in own)
            continue
        parts = own[0], own[1], own[2], q[first:end], k[begin:last], v[begin:last], do[first:end]
        *own, one, keys, values, of_o = (x.transpose(0, 1)[None] for x in parts)
        of_lse = None if dlse is None else dlse[None, :, first:end]
        diagonal = (last - begin) - (end - first) if options.get("causal") else 0
        check_gradients(own, one, keys, values, of_o, of_lse, diagonal=diagonal, **options)


def amid_nan(tensors: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """The same tensors, with NaN in all sequences but one, and in rows before the first and after the last."""
    q, k, v, cu_q, cu_k = tensors
    found: list[Any] = []
    for x, cu in ((q, cu_q), (k, cu_k), (v, cu_k)):
        more = torch.full((x.shape[0] + 2 * GAP, *x.shape[1:]), math.nan, device=x.device).to(x.dtype)
        first, end = cu[at].item(), cu[at + 1].item()
        more[GAP + first : GAP + end] = x[first:end]
        found.append(more)
    return (*found, cu_q + GAP, cu_k + GAP)


def check_neighbours(call: Any, tensors: tuple[Any, ...], at: int) -> None:
    """`call` gives the same bits for one sequence if all others are NaN; `call` takes the tensors, and returns O."""
    first, end = tensors[3][at].item(), tensors[3][at + 1].item()
    wanted, found = call(*tensors)[first:end], call(*amid_nan(tensors, at))[GAP + first : GAP + end]
    compare(f"sequence {at} amid NaN", found, wanted.double(), 0.0)
