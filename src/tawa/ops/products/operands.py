"""Operands of products as TMA reads them: in place where it can, else as a copy."""

from __future__ import annotations

import torch

from tawa.ops.calls.tensors import TMA_BYTES, Box, copy_for_tma, fits_tma


def has_rows(matrices: torch.Tensor) -> bool:
    """Whether matrices are read as they are, and not transposed: their last axis is innermost, or a copy is needed."""
    return fits_tma(matrices) or not fits_tma(matrices.mT)


class Operand:
    """Tensors that differ in their addresses only, and the box of their descriptors.

    block: the shape of the box. transposed: the last two axes change places. one: only the first matrix is read.
    """

    def __init__(self, tensor: torch.Tensor, *block: int, transposed: bool = False, one: bool = False) -> None:
        self.transposed, self.one = transposed, one
        seen = self._seen(tensor)
        self.in_place = fits_tma(seen)
        self.box = Box.of(seen if self.in_place else copy_for_tma(seen.to("meta")), *block)

    def readable(self, tensor: torch.Tensor) -> torch.Tensor:
        """Such a tensor where TMA can read it, or a copy for the box, of which only the address counts."""
        if not self.in_place:
            return copy_for_tma(self._seen(tensor))
        if tensor.data_ptr() % TMA_BYTES == 0:
            return tensor
        seen = self._seen(tensor)
        return torch.empty_strided(seen.shape, seen.stride(), dtype=seen.dtype, device=seen.device).copy_(seen)

    def _seen(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the descriptor has it."""
        tensor = tensor[:1] if self.one else tensor
        return tensor.mT if self.transposed else tensor
