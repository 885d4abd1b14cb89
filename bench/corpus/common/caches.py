"""Keys and values of sequences of different lengths in a cache of pages, as servers of language models keep them.

A sequence has cached tokens and new ones; the queries are those of the new tokens. A cache with pages of one token is
addressed token by token.
"""

from __future__ import annotations

from typing import Any

from bench.corpus.common.references import attention
from bench.corpus.entry import Inputs, Outputs


def starts_of(sizes: tuple[int, ...], device: str) -> Any:
    """Where each sequence begins if they lie one after the other, and the end of the last one."""
    import torch

    return torch.tensor([0, *sizes], device=device).cumsum(0).to(torch.int32)


def paged(prefix: tuple[int, ...], new: tuple[int, ...], H: int, KV: int, D: int, page: int, device: str) -> Inputs:
    """Queries of the new tokens, the keys and values of all, and the same in pages in random order."""
    import torch

    totals = [before + after for before, after in zip(prefix, new, strict=True)]
    pages = [-(-total // page) for total in totals]
    order = torch.randperm(sum(pages), device=device).to(torch.int32)
    table = torch.zeros(len(new), max(pages), dtype=torch.int32, device=device)
    k_pages, v_pages = (torch.randn(sum(pages), page, KV, D, device=device).bfloat16() for _ in range(2))
    keys: list[Any] = []
    values: list[Any] = []
    used = 0
    for at, total in enumerate(totals):
        mine = order[used : used + pages[at]]
        used += pages[at]
        table[at, : pages[at]] = mine
        keys.append(k_pages[mine.long()].reshape(-1, KV, D)[:total])
        values.append(v_pages[mine.long()].reshape(-1, KV, D)[:total])
    return {
        "q": torch.randn(sum(new), H, D, device=device).bfloat16(),
        "keys": keys,
        "values": values,
        "k_pages": k_pages,
        "v_pages": v_pages,
        "table": table,
        "starts": starts_of(new, device),
        "totals": torch.tensor(totals, dtype=torch.int32, device=device),
        "new": new,
        "before": torch.tensor(prefix, dtype=torch.int32, device=device),
        "longest": max(totals),
    }


def want_paged(it: Inputs) -> Outputs:
    """Causal attention of the new tokens, with a bias of the scores where there are `slopes` for each head (ALiBi)."""
    import torch

    parts: list[Any] = []
    for q, k, v in zip(it["q"].split(list(it["new"])), it["keys"], it["values"], strict=True):
        bias = None
        if "slopes" in it:
            last, first = k.shape[0], k.shape[0] - q.shape[0]
            rows, columns = torch.arange(first, last, device=q.device), torch.arange(last, device=q.device)
            bias = it["slopes"][:, None, None] * (columns[None, :] - rows[:, None])
        parts.append(_with_bias(q, k, v, bias))
    return {"o": torch.cat(parts)}


def _with_bias(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Causal attention of one sequence, with a bias of the scores (H, new, total)."""
    import torch

    q, k, v = (it.transpose(0, 1)[None] for it in (q, k, v))
    if bias is None:
        return attention(q, k, v, causal=True)[0].transpose(0, 1)
    heads = q.shape[1] // k.shape[1]
    scores = (q.float() @ k.float().repeat_interleave(heads, 1).transpose(-1, -2)) * q.shape[-1] ** -0.5 + bias
    rows, columns = scores.shape[-2:]
    seen = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril(columns - rows)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
    return (weights @ v.float().repeat_interleave(heads, 1))[0].transpose(0, 1)


def by_token(it: Inputs) -> Inputs:
    """Of a cache with pages of one token: keys, values, and the addresses of all tokens, sequence after sequence."""
    import torch

    tables = [row[:total] for row, total in zip(it["table"], it["totals"].tolist(), strict=True)]
    return {**it, "k": it["k_pages"][:, 0], "v": it["v_pages"][:, 0], "addresses": torch.cat(tables)}


def latent(prefix: tuple[int, ...], H: int, page: int, device: str) -> Inputs:
    """One new token for each sequence, as in multi-head latent attention: one head of keys of 576 for all queries.

    The first 512 of its columns are the values, and lie in the same memory.
    """
    it = paged(prefix, (1,) * len(prefix), H, 1, 576, page, device)
    return {**it, "values": [k[..., :512] for k in it["keys"]], "v_pages": it["k_pages"][..., :512]}
