"""The arguments that `tawa.ops.attention_decode` accepts, and the errors for all others.

Only shapes, strides, element types and devices are read: lengths and tables are in GPU memory.
"""

from __future__ import annotations

import torch

from tawa.errors import DeviceError
from tawa.ops.attention_ops.checks import LONGEST, MOST_HEADS, MOST_ROWS, check_heads
from tawa.ops.attention_ops.tensors import MOST_OFFSET, cache_step
from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, shape_of

PAGE_UNIT = 16
"""Keys of a page are a multiple of this: a block of keys lies in one page."""
MOST_SPLITS = 128


def check_cache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    cache_seqlens: torch.Tensor | int | None,
    block_table: torch.Tensor | None,
    splits: int | None,
) -> None:
    """Raises ArgumentError or DeviceError unless the tensors belong together; shapes as in `attention_decode`."""
    named = {"q": q, "k_cache": k_cache, "v_cache": v_cache}
    if (k is None) != (v is None):
        raise ArgumentError(f"{'v' if v is None else 'k'} is missing; cure: give both k and v, or neither")
    if k is not None and v is not None:
        named |= {"k": k, "v": v}
    for name, tensor in named.items():
        if tensor.ndim != 4:
            raise ArgumentError(
                f"{name} has shape {shape_of(tensor)}; cure: (batch, heads, length, head dimension), of a cache with "
                "block_table (pages, heads, keys of a page, head dimension)"
            )
    check_devices(named)
    check_types(named, HALF)
    check_heads(q, k_cache)
    if k_cache.shape != v_cache.shape:
        raise ArgumentError(f"k_cache has shape {shape_of(k_cache)}, v_cache {shape_of(v_cache)}; cure: the same")
    batches, heads, queries, _ = q.shape
    if block_table is None and k_cache.shape[0] != batches:
        raise ArgumentError(
            f"q has {batches} batches, k_cache {k_cache.shape[0]}; cure: as many in both, or block_table for pages"
        )
    for name in ("k_cache", "v_cache"):
        _check_strides(name, named[name])
    if k is not None and v is not None:
        _check_new(q, k_cache, k, v, cache_seqlens)
    _check_index("cache_seqlens", cache_seqlens, (batches,), q.device)
    if block_table is not None:
        _check_pages(k_cache, block_table, batches, q.device)
    if isinstance(cache_seqlens, int):
        most = k_cache.shape[2] * (1 if block_table is None else block_table.shape[1])
        new = 0 if k is None else k.shape[2]
        if not 0 <= cache_seqlens <= most - new:
            raise ArgumentError(
                f"cache_seqlens={cache_seqlens} with {new} new keys: the cache holds {most} keys of a sequence; cure: "
                "a larger cache, or the length before the new keys"
            )
    if splits is not None and (isinstance(splits, bool) or not 1 <= splits <= MOST_SPLITS):
        raise ArgumentError(f"splits={splits}: 1 to {MOST_SPLITS} are possible; cure: splits=None chooses")
    if batches * heads > MOST_HEADS or batches * heads * queries * MOST_SPLITS > MOST_ROWS:
        raise ArgumentError(
            f"{batches} batches of {heads} heads of {queries} queries are too many; cure: tawa.ops.attention for long "
            "queries, or split the batch"
        )
    if max(queries, k_cache.shape[2]) > LONGEST:
        raise ArgumentError(
            f"{queries} queries and {k_cache.shape[2]} keys: at most {LONGEST} of each; cure: split them"
        )


def _check_strides(name: str, cache: torch.Tensor) -> None:
    step = cache_step(cache)
    if step is None:
        raise ArgumentError(
            f"{name} has strides {tuple(cache.stride())}: TMA reads rows of contiguous elements whose strides are "
            "multiples of 16 bytes, and the first stride must be a multiple of the row's; cure: a contiguous (B, HK, "
            "S, D) or (B, S, HK, D) cache, the latter as cache.transpose(1, 2)"
        )
    if cache.shape[0] * step + cache.shape[2] > MOST_OFFSET:
        raise ArgumentError(f"{name} has over {MOST_OFFSET} rows; cure: split the batch")


def _check_new(
    q: torch.Tensor, cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor | int | None
) -> None:
    wanted = (q.shape[0], cache.shape[1], k.shape[2], cache.shape[3])
    for name, tensor in (("k", k), ("v", v)):
        if tuple(tensor.shape) != wanted:
            raise ArgumentError(
                f"{name} has shape {shape_of(tensor)}; cure: (batch, key heads, new keys, head dimension), here "
                f"{wanted}, as many new keys in k and v"
            )
    if lengths is None:
        raise ArgumentError("k and v without cache_seqlens; cure: cache_seqlens, the lengths before the new keys")


def _check_pages(cache: torch.Tensor, table: torch.Tensor, batches: int, device: torch.device) -> None:
    _check_index("block_table", table, (batches, table.shape[-1] if table.ndim else 0), device)
    if cache.shape[2] % PAGE_UNIT or cache.shape[2] == 0:
        raise ArgumentError(
            f"a page of the cache has {cache.shape[2]} keys; cure: pages of a multiple of {PAGE_UNIT} keys"
        )


def _check_index(name: str, tensor: torch.Tensor | int | None, wanted: tuple[int, ...], device: torch.device) -> None:
    if tensor is None or isinstance(tensor, int):
        return
    kind = str(tensor.dtype).removeprefix("torch.")
    if tuple(tensor.shape) != wanted or tensor.dtype != torch.int32 or not tensor.is_contiguous():
        raise ArgumentError(
            f"{name} has shape {shape_of(tensor)} and type {kind}; cure: a contiguous int32 tensor of shape {wanted}"
        )
    if tensor.device != device:
        raise DeviceError(f"{name} is on {tensor.device}, q on {device}; cure: {name}.to(q.device)")


def no_gradient() -> ArgumentError:
    """The error of a call that needs a gradient."""
    return ArgumentError("decoding has no backward kernels; cure: torch.no_grad(), or tawa.ops.attention")
