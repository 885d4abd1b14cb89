"""Launching the kernels of products with weights in few bits on PyTorch tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import is_hopper, multiprocessors, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.semaphores import semaphores
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import Box, unwritten
from tawa.ops.kernels.products import weight_only as own
from tawa.ops.kernels.products import weight_only_foreign as foreign
from tawa.ops.products.operands import Operand
from tawa.ops.products.tile_choice import WEIGHTS, WEIGHTS_ELSEWHERE, Tile, splits_for, weights_tile
from tawa.ops.products.weight_only_packing import BITS, FOREIGN, PLANE, WORDS, block_of

KINDS = {"int4": own.INT4.value, "int8": own.INT8.value, "fp8_e4m3": own.E4M3.value, "fp8_e5m2": own.E5M2.value}
ZERO = {"int4": 8, "int8": 128}
"""The zero of weights without zeros of their own; 8 for GPTQ and AWQ."""
LARGEST_SPAN = 2**30

weight_only: Any = once_for_all(own.weight_only, ("M", "N", "K"), only_if_faster=False)
weight_only_foreign: Any = once_for_all(foreign.weight_only_foreign, ("M", "N", "K"), only_if_faster=False)


def foreign_block(span: int) -> int:
    """Elements of K that the kernel for GPTQ and AWQ takes at a time: up to 64, all of one group; span: of a group."""
    return min(PLANE, span & -span)


class WeightOnly:
    """The launches for tensors that differ in their addresses only.

    x (M, K); `weight_only_mm` describes the others. group_size: 0 if all of K shares a scale. tile, splits: instead of
    the chosen ones.
    """

    def __init__(
        self, x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None,
        bias: torch.Tensor | None, group_size: int, format: str, tile: Tile | None = None, splits: int = 0,
    ) -> None:  # fmt: skip
        check_capability(x)
        (M, K), N = x.shape, scales.shape[1]
        self.shape = M, N
        sms = multiprocessors(x.device)
        self.tile = tile = tile or weights_tile(WEIGHTS if is_hopper(x.device) else WEIGHTS_ELSEWHERE, M)
        if format in FOREIGN:  # what unpacks AWQ's words mixes rows, which cannot be split over groups of consumers
            tile = self.tile = replace(tile, options=())
        span = group_size if 0 < group_size < K else LARGEST_SPAN
        constants: dict[str, Any] = {
            "BN": tile.BN,
            "BM": tile.BM,
            "SPAN": span,
            "ZEROS": zeros is not None,
            "ZERO": ZERO.get(format, 8 if format in FOREIGN else 0),
            "BIAS": bias is not None,
            **tile.launch(),
        }
        if format in BITS:
            block = block_of(format)
            self.w = Operand(qweight, tile.BN, WORDS)
            constants["KIND"] = KINDS[format]
        else:
            block, awq = foreign_block(span), format == "awq"
            self.w = Operand(qweight, block, tile.BN // 8) if awq else Operand(qweight, block // 8, tile.BN)
            constants |= {"BK": block, "AWQ": awq, "ADD": int(format == "gptq")}
        self.kernel = "weight_only" if format in BITS else "weight_only_foreign"
        self.x = Operand(x, tile.BM, block)
        y_box = Box.of_result(self.shape, x.dtype, tile.BM, tile.BN)
        tiles = blocks(N, tile.BN) * blocks(M, tile.BM)
        self.splits = splits or splits_for(tile, M, N, blocks(K, block), sms)
        constants |= {"SPLIT": self.splits, "Y_TMA": y_box is not None}
        self.grid, self.tiles = (tiles * self.splits,), tiles
        self.parts = (tiles * self.splits * tile.BN * tile.BM,) if self.splits > 1 else None
        boxes = self.w.box, self.x.box, y_box
        self.launches = Launches(lambda: globals()[self.kernel], boxes, (M, N, K), constants)
        self.device = x.device.index

    def __call__(
        self, x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        """Y (M, N), contiguous."""
        return on_device(self.device, self._launch, x, qweight, scales, zeros, bias)

    def _launch(
        self, x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        y = unwritten(x, self.shape, x.dtype)
        parts = counted = None
        if self.parts is not None:
            parts, counted = unwritten(x, self.parts, torch.float32), semaphores(x, self.tiles)
        first = self.w.readable(qweight), self.x.readable(x), y, scales, zeros, bias, parts, counted
        self.launches(self.grid, first, (scales, zeros, bias))
        return y


def run_weight_only(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None,
    bias: torch.Tensor | None, group_size: int, format: str,
) -> torch.Tensor:  # fmt: skip
    """Y (..., N) for valid arguments of any size; x (..., K)."""
    rows, N = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), scales.shape[1]
    if 0 in (*rows.shape, N):
        y = torch.zeros((rows.shape[0], N), dtype=x.dtype, device=x.device)
        y = y if bias is None else y + bias.to(x.dtype)
    else:
        scales, zeros = scales.contiguous(), zeros if zeros is None else zeros.contiguous()
        y = WeightOnly(rows, qweight, scales, zeros, bias, group_size, format)(rows, qweight, scales, zeros, bias)
    return y.reshape(*x.shape[:-1], N)
