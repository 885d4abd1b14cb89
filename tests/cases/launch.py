"""Launches a case on a GPU, with the scratch memory that some specimens need. Needs torch."""

from __future__ import annotations

import torch

from tawa.demo.launch import DTYPES, bind, launch, make_tensors, outputs, poison

__all__ = ["DTYPES", "allow_device_descriptors", "bind", "launch", "make_tensors", "outputs", "poison"]


def allow_device_descriptors() -> None:
    """Gives Triton the scratch memory that descriptors made in a kernel need."""
    import triton

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
