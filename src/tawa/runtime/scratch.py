"""Scratch memory for kernels that make their descriptors themselves, from PyTorch's allocator."""

from __future__ import annotations

from typing import Any


def allocate(size: int, alignment: int, stream: int | None) -> Any:
    """`size` bytes on the current GPU; PyTorch aligns to 512 bytes and orders its memory by stream."""
    del alignment, stream
    import torch

    return torch.empty(size, dtype=torch.int8, device="cuda")
