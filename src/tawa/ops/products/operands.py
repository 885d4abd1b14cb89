"""Operands of products as TMA reads them: in place where it can, else as a copy."""

from __future__ import annotations

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tawa.ops.calls.tensors import TMA_BYTES, Box, copy_for_tma, fits_tma


class Operand:
    """Descriptors of tensors that differ in their addresses only. block: the shape of their box."""

    def __init__(self, tensor: torch.Tensor, *block: int) -> None:
        self.block = block
        aligned = tensor.data_ptr() % TMA_BYTES == 0
        self.in_place = Box.of(tensor, *block) if aligned and fits_tma(tensor) else None
        self.copied: Box | None = None

    def around(self, tensor: torch.Tensor) -> TensorDescriptor:
        """The descriptor of such a tensor, or of a copy of it."""
        if self.in_place is not None and tensor.data_ptr() % TMA_BYTES == 0:
            return self.in_place.around(tensor)
        copy = copy_for_tma(tensor)
        if self.copied is None:
            self.copied = Box.of(copy, *self.block)
        return self.copied.around(copy)
