"""Launching the kernel of scaled products in 8-bit floating point on PyTorch tensors."""

from __future__ import annotations

from typing import Any, Literal

import torch

from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import device_of, is_hopper, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import Box, unwritten
from tawa.ops.kernels.products import scaled
from tawa.ops.products.operands import Operand
from tawa.ops.products.tile_choice import SCALED_BLOCKS, SCALED_ELSEWHERE, SCALED_FAST, Tile, fastest

SPAN = 128
"""Elements of K, and rows, that share a scale."""
Kind = Literal[0, 1, 2, 3]
TENSOR, ROW, ROW_BLOCK, BLOCK = 0, 1, 2, 3
"""One scale for the operand, for a row, for 128 elements of a row, for 128 x 128: as in the kernel."""

_SIZES = "M", "N", "K", "a_stride", "a_step", "b_stride", "b_step"
scaled_mm: Any = once_for_all(scaled.scaled_mm, _SIZES, only_if_faster=False)


def kind_of(shape: tuple[int, ...], rows: int, K: int) -> Kind | None:
    """What the scales of an operand (rows, K) are for, by their shape; None if that is none of the four."""
    if all(extent == 1 for extent in shape):
        return TENSOR
    if shape == (rows, 1):
        return ROW
    if shape == (rows, blocks(K, SPAN)):
        return ROW_BLOCK
    if shape == (blocks(rows, SPAN), blocks(K, SPAN)):
        return BLOCK
    return None


def tiles_of(device: torch.device, fast: bool) -> tuple[Tile, ...]:
    """The tiles to choose from."""
    if not is_hopper(device):
        return SCALED_ELSEWHERE
    return SCALED_FAST if fast else SCALED_BLOCKS


class ScaledMM:
    """The launches for tensors that differ in their addresses only.

    a (M, K) and b (K, N) may have any strides; scale_b is as for b (N, K), transposed. fast: sums stay in the tensor
    cores, if the scales allow it. tile: instead of the chosen one.
    """

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
        bias: torch.Tensor | None, out_dtype: torch.dtype, fast: bool, tile: Tile | None = None,
    ) -> None:  # fmt: skip
        check_capability(a)
        (M, K), N = a.shape, b.shape[1]
        self.shape, self.out_dtype = (M, N), out_dtype
        kinds = kind_of(tuple(scale_a.shape), M, K), kind_of(tuple(reversed(scale_b.shape)), N, K)
        assert kinds[0] is not None and kinds[1] is not None
        fast = fast and kinds[0] < ROW_BLOCK and kinds[1] < ROW_BLOCK
        known, device = tiles_of(a.device, fast), device_of(a.device)
        self.tile = tile = tile or fastest(known, M, N, K, a.element_size(), device, scaled=not fast)
        self.grid = (blocks(M, tile.BM) * blocks(N, tile.BN),)
        c_box = Box.of_result(self.shape, out_dtype, tile.BM, tile.BN)
        self.a, self.b = Operand(a, tile.BM, tile.BK), Operand(b, tile.BN, tile.BK, transposed=True)
        strides = (*_strides(scale_a), *_strides(scale_b.t() if scale_b.dim() == 2 else scale_b))
        constants = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": 8,
            "A_SCALE": kinds[0],
            "B_SCALE": kinds[1],
            "BIAS": bias is not None,
            "FAST": fast,
            "C_TMA": c_box is not None,
            **tile.launch(c_box is not None),
        }
        boxes = self.a.box, self.b.box, c_box
        self.launches = Launches(lambda: scaled_mm, boxes, (M, N, K, *strides), constants)
        self.device = a.device.index

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        """C (M, N), contiguous."""
        c = unwritten(a, self.shape, self.out_dtype)
        first = self.a.readable(a), self.b.readable(b), c, scale_a, scale_b, bias
        on_device(self.device, self.launches, self.grid, first, (scale_a, scale_b, bias))
        return c


def _strides(scale: torch.Tensor) -> tuple[int, int]:
    """From the scale of a row (or of 128) to the next, and from a step of K to the next."""
    return (scale.stride(0), scale.stride(1)) if scale.dim() == 2 else (0, 0)


def run_scaled(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None,
    out_dtype: torch.dtype, fast: bool,
) -> torch.Tensor:  # fmt: skip
    """C (M, N) for valid arguments of any size."""
    M, N = a.shape[0], b.shape[1]
    if 0 in (M, N, a.shape[1]):
        c = torch.zeros((M, N), dtype=out_dtype, device=a.device)
        return c if bias is None else c + bias.to(out_dtype)
    return ScaledMM(a, b, scale_a, scale_b, bias, out_dtype, fast)(a, b, scale_a, scale_b, bias)
