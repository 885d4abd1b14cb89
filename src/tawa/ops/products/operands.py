"""Operands of products as TMA reads them: in place where it can, else as a copy."""

from __future__ import annotations

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tawa.ops.calls.tensors import TMA_BYTES, Box, copy_for_tma, fits_tma


def has_rows(matrices: torch.Tensor) -> bool:
    """Whether matrices are read as they are, and not transposed: their last axis is innermost, or a copy is needed."""
    return fits_tma(matrices) or not fits_tma(matrices.mT)


class Operand:
    """Descriptors of tensors that differ in their addresses only.

    block: the shape of their box. transposed: the last two axes change places. one: only the first matrix is read.
    """

    def __init__(self, tensor: torch.Tensor, *block: int, transposed: bool = False, one: bool = False) -> None:
        self.block, self.transposed, self.one = block, transposed, one
        seen = self._seen(tensor)
        self.in_place = Box.of(seen, *block) if fits_tma(seen) else None
        self.copied: Box | None = None

    def around(self, tensor: torch.Tensor) -> TensorDescriptor:
        """The descriptor of such a tensor, or of a copy of it."""
        if self.in_place is not None and tensor.data_ptr() % TMA_BYTES == 0:
            return self.in_place.around(tensor)  # only its address is read
        copy = copy_for_tma(self._seen(tensor))
        if self.copied is None:
            self.copied = Box.of(copy, *self.block)
        return self.copied.around(copy)

    def _seen(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the descriptor has it."""
        tensor = tensor[:1] if self.one else tensor
        return tensor.mT if self.transposed else tensor
