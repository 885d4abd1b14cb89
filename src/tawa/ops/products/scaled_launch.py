"""Launching the kernel of scaled products in 8-bit floating point on PyTorch tensors."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch

from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import device_of, is_hopper, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, Box, copy_for_tma, fits_tma, unwritten
from tawa.ops.kernels.products import scaled
from tawa.ops.products import tiles
from tawa.ops.products.matmul_launch import Product
from tawa.ops.products.operands import Operand
from tawa.ops.products.tile_choice import (
    SCALED_BLOCKS,
    SCALED_COLUMNS,
    SCALED_ELSEWHERE,
    Tile,
    fastest,
)

SPAN = 128
"""Elements of K, and rows, that share a scale."""
Kind = Literal[0, 1, 2, 3]
LARGE_ROWS = 128
"""Tiles with so many rows are worth a copy of scales."""
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


def tiles_of(device: torch.device, of_b: Kind) -> tuple[Tile, ...]:
    """The tiles to choose from, for sums in float32. of_b: the kind of the scales of B."""
    if not is_hopper(device):
        return SCALED_ELSEWHERE
    return SCALED_COLUMNS if of_b == ROW_BLOCK else SCALED_BLOCKS


class Scaled(Protocol):
    """The launches for tensors that differ in their addresses only.

    a (M, K) and b (K, N) may have any strides; scale_b is as for b (N, K), transposed.
    """

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        """C (M, N), contiguous."""
        ...


def scaled_product(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None,
    out_dtype: torch.dtype, fast: bool,
) -> Scaled:  # fmt: skip
    """The launches for such tensors. fast: sums may stay in the tensor cores, which scales and sizes must allow."""
    (M, K), N = a.shape, b.shape[1]
    kinds = kind_of(tuple(scale_a.shape), M, K), kind_of(tuple(reversed(scale_b.shape)), N, K)
    assert kinds[0] is not None and kinds[1] is not None
    if fast and max(kinds[0], kinds[1]) < ROW_BLOCK and N * out_dtype.itemsize % TMA_BYTES == 0:
        return FastScaled(a, b, scale_a, scale_b, out_dtype)
    return ScaledMM(a, b, scale_a, scale_b, bias, out_dtype)


class FastScaled:
    """Products whose sums stay in the tensor cores and are scaled at the end: those of `tawa.ops.matmul`, in 8 bits.

    tile: instead of the chosen one.
    """

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, out_dtype: torch.dtype,
        tile: tiles.Tile | None = None,
    ) -> None:  # fmt: skip
        steps = _step(scale_a), _step(scale_b)
        self.product = Product(_read(a), _read(b.mT).mT, None, "none", False, tile, dtype=out_dtype, steps=steps)

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        """C (M, N), contiguous."""
        scales = scale_a.contiguous(), scale_b.contiguous()
        if bias is not None:
            bias = bias.contiguous()
        return self.product(_read(a), _read(b.mT).mT, bias, scales=scales)


def _read(rows: torch.Tensor) -> torch.Tensor:
    """An operand (rows, K), or a copy of it, as TMA and wgmma read 8 bits: K is innermost."""
    return rows if fits_tma(rows) else copy_for_tma(rows)


def _step(scale: torch.Tensor) -> int:
    """From the scale of a row to the next, in contiguous ones; 0 for one number."""
    return int(scale.numel() > 1)


class ScaledMM:
    """Products whose dots of 128 elements of K are scaled, and added in float32. tile: instead of the chosen one."""

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
        bias: torch.Tensor | None, out_dtype: torch.dtype, tile: Tile | None = None,
    ) -> None:  # fmt: skip
        check_capability(a)
        (M, K), N = a.shape, b.shape[1]
        self.shape, self.out_dtype = (M, N), out_dtype
        kinds = kind_of(tuple(scale_a.shape), M, K), kind_of(tuple(reversed(scale_b.shape)), N, K)
        assert kinds[0] is not None and kinds[1] is not None
        known, device = tiles_of(a.device, kinds[1]), device_of(a.device)
        self.tile = tile = tile or fastest(known, M, N, K, a.element_size(), device, scaled=True)
        self.grid = (blocks(M, tile.BM) * blocks(N, tile.BN),)
        c_box = Box.of_result(self.shape, out_dtype, tile.BM, tile.BN)
        self.a, self.b = Operand(a, tile.BM, tile.BK), Operand(b, tile.BN, tile.BK, transposed=True)
        self.scales = _Scales(scale_a, kinds[0], tile), _Scales(scale_b, kinds[1], tile, of_b=True)
        strides = (*self.scales[0].strides, *self.scales[1].strides)
        constants = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": 8,
            "A_SCALE": kinds[0],
            "B_SCALE": kinds[1],
            "A_UNIT": self.scales[0].unit,
            "B_UNIT": self.scales[1].unit,
            "BIAS": bias is not None,
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
        scale_a, scale_b = self.scales[0](scale_a), self.scales[1](scale_b)
        c = unwritten(a, self.shape, self.out_dtype)
        first = self.a.readable(a), self.b.readable(b), c, scale_a, scale_b, bias
        on_device(self.device, self.launches, self.grid, first, (scale_a, scale_b, bias))
        return c


class _Scales:
    """The scales of an operand as the kernel reads them. of_b: they are (steps of K, rows), not (rows, steps).

    By TMA with the tiles that they belong to, if the scales of neighbouring rows are neighbours in memory; else by the
    threads that multiply. Those wait for them, which costs a large tile more than a copy in the other order.

    unit: whether rows are neighbours. strides: from the scale of a row (or of 128) to the next, and from a step of K to
    the next.
    """

    def __init__(self, scale: torch.Tensor, kind: int, tile: Tile, of_b: bool = False) -> None:
        self.of_b = of_b
        steps, rows = (0, 0) if kind == TENSOR else self._by_steps(scale).stride()
        fits = kind == ROW_BLOCK and fits_tma(self._by_steps(scale))
        self.copied = kind == ROW_BLOCK and not fits and tile.BM >= LARGE_ROWS
        if self.copied:
            rows, steps = 1, copy_for_tma(self._by_steps(scale)).stride(0)
        self.unit, self.strides = fits or self.copied, (rows, steps)

    def __call__(self, scale: torch.Tensor) -> torch.Tensor:
        """The scales, or a copy of them."""
        return copy_for_tma(self._by_steps(scale)) if self.copied else scale

    def _by_steps(self, scale: torch.Tensor) -> torch.Tensor:
        """As (steps of K, rows)."""
        return scale if self.of_b else scale.t()


def run_scaled(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None,
    out_dtype: torch.dtype, fast: bool,
) -> torch.Tensor:  # fmt: skip
    """C (M, N) for valid arguments of any size."""
    M, N = a.shape[0], b.shape[1]
    if 0 in (M, N, a.shape[1]):
        c = torch.zeros((M, N), dtype=out_dtype, device=a.device)
        return c if bias is None else c + bias.to(out_dtype)
    return scaled_product(a, b, scale_a, scale_b, bias, out_dtype, fast)(a, b, scale_a, scale_b, bias)
