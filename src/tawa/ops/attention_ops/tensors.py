"""Tensors as the attention kernels see them: TMA descriptors with the tensors' own strides, and new outputs.

A transposed view, such as that of (B, S, H, D) projections, is used without a copy. TMA needs contiguous rows, and
strides and addresses that are multiples of 16 bytes; other tensors are copied first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tawa.ops.attention_ops.tiles import Boxes, Tile
from tawa.ops.calls.tensors import TMA_BYTES, Box, copy_for_tma, fits_tma, unwritten

RAGGED_EDGE, MOST_OFFSET = 2**30, 2**31 - 2**16
"""Extents of a ragged descriptor: of its axis of rows (EDGE of `tawa.ops.kernels.attention.parts`), and of those before
it."""
LONGEST_ROW = 2**34
"""The stride of a row in elements; that of TMA's axis before it, this minus the row's, is positive."""
Boxed = Callable[[torch.Tensor, int, int], Box]
"""Makes boxes of so many rows and columns of a tensor: `rows_box`, `ragged_box`."""


def for_tma(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor (B, H, S, D) if it fits TMA, else a copy that does, with the memory order that `new_like` sees."""
    if fits_tma(tensor):
        return tensor
    if has_heads_within_rows(tensor):
        return copy_for_tma(tensor.transpose(1, 2)).transpose(1, 2)
    return copy_for_tma(tensor)


def has_heads_within_rows(tensor: torch.Tensor) -> bool:
    """Whether a tensor (B, H, S, D) is a view of projections (B, S, H, D)."""
    return bool(0 < tensor.stride(1) < tensor.stride(2))


def fits_ragged(tensor: torch.Tensor) -> bool:
    """Whether a ragged descriptor can be made for packed rows (rows, heads, D), however many, without a copy."""
    row = tensor.stride(0)
    return fits_tma(tensor) and 0 < row < LONGEST_ROW and row * tensor.element_size() % TMA_BYTES == 0


def for_ragged(tensor: torch.Tensor) -> torch.Tensor:
    """The packed rows if they fit a ragged descriptor, else a copy of them that does."""
    return tensor if fits_ragged(tensor) else copy_for_tma(tensor)


def cache_step(cache: torch.Tensor) -> int | None:
    """Rows from one entry (batch or page) of a cache (entries, heads, S, D) to the next; None if TMA cannot read it.

    Its ragged descriptor takes all rows for one column, so the first stride must be a multiple of the row's. The
    address, which must be a multiple of 16 too, is not looked at.
    """
    (entries, heads, _, columns), (entry, head, row, column) = cache.shape, cache.stride()
    unit = TMA_BYTES // cache.element_size()
    if (column != 1 and columns > 1) or not 0 < row < LONGEST_ROW or row % unit:
        return None
    if heads > 1 and (head <= 0 or head % unit):
        return None
    if entries <= 1:
        return 0
    return entry // row if entry > 0 and entry % row == 0 else None


def ragged_box(tensor: torch.Tensor, rows: int, columns: int) -> Box:
    """Boxes of some rows of one head of packed rows (rows, heads, D), with the axes of their kernels.

    They do not depend on the number of rows. `fits_ragged` holds for the tensor.
    """
    (row, head, _), (_, heads, head_dim) = tensor.stride(), tensor.shape
    shape = [MOST_OFFSET, MOST_OFFSET, heads, RAGGED_EDGE, head_dim]
    strides = [2**34 - row, row, head if heads > 1 else TMA_BYTES, row, 1]
    block = [1, 1, 1, rows, columns]
    return Box.over(tensor, shape, strides, block)


def rows_box(tensor: torch.Tensor, rows: int, columns: int) -> Box:
    """Boxes of some rows of one head, of a tensor (B, H, S, D)."""
    return Box.of(tensor, 1, 1, rows, columns)


def boxes_of_parts(
    boxed: Boxed, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, tile: Tile, boxes: Boxes
) -> list[Box | None]:
    """The boxes of what a forward kernel takes as `in_parts` says; None where there is no second box."""
    tensors = (q, tile.BM), (k, tile.BN), (v, tile.BN), (o, tile.BM)
    columns = [boxes.first, boxes.first, boxes.values, boxes.values]
    if boxes.second:
        columns += [boxes.second, boxes.second, boxes.of_v, boxes.of_v]
    parts = zip(tensors * (len(columns) // len(tensors)), columns, strict=True)
    return [boxed(x, rows, width) if width else None for (x, rows), width in parts]


def in_parts(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, boxes: Boxes
) -> tuple[torch.Tensor | None, ...]:
    """The first arguments of a forward kernel: a tensor for each of its boxes, or None."""
    second = (q, k, *((v, o) if boxes.of_v else (None, None))) if boxes.second else ()
    return (q, k, v, o, *second)


def new_like(
    tensor: torch.Tensor, dtype: torch.dtype, columns: int | None = None,
    make: Callable[[torch.Tensor, tuple[int, ...], torch.dtype], torch.Tensor] = unwritten,
) -> torch.Tensor:  # fmt: skip
    """An unwritten output (B, H, S, D) with the memory order of `tensor`: heads within rows, or rows within heads.

    Attention between projections of (B, S, H, D) therefore needs no copy after it. The order depends on strides alone,
    so it is the same for tensors that torch.compile traces. columns: D, if it is not that of `tensor`. make:
    `unwritten` or `traced`.
    """
    batches, heads, length, head_dim = tensor.shape
    head_dim = head_dim if columns is None else columns
    if has_heads_within_rows(tensor):
        return make(tensor, (batches, length, heads, head_dim), dtype).transpose(1, 2)
    return make(tensor, (batches, heads, length, head_dim), dtype)


def is_like_a_copy(tensor: torch.Tensor) -> bool:
    """Whether PyTorch gives a copy of the tensor the memory order that `new_like` gives an output."""
    return new_like(tensor, tensor.dtype).stride() == torch.empty_like(tensor).stride()
