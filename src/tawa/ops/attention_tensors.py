"""Tensors as the attention kernels see them: TMA descriptors with the tensors' own strides, and new outputs.

A transposed view, such as that of (B, S, H, D) projections, is used without a copy. TMA needs contiguous rows, and
strides and addresses that are multiples of 16 bytes; other tensors are copied first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

TMA_BYTES = 16
RAGGED_EDGE, MOST_OFFSET = 2**30, 2**31 - 2**16
"""Extents of a ragged descriptor: of its axis of rows (EDGE of `tawa.ops.kernels.parts`), and of those before it."""
LONGEST_ROW = 2**34
"""The stride of a row in elements; that of TMA's axis before it, this minus the row's, is positive."""


def fits_tma(tensor: torch.Tensor) -> bool:
    """Whether a descriptor can be made for the tensor without a copy."""
    size = tensor.element_size()
    strides = [stride for length, stride in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True) if length > 1]
    return (
        (tensor.stride(-1) == 1 or tensor.shape[-1] == 1)
        and tensor.data_ptr() % TMA_BYTES == 0
        and all(stride > 0 and stride * size % TMA_BYTES == 0 for stride in strides)
    )


def for_tma(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor if it fits TMA, else a copy whose rows begin at multiples of 16 bytes."""
    return tensor if fits_tma(tensor) else _copy_for_tma(tensor)


def _copy_for_tma(tensor: torch.Tensor) -> torch.Tensor:
    unit = TMA_BYTES // tensor.element_size()
    length = tensor.shape[-1]
    copy = tensor.new_empty((*tensor.shape[:-1], -(-length // unit) * unit))[..., :length]
    return copy.copy_(tensor)


def fits_ragged(tensor: torch.Tensor) -> bool:
    """Whether a ragged descriptor can be made for packed rows (rows, heads, D), however many, without a copy."""
    row = tensor.stride(0)
    return fits_tma(tensor) and 0 < row < LONGEST_ROW and row * tensor.element_size() % TMA_BYTES == 0


def for_ragged(tensor: torch.Tensor) -> torch.Tensor:
    """The packed rows if they fit a ragged descriptor, else a copy of them that does."""
    return tensor if fits_ragged(tensor) else _copy_for_tma(tensor)


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


@dataclass(frozen=True, slots=True)
class Box:
    """How descriptors of tensors with one shape and one set of strides are made. block: the shape of their box."""

    shape: list[int]
    strides: list[int]
    block: list[int]

    @staticmethod
    def of(tensor: torch.Tensor, rows: int, columns: int) -> Box:
        """Boxes of some rows of one head. Strides of dimensions of size 1 are never used."""
        shape, strides = list(tensor.shape), list(tensor.stride())
        for axis in range(3):
            if shape[axis] == 1:
                strides[axis] = TMA_BYTES
        strides[3] = 1
        TensorDescriptor(tensor, shape, strides, [1, 1, rows, columns])  # which checks all of it
        return Box(shape, strides, [1, 1, rows, columns])

    @staticmethod
    def ragged(tensor: torch.Tensor, rows: int, columns: int) -> Box:
        """Boxes of some rows of one head of packed rows (rows, heads, D), with the axes of `tawa.ops.kernels.varlen`.

        They do not depend on the number of rows. `fits_ragged` holds for the tensor.
        """
        (row, head, _), (_, heads, head_dim) = tensor.stride(), tensor.shape
        shape = [MOST_OFFSET, MOST_OFFSET, heads, RAGGED_EDGE, head_dim]
        strides = [2**34 - row, row, head if heads > 1 else TMA_BYTES, row, 1]
        block = [1, 1, 1, rows, columns]
        TensorDescriptor(tensor, shape, strides, block)  # which checks all of it
        return Box(shape, strides, block)

    def around(self, tensor: torch.Tensor) -> TensorDescriptor:
        """The descriptor of such a tensor, whose address is a multiple of 16. Nothing is checked again."""
        made = TensorDescriptor.__new__(TensorDescriptor)
        made.base, made.shape, made.strides, made.block_shape = tensor, self.shape, self.strides, self.block
        return made


def descriptor(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A 4-D descriptor with boxes of some rows of one head."""
    return Box.of(tensor, rows, columns).around(tensor)


def new_like(tensor: torch.Tensor, dtype: torch.dtype, columns: int | None = None) -> torch.Tensor:
    """An unwritten output (B, H, S, D) with the memory order of `tensor`: heads within rows, or rows within heads.

    Attention between projections of (B, S, H, D) therefore needs no copy after it. The order depends on strides alone,
    so it is the same for tensors that torch.compile traces. columns: D, if it is not that of `tensor`.
    """
    batches, heads, length, head_dim = tensor.shape
    head_dim = head_dim if columns is None else columns
    if 0 < tensor.stride(1) < tensor.stride(2):
        return unwritten(tensor, (batches, length, heads, head_dim), dtype).transpose(1, 2)
    return unwritten(tensor, (batches, heads, length, head_dim), dtype)


def is_like_a_copy(tensor: torch.Tensor) -> bool:
    """Whether PyTorch gives a copy of the tensor the memory order that `new_like` gives an output."""
    return new_like(tensor, tensor.dtype).stride() == torch.empty_like(tensor).stride()


def unwritten_copy(tensor: torch.Tensor) -> torch.Tensor:
    """As `unwritten`, with the shape, type and memory order of a tensor."""
    return torch.empty_like(tensor)


def unwritten(like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor that a kernel fills; outputs and buffers are allocated here and in `unwritten_copy`."""
    return torch.empty(shape, dtype=dtype, device=like.device)
