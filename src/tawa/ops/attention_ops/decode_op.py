"""`tawa.ops.attention_decode`: attention over a cache of keys and values as a PyTorch operator.

As `attention_op`: plain calls launch their kernels without the dispatcher. All others go through the operators
``tawa::append_kv``, which changes the cache, and ``tawa::attention_decode``; both have fake implementations, and no
derivatives.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from tawa.ops.attention_ops.decode_checks import check_cache, no_gradient
from tawa.ops.attention_ops.decode_launch import Decode, Length, run_append, run_decode
from tawa.ops.attention_ops.launch import LN_2
from tawa.ops.attention_ops.options import Options, options_of
from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.operators import defined
from tawa.ops.calls.plain import VALUES, KnownCalls, autograd_is_on, is_plain
from tawa.ops.calls.tensors import TMA_BYTES

_DECODE = (
    "attention_decode(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? lengths, SymInt each, SymInt more, "
    "Tensor? table, bool causal, int window, float scale, float softcap, int splits) -> (Tensor, Tensor)"
)
_APPEND = (
    "append_kv(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor? lengths, SymInt each, "
    "Tensor? table) -> ()"
)


@overload
def attention_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    *,
    k: torch.Tensor | None = ...,
    v: torch.Tensor | None = ...,
    cache_seqlens: torch.Tensor | int | None = ...,
    block_table: torch.Tensor | None = ...,
    causal: bool = ...,
    scale: float | None = ...,
    window: int | None = ...,
    softcap: float | None = ...,
    splits: int | None = ...,
    return_lse: Literal[False] = ...,
) -> torch.Tensor: ...


@overload
def attention_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    *,
    k: torch.Tensor | None = ...,
    v: torch.Tensor | None = ...,
    cache_seqlens: torch.Tensor | int | None = ...,
    block_table: torch.Tensor | None = ...,
    causal: bool = ...,
    scale: float | None = ...,
    window: int | None = ...,
    softcap: float | None = ...,
    splits: int | None = ...,
    return_lse: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...


def attention_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    *,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    cache_seqlens: torch.Tensor | int | None = None,
    block_table: torch.Tensor | None = None,
    causal: bool = True,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention of the last queries of each sequence over a cache of keys and values, as when tokens are generated.

    The tensors have the names of FlashAttention's `flash_attn_with_kvcache`, the options those of `attention`. Its
    (B, S, H, D) tensors are views of these, ``x.transpose(1, 2)``. Lengths and tables stay in GPU memory: the host does
    not wait for them, and they are not checked.

    Args:
        q: (B, H, SQ, D) in float16 or bfloat16: the last SQ tokens of each sequence. D up to 256, a multiple of 8.
        k_cache: (B, HK, S, D), or with `block_table` (pages, HK, keys of a page, D); H is a multiple of HK.
        v_cache: as k_cache.
        k: (B, HK, SN, D): new keys, written into the cache behind the others before anything is read. The cache must
            have room for them: keys beyond its end are not written.
        v: as k, new values.
        cache_seqlens: how many keys each sequence has, without the new ones: (B,) int32, or one number for all; None is
            the whole cache.
        block_table: (B, most pages) int32: keys ``i * P .. i * P + P - 1`` of a sequence, P being the keys of a page,
            are in page ``block_table[b, i]``. Pages have a multiple of 16 keys.
        causal: query i sees the keys up to ``length - SQ + i``: the last query sees the last key.
        scale: a positive number; 1 / sqrt(D) if None.
        window: with `causal`, a row sees only the last `window` of its keys.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        splits: over how many programs the keys of a sequence are split, 1 to 128; chosen if None.
        return_lse: also return the natural logarithm of each row's sum, (B, H, SQ) in float32.

    Returns:
        O (B, H, SQ, D) in the type of q, contiguous. A row that sees no key is 0, and its logarithm -inf.

    Raises:
        ArgumentError: there is no kernel for a tensor or an option, or a gradient is wanted.
        DeviceError: the tensors are not on one CUDA device.
    """
    (q,) = autocast(q)
    k, v = autocast(k, v)
    plain = is_plain(q, k_cache, v_cache)
    if torch.is_grad_enabled() and _has_gradient(q, k_cache, v_cache, k, v) and (not plain or autograd_is_on()):
        raise no_gradient()
    known = None
    if plain and k is None and v is None and not isinstance(cache_seqlens, int):
        values = causal, scale, window, softcap, splits
        if VALUES.issuperset(map(type, values)):
            indices = ((*it.shape, it.stride(), it.dtype, it.device) if it is not None else None
                       for it in (cache_seqlens, block_table))  # fmt: skip
            known = (
                q.shape, k_cache.shape, v_cache.shape, k_cache.stride(), v_cache.stride(), q.dtype, k_cache.dtype,
                v_cache.dtype, q.device, k_cache.device, v_cache.device, *indices, *values, *map(type, values),
                bool(return_lse),
            )  # fmt: skip
            call = _calls.get(known)
            if call is not None and (k_cache.data_ptr() | v_cache.data_ptr()) % TMA_BYTES == 0:
                o, lse = call(q, k_cache, v_cache, cache_seqlens, block_table, call.most)
                return (o, lse * LN_2) if return_lse and lse is not None else o
    check_cache(q, k_cache, v_cache, k, v, cache_seqlens, block_table, splits)
    options = options_of(q, causal=causal, scale=scale, window=window, softcap=softcap)
    lengths = cache_seqlens if isinstance(cache_seqlens, torch.Tensor) else None
    whole = k_cache.shape[2] * (1 if block_table is None else block_table.shape[1])
    each = cache_seqlens if isinstance(cache_seqlens, int) else whole
    more = 0 if k is None else k.shape[2]
    if plain and (k is None or v is None or is_plain(k, v)):
        if k is not None and v is not None:
            run_append(k, v, k_cache, v_cache, Length(lengths, each), block_table)
        o, lse = run_decode(q, k_cache, v_cache, Length(lengths, each, more), block_table, options, splits)
        if known is not None and o.numel() and whole:
            _calls.keep(known, Decode(q, k_cache, v_cache, block_table, options, splits, bool(return_lse)))
    else:
        if k is not None and v is not None:
            _append(k, v, k_cache, v_cache, lengths, each, block_table)
        o, lse = _decode(q, k_cache, v_cache, lengths, each, more, block_table, *options.flat, splits or 0)
    return (o, lse * LN_2) if return_lse else o


_calls: KnownCalls[Decode] = KnownCalls()
"""The plain calls that were made without new keys, by all that is checked or decided."""


def _has_gradient(*tensors: torch.Tensor | None) -> bool:
    return any(x is not None and x.requires_grad for x in tensors)


def _run_decode(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, lengths: torch.Tensor | None, each: int, more: int,
    table: torch.Tensor | None, causal: bool, window: int, scale: float, softcap: float, splits: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    length, options = Length(lengths, each, more), Options.of(causal, window, scale, softcap)
    return run_decode(q, k_cache, v_cache, length, table, options, splits or None)


def _run_append(
    k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, lengths: torch.Tensor | None,
    each: int, table: torch.Tensor | None,
) -> None:  # fmt: skip
    run_append(k, v, k_cache, v_cache, Length(lengths, each), table)


def _fake_decode(q: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)


def _fake_append(*arguments: Any) -> None:
    return None


_decode: Any = defined(_DECODE, _run_decode, _fake_decode)
_append: Any = defined(_APPEND, _run_append, _fake_append)
