"""Launching the kernels of matrix products on PyTorch tensors."""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import device_of, is_hopper, multiprocessors, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.plain import KnownCalls
from tawa.ops.calls.semaphores import semaphores
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, Box, unwritten
from tawa.ops.kernels.products import epilogue
from tawa.ops.kernels.products import matmul as kernels
from tawa.ops.products.matmul_checks import stored_along
from tawa.ops.products.tiles import Tile, choose, group_of, options_of

matmul: Any = once_for_all(kernels.matmul, ("M", "N", "K"), only_if_faster=False)
gradients_kernel: Any = epilogue.gated_gradients
matmul_split: Any = once_for_all(kernels.matmul_split, ("whole", "M", "N", "K"), only_if_faster=False)
ELSEWHERE = Tile(False, 128, 128, 0, 32, 8, 3)
"""On other GPUs, where stock Triton compiles the kernels."""
GATED_ELSEWHERE = Tile(False, 128, 64, 64, 32, 8, 3)
GATED_BLOCK = 4, 512
"""Rows and columns of a program of `gated_gradients`: 16 bytes a thread and load in 16 bits."""
PART_COLUMNS = 32
"""Columns of a tile that are added up at a time."""


def tile_of(a: torch.Tensor, b: torch.Tensor, gated: bool) -> Tile:
    """The tile of A (M, K) @ B (K, N)."""
    (M, K), N = a.shape, b.shape[1]
    if not is_hopper(a.device):
        return GATED_ELSEWHERE if gated else ELSEWHERE
    return choose(M, N // 2 if gated else N, K, a.element_size(), device_of(a.device), gated)


class Product:
    """The launch for matrices of one shape and layout, on one device and with the same options.

    A (M, K), B (K, N), as `why_not` accepts them; with `gated`, C has N / 2 columns. kept: whether a call also stores
    the sums (M, N) that go into the activation. dtype: of C, if not that of A. steps: products are multiplied by
    numbers of the rows of A and of the columns of B, so far apart; 0 for one number.
    """

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, residual: torch.Tensor | None, activation: str, gated: bool,
        tile: Tile | None = None, kept: bool = False, dtype: torch.dtype | None = None,
        steps: tuple[int, int] = (0, 0),
    ) -> None:  # fmt: skip
        check_capability(a)
        self.tile = tile = tile or tile_of(a, b, gated)
        (M, K), N = a.shape, b.shape[1] // 2 if gated else b.shape[1]
        self.shape, self.dtype, self.device = (M, N), dtype or a.dtype, a.device.index
        self.swapped, self.gated = tile.swapped, gated
        left, right = (b.mT, a.mT) if tile.swapped else (a, b)
        left_k, right_k = stored_along(left) == 1, stored_along(right) == 0
        of_factors = _box(left, tile.BM, tile.BK, left_k), _box(right.mT, tile.BN, tile.BK, right_k)
        of_more = _box(right.mT, tile.more, tile.BK, right_k) if tile.more else None
        rows, columns = (N, M) if tile.swapped else (M, N)
        width = tile.BN if tile.split == 1 else min(tile.BN, PART_COLUMNS)
        across = tile.BN if gated else tile.columns
        count = blocks(rows, tile.BM) * blocks(columns, across)
        whole = tile.whole(count, multiprocessors(a.device)) if tile.split > 1 else 0
        self.shared, self.grid = count - whole, (whole + (count - whole) * tile.split,)
        sums = torch.empty((M, b.shape[1]), dtype=a.dtype, device="meta")
        c = torch.empty((M, N), dtype=self.dtype, device="meta")
        more = tile.BN if whole else tile.more
        self.c = _boxes(c, tile, width, 0 if gated else more)
        self.residual = None if residual is None else _boxes(residual, tile, width, 0 if gated else more)
        self.kept = _boxes(sums[:, :N], tile, width, more) if kept else None
        written = *self.c, None, None, None, *(self.residual or (None, None)), *(self.kept or (None, None))
        constants: dict[str, Any] = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": group_of(tile, M, N, K),
            "A_K": left_k,
            "B_K": right_k,
            "C_N": not tile.swapped,
            "ACT": activation,
            "ROW_STEP": steps[tile.swapped],
            "COLUMN_STEP": steps[not tile.swapped],
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        }
        sizes = rows, columns, K
        if tile.split > 1:
            constants.update(SPLIT=tile.split, WIDTH=width, ORDERED=tile.ordered)
            self.launches = Launches(lambda: matmul_split, (*of_factors, *written), (whole, *sizes), constants)
        else:
            constants.update(BW=tile.more, GATED=gated)
            if is_hopper(a.device):
                constants.update(options_of(tile, M, N, K, a.element_size(), device_of(a.device), kept))
            self.launches = Launches(lambda: matmul, (*of_factors, of_more, *written), sizes, constants)

    def _parts(self, like: torch.Tensor) -> torch.Tensor:
        """Memory for the sums of the tiles that are shared."""
        size = self.shared * self.tile.BM * self.tile.BN
        if self.tile.ordered:
            return unwritten(like, (size * self.tile.split,), torch.float32)
        return like.new_zeros(size, dtype=torch.float32)

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, residual: torch.Tensor | None = None,
        sums: torch.Tensor | None = None, scales: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """C (M, N). The tensors differ from those of `__init__` in their addresses only, multiples of 16.

        sums: contiguous; is filled, if they are kept. scales: of the rows of A and of the columns of B, in float32.
        """
        c = unwritten(a, self.shape, self.dtype)
        on_device(self.device, self._launch, a, b, bias, residual, sums, scales, c)
        return c

    def _launch(
        self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None,
        sums: torch.Tensor | None, scales: tuple[torch.Tensor, torch.Tensor] | None, c: torch.Tensor,
    ) -> None:  # fmt: skip
        numbers = (None, None) if scales is None else scales[::-1] if self.swapped else scales
        left, right = (b, a) if self.swapped else (a, b)
        factors: tuple[torch.Tensor | None, ...] = left, right
        parts: tuple[torch.Tensor, ...] = ()
        if self.tile.split > 1:
            parts = self._parts(a), semaphores(a, self.shared)
        else:
            factors = *factors, right if self.tile.more else None
        halves = (sums, sums) if sums is None or not self.gated else sums.chunk(2, 1)
        first = *factors, *_both(self.c, c, c), *numbers, bias, *_both(self.residual, residual, residual)
        self.launches(self.grid, (*first, *_both(self.kept, *halves), *parts), (bias, *numbers))


Boxes = tuple[Box, Box | None]
"""Of a matrix with the shape of C: for tiles, and for their second accumulators or those tiles that are not shared."""


def _boxes(matrix: torch.Tensor, tile: Tile, columns: int, more: int) -> Boxes:
    made = (
        Box.of(matrix, width, tile.BM) if tile.swapped else Box.of(matrix, tile.BM, width)
        for width in (columns, more or columns)
    )
    first, second = made
    return first, second if more else None


def _both(
    boxes: Boxes | None, tensor: torch.Tensor | None, second: torch.Tensor | None
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The tensors for a pair of boxes; None in place of a box that is not there."""
    return (None, None) if boxes is None else (tensor, second if boxes[1] else None)


def _box(matrix: torch.Tensor, rows: int, depth: int, along: bool) -> Box:
    """Boxes of a matrix (rows, K), stored along K or not."""
    return Box.of(matrix, rows, depth) if along else Box.of(matrix.mT, depth, rows)


def fits(*tensors: torch.Tensor | None) -> bool:
    """Whether addresses are multiples of 16."""
    return not any(it.data_ptr() % TMA_BYTES for it in tensors if it is not None)


def known_product(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool, kept: bool = False,
) -> Product:  # fmt: skip
    """The launch for such matrices, which `why_not` accepts."""
    key = (
        a.shape, a.stride(), b.shape, b.stride(), a.dtype, a.device, bias is None,
        None if residual is None else residual.stride(), activation, gated, kept,
    )  # fmt: skip
    return _products.get(key) or _products.keep(key, Product(a, b, residual, activation, gated, kept=kept))


def gated_gradients(gradient: torch.Tensor, sums: torch.Tensor, activation: str) -> torch.Tensor:
    """What the sums (rows, 2 N) of a gated product get from the gradient (rows, N) of its result. Contiguous."""
    rows, N = gradient.shape
    made = unwritten(sums, (rows, 2 * N), sums.dtype)
    grid = blocks(N, GATED_BLOCK[1]), blocks(rows, GATED_BLOCK[0])
    on_device(sums.device.index, _launch_gradients, grid, (gradient, sums, made, rows, N), activation)
    return made


def _launch_gradients(grid: tuple[int, int], arguments: tuple[Any, ...], activation: str) -> None:
    BM, BN = GATED_BLOCK
    gradients_kernel[grid](*arguments, BM=BM, BN=BN, ACT=activation, num_warps=4)


_products: KnownCalls[Product] = KnownCalls()
