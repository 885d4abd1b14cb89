"""Tensors as kernels see them: TMA descriptors with the tensors' own strides, and unwritten outputs.

TMA needs contiguous rows, and strides and addresses that are multiples of 16 bytes; other tensors are copied first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

TMA_BYTES = 16


def fits_tma(tensor: torch.Tensor) -> bool:
    """Whether a descriptor can be made for the tensor without a copy."""
    size = tensor.element_size()
    strides = [stride for length, stride in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True) if length > 1]
    return (
        (tensor.stride(-1) == 1 or tensor.shape[-1] == 1)
        and tensor.data_ptr() % TMA_BYTES == 0
        and all(stride > 0 and stride * size % TMA_BYTES == 0 for stride in strides)
    )


def copy_for_tma(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose rows begin at multiples of 16 bytes."""
    unit = TMA_BYTES // tensor.element_size()
    length = tensor.shape[-1]
    copy = tensor.new_empty((*tensor.shape[:-1], -(-length // unit) * unit))[..., :length]
    return copy.copy_(tensor)


@dataclass(frozen=True, slots=True)
class Box:
    """How descriptors of tensors with one shape and one set of strides are made. block: the shape of their box."""

    shape: list[int]
    strides: list[int]
    block: list[int]

    @staticmethod
    def of(tensor: torch.Tensor, *block: int) -> Box:
        """Boxes of a tensor. Strides of dimensions of size 1 are never used."""
        shape, strides = list(tensor.shape), list(tensor.stride())
        for axis in range(len(shape) - 1):
            if shape[axis] == 1:
                strides[axis] = TMA_BYTES
        strides[-1] = 1
        return Box.over(tensor, shape, strides, list(block))

    @staticmethod
    def of_result(shape: tuple[int, ...], dtype: torch.dtype, *block: int) -> Box | None:
        """Boxes of a contiguous result; None if its rows do not begin at multiples of 16 bytes."""
        if shape[-1] * dtype.itemsize % TMA_BYTES:
            return None
        return Box.of(torch.empty(shape, dtype=dtype, device="meta"), *block)

    @staticmethod
    def over(tensor: torch.Tensor, shape: list[int], strides: list[int], block: list[int]) -> Box:
        """Boxes of the memory of a tensor, seen in another shape."""
        TensorDescriptor(tensor, shape, strides, block)  # which checks all of it
        return Box(shape, strides, block)

    def around(self, tensor: torch.Tensor) -> TensorDescriptor:
        """The descriptor of such a tensor, whose address is a multiple of 16. Nothing is checked again."""
        made = TensorDescriptor.__new__(TensorDescriptor)
        made.base, made.shape, made.strides, made.block_shape = tensor, self.shape, self.strides, self.block
        return made


def unwritten_copy(tensor: torch.Tensor) -> torch.Tensor:
    """As `unwritten`, with the shape, type and memory order of a tensor."""
    return torch.empty_like(tensor)


def unwritten(like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor that a kernel fills; outputs and buffers are allocated here and in `unwritten_copy`."""
    return torch.empty_strided(shape, _contiguous(shape), dtype=dtype, device=like.device)


def traced(like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """As `unwritten`, for tensors that torch.compile traces: sizes may be symbols."""
    return like.new_empty(shape, dtype=dtype)


@lru_cache(1024)
def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor; with them, PyTorch allocates in half the time that `torch.empty` takes."""
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * max(1, size))
    return tuple(strides[: len(shape)][::-1])
