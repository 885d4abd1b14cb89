"""Launching the decoding kernels on PyTorch tensors: attention over the shares of the keys, and their merge.

Nothing of a launch depends on the lengths in GPU memory, nor on the table of pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tawa.ops.attention_ops.decode_splits import split_count
from tawa.ops.attention_ops.launch import tiles_for, under_tawa
from tawa.ops.attention_ops.options import Options
from tawa.ops.attention_ops.tensors import cache_step, ragged_box
from tawa.ops.attention_ops.tiles import HOPPER, box_of
from tawa.ops.calls.checks import ArgumentError, check_capability
from tawa.ops.calls.devices import multiprocessors, on_device
from tawa.ops.calls.launches import Launches
from tawa.ops.calls.plain import KnownCalls
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, Box, unwritten
from tawa.ops.kernels.attention import decode

attention_decode: Any = under_tawa(decode.attention_decode)
merge_splits: Any = under_tawa(decode.merge_splits)
append_rows: Any = under_tawa(decode.append_rows)
ROWS = 64
"""Rows of a tile: those of a wgmma."""
BLOCK = 64 * 128
"""Elements of a block of K on Hopper, 16 KiB: two programs share an SM, each with three blocks of K and V on their way.
One program with blocks of twice the size is slower. Elsewhere half as many elements."""
AT_A_TIME = 2
"""Programs that share an SM."""


@dataclass(frozen=True, slots=True)
class Length:
    """How many keys sequences have: `each` of all if `lengths` is None, else as there; and `more` keys behind those."""

    lengths: torch.Tensor | None
    each: int
    more: int = 0


def block_of(head_dim: int, page: int, hopper: bool) -> int:
    """Keys of a block: a power of two that divides the page, if there are pages (page is not 0)."""
    keys = max(16, (BLOCK if hopper else BLOCK // 2) // box_of(head_dim))
    keys = min(keys, 128)
    return min(keys, page & -page) if page else keys


class Decode:
    """The launches for tensors that differ in their addresses only, with the same options, and lengths or none.

    wants_lse: whether calls return the logarithms of the sums.
    """

    def __init__(
        self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, table: torch.Tensor | None,
        options: Options, splits: int | None, wants_lse: bool,
    ) -> None:  # fmt: skip
        check_capability(q)
        batches, heads, queries, head_dim = q.shape
        _, key_heads, rows, _ = k_cache.shape
        hopper = tiles_for(q.device) is HOPPER
        page = 0 if table is None else rows
        box, keys = box_of(head_dim), block_of(head_dim, page, hopper)
        self.heads, self.R = batches * key_heads, heads // key_heads * queries
        self.shape, self.key_heads = (batches, heads, queries, head_dim), key_heads
        self.most = rows * (1 if table is None else table.shape[1])
        tiles = blocks(self.R, ROWS)
        pair_bytes = 2 * keys * head_dim * q.element_size()
        self.splits = splits or split_count(
            self.heads * tiles, blocks(self.most, keys), pair_bytes, batches * heads * queries * head_dim * 4,
            multiprocessors(q.device), AT_A_TIME,
        )  # fmt: skip
        self.grid = self.splits, self.heads, tiles
        of_caches = (ragged_box(x[0].transpose(0, 1), keys, box) for x in (k_cache, v_cache))
        steps = cache_step(k_cache) or 0, cache_step(v_cache) or 0
        width = 0 if table is None else table.shape[1]
        rest = width, *steps, *options.numbers, head_dim
        constants = {
            "SQ": queries,
            "R": self.R,
            "BM": ROWS,
            "BN": keys,
            "D": box,
            "PAGE": page,
            **options.constants,
            "num_warps": 4,
            "num_stages": 3 if hopper else 2,
        }
        rows = [self.heads, self.R, head_dim], [self.R * head_dim, head_dim, 1], [1, ROWS, box]
        of_q = Box.over(q.new_empty(rows[0]), *rows)
        self.attend = Launches(lambda: attention_decode, (of_q, *of_caches), rest, constants)
        count = batches * heads * queries
        merged = {"SPLITS": 1 << (self.splits - 1).bit_length(), "D": box, "num_warps": 4}
        self.merge, self.count = Launches(lambda: merge_splits, (), (count, head_dim, self.splits), merged), count
        self.parts = (self.splits * count * (head_dim + 1),)
        self.device, self.wants_lse = q.device.index, wants_lse or self.splits == 1

    def __call__(
        self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, lengths: torch.Tensor | None,
        table: torch.Tensor | None, each: int, more: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
        """O (B, H, SQ, D), and the base-2 logarithms of the sums (B, H, SQ) in float32; maybe None if not wanted.

        each, more: of the keys, as in `Length`.
        """
        o = unwritten(q, self.shape, q.dtype)
        lse = unwritten(q, self.shape[:3], torch.float32) if self.wants_lse else None
        part, part_lse = o, lse
        if self.splits > 1:  # the logarithms of the parts stand behind them
            part, part_lse = unwritten(q, self.parts, torch.float32), None
        rows = q.contiguous()
        if rows.data_ptr() % TMA_BYTES:
            rows = rows.clone()
        first = rows, k_cache, v_cache, part, part_lse, lengths, table, self.key_heads, each, more
        on_device(self.device, self._launch, first, (lengths, table), (part, o, lse))
        return o, lse

    def _launch(self, first: tuple[Any, ...], given: tuple[torch.Tensor | None, ...], merged: tuple[Any, ...]) -> None:
        self.attend(self.grid, first, given)
        if self.splits > 1:
            self.merge((self.count,), merged)


def run_decode(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, length: Length, table: torch.Tensor | None,
    options: Options, splits: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """O (B, H, SQ, D), and the base-2 logarithms of the sums (B, H, SQ) in float32."""
    if 0 in q.shape or 0 in k_cache.shape or (table is not None and 0 in table.shape):
        return torch.zeros_like(q), torch.full(q.shape[:3], float("-inf"), dtype=torch.float32, device=q.device)
    if (k_cache.data_ptr() | v_cache.data_ptr()) % TMA_BYTES:
        raise ArgumentError("the cache does not begin at a multiple of 16 bytes; cure: a cache of its own, not a slice")
    known = (
        q.shape, k_cache.shape, k_cache.stride(), v_cache.stride(), None if table is None else table.shape, q.dtype,
        q.device, options, splits, length.lengths is None,
    )  # fmt: skip
    found = _decodes.get(known)
    if found is None:
        made = Decode(q, k_cache, v_cache, table, options, splits, True)
        found = _decodes.keep(known, made)
    o, lse = found(q, k_cache, v_cache, length.lengths, table, length.each, length.more)
    assert lse is not None
    return o, lse


_decodes: KnownCalls[Decode] = KnownCalls()


def run_append(
    k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, length: Length,
    table: torch.Tensor | None,
) -> None:  # fmt: skip
    """Writes k and v (B, HK, SN, D) behind the keys of each sequence, in place; what has no room is left out."""
    batches, key_heads, new, head_dim = k.shape
    if 0 in k.shape:
        return
    k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (k, v))
    strides = (stride for x in (k, v, k_cache, v_cache) for stride in x.stride()[:3])
    width, page = (0, 0) if table is None else (table.shape[1], k_cache.shape[2])
    capacity = k_cache.shape[2] if table is None else width * page
    with torch.cuda.device_of(k):
        append_rows[(new, batches * key_heads)](
            k, v, k_cache, v_cache, length.lengths, table, length.each, width, head_dim, key_heads, capacity,
            k_cache.shape[0], *strides, PAGE=page, D=box_of(head_dim), num_warps=1,
        )  # fmt: skip
