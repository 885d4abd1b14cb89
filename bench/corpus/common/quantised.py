"""Weights and activations of few bits, and what they stand for."""

from __future__ import annotations

from typing import Any

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


def packed_columns(codes: Any, order: tuple[int, ...] = tuple(range(8))) -> Any:
    """4-bit codes (K, N), eight neighbours of a row in each int32: (K, N / 8).

    order: the place in the word, counted in 4 bits, of each of the eight.
    """
    return _packed(codes.reshape(codes.shape[0], -1, 8).unbind(-1), order)


def packed_rows(codes: Any) -> Any:
    """4-bit codes (K, N), eight neighbours of a column in each int32: (K / 8, N)."""
    return _packed(codes.reshape(-1, 8, codes.shape[1]).unbind(1), tuple(range(8)))


def _packed(parts: Any, order: tuple[int, ...]) -> Any:
    import torch

    word = torch.zeros_like(parts[0], dtype=torch.int64)
    for part, place in zip(parts, order, strict=True):
        word |= part.long() << (4 * place)
    return torch.where(word >= 2**31, word - 2**32, word).to(torch.int32)


def fp8(*shape: int, device: str) -> Any:
    """Normal numbers in e4m3."""
    import torch

    return torch.randn(*shape, device=device).to(torch.float8_e4m3fn)


def int8(*shape: int, device: str) -> Any:
    """Uniform numbers from -64 to 63."""
    import torch

    return torch.randint(-64, 64, shape, dtype=torch.int8, device=device)


def scales(*shape: int, device: str) -> Any:
    """Positive scales around 0.01."""
    import torch

    return 0.005 + 0.01 * torch.rand(*shape, device=device)
