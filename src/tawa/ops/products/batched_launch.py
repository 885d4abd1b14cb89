"""Launching the kernel of batched products on PyTorch tensors."""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import device_of, is_hopper, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import Box, unwritten
from tawa.ops.kernels.products import batched
from tawa.ops.products.operands import Operand, has_rows
from tawa.ops.products.tile_choice import (
    BATCHED,
    BATCHED_ELSEWHERE,
    BATCHED_TF32,
    BATCHED_TF32_ELSEWHERE,
    Tile,
    fastest,
)

batched_mm: Any = once_for_all(batched.batched_mm, ("M", "N", "K"), only_if_faster=False)


def tiles_of(device: torch.device, dtype: torch.dtype) -> tuple[Tile, ...]:
    """The tiles to choose from."""
    if dtype == torch.float32:
        return BATCHED_TF32 if is_hopper(device) else BATCHED_TF32_ELSEWHERE
    return BATCHED if is_hopper(device) else BATCHED_ELSEWHERE


class BatchedMM:
    """The launches for tensors (B, M, K) and (B, K, N) that differ in their addresses only. tile: not the chosen one.

    wgmma reads 32-bit operands only with K innermost: others are copied.
    """

    def __init__(self, a: torch.Tensor, b: torch.Tensor, tile: Tile | None = None) -> None:
        check_capability(a)
        (batches, M, K), N = a.shape, b.shape[2]
        self.shape = batches, M, N
        self.one = (batches > 1 and a.stride(0) == 0, batches > 1 and b.stride(0) == 0)
        wide = a.dtype == torch.float32
        rows = (
            (True, False)
            if wide
            else tuple(has_rows(x[:1] if one else x) for x, one in zip((a, b), self.one, strict=True))
        )
        known, device = tiles_of(a.device, a.dtype), device_of(a.device)
        self.tile = tile = tile or fastest(known, M, N, K, a.element_size(), device, batches)
        self.grid = (batches * blocks(M, tile.BM) * blocks(N, tile.BN),)
        c_box = Box.of_result(self.shape, a.dtype, 1, tile.BM, tile.BN)
        of_a, of_b = (tile.BM, tile.BK), (tile.BK, tile.BN)
        self.a = Operand(a, 1, *(of_a if rows[0] else of_a[::-1]), transposed=not rows[0], one=self.one[0])
        self.b = Operand(b, 1, *(of_b if rows[1] else of_b[::-1]), transposed=not rows[1], one=self.one[1])
        constants = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": 8,
            "A_K": rows[0],
            "B_K": not rows[1],
            "A_ONE": self.one[0],
            "B_ONE": self.one[1],
            "C_TMA": c_box is not None,
            **tile.launch(c_box is not None),
        }
        self.launches = Launches(lambda: batched_mm, (self.a.box, self.b.box, c_box), (M, N, K), constants)
        self.device = a.device.index

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """C (B, M, N), contiguous."""
        c = unwritten(a, self.shape, a.dtype)
        on_device(self.device, self.launches, self.grid, (self.a.readable(a), self.b.readable(b), c))
        return c


def run_batched(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C (B, M, N) for valid arguments of any size."""
    if 0 in a.shape or 0 in b.shape:
        return torch.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=a.dtype, device=a.device)
    return BatchedMM(a, b)(a, b)
