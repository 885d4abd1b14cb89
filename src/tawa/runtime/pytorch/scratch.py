"""Scratch memory from PyTorch's allocator, for kernels that make their descriptors on the GPU."""

from __future__ import annotations

from typing import Any


def allocate(size: int, alignment: int, stream: int | None) -> Any:
    """`size` bytes on the current GPU. PyTorch aligns them to 512 bytes and orders reuse by stream."""
    del alignment, stream
    import torch

    return torch.empty(size, dtype=torch.int8, device="cuda")
