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
from tawa.ops.kernels.products import matmul as kernels
from tawa.ops.products.matmul_checks import stored_along
from tawa.ops.products.tiles import Tile, choose, group_of, options_of

matmul: Any = once_for_all(kernels.matmul, ("M", "N", "K"), only_if_faster=False)
matmul_split: Any = once_for_all(kernels.matmul_split, ("whole", "M", "N", "K"), only_if_faster=False)
ELSEWHERE = Tile(False, 128, 128, 0, 32, 8, 3)
"""On other GPUs, where stock Triton compiles the kernels."""
GATED_ELSEWHERE = Tile(False, 128, 64, 64, 32, 8, 3)
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

    A (M, K), B (K, N), as `why_not` accepts them; with `gated`, C has N / 2 columns.
    """

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, bias: bool, residual: torch.Tensor | None, activation: str, gated: bool,
        tile: Tile | None = None,
    ) -> None:  # fmt: skip
        check_capability(a)
        self.tile = tile = tile or tile_of(a, b, gated)
        (M, K), N = a.shape, b.shape[1] // 2 if gated else b.shape[1]
        self.shape, self.device = (M, N), a.device.index
        self.swapped = tile.swapped
        left, right = (b.mT, a.mT) if tile.swapped else (a, b)
        left_k, right_k = stored_along(left) == 1, stored_along(right) == 0
        of_left, of_right = _box(left, tile.BM, tile.BK, left_k), _box(right.mT, tile.BN, tile.BK, right_k)
        of_more = _box(right.mT, tile.more, tile.BK, right_k) if tile.more else None
        rows, columns = (N, M) if tile.swapped else (M, N)
        width = tile.BN if tile.split == 1 else min(tile.BN, PART_COLUMNS)
        c = torch.empty_strided((M, N), (N, 1), dtype=a.dtype, device="meta")
        self.two, self.two_of_c = tile.more > 0, tile.more > 0 and not gated
        results = c, residual
        of_c, of_residual = (it if it is None else _of_result(it, tile, width) for it in results)
        across = tile.BN if gated else tile.columns
        count = blocks(rows, tile.BM) * blocks(columns, across)
        whole = tile.whole(count, multiprocessors(a.device)) if tile.split > 1 else 0
        self.shared, self.grid = count - whole, (whole + (count - whole) * tile.split,)
        self.whole = whole > 0
        constants: dict[str, Any] = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": group_of(tile, M, N, K),
            "A_K": left_k,
            "B_K": right_k,
            "C_N": not tile.swapped,
            "ACT": activation,
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        }
        sizes = rows, columns, K
        if tile.split > 1:
            constants.update(SPLIT=tile.split, WIDTH=width, ORDERED=tile.ordered)
            second = results if whole else (None, None)
            c_whole, residual_whole = (it if it is None else _of_result(it, tile, tile.BN) for it in second)
            boxes = of_left, of_right, of_c, c_whole, None, of_residual, residual_whole
            self.launches = Launches(lambda: matmul_split, boxes, (whole, *sizes), constants)
        else:
            constants.update(BW=tile.more, GATED=gated)
            if is_hopper(a.device) and not gated:
                constants.update(options_of(tile, M, N, K, a.element_size(), device_of(a.device)))
            second = results if self.two_of_c else (None, None)
            c_more, residual_more = (it if it is None else _of_result(it, tile, tile.more) for it in second)
            boxes = of_left, of_right, of_more, of_c, c_more, None, of_residual, residual_more
            self.launches = Launches(lambda: matmul, boxes, sizes, constants)

    def _parts(self, like: torch.Tensor) -> torch.Tensor:
        """Memory for the sums of the tiles that are shared."""
        size = self.shared * self.tile.BM * self.tile.BN
        if self.tile.ordered:
            return unwritten(like, (size * self.tile.split,), torch.float32)
        return like.new_zeros(size, dtype=torch.float32)

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """C (M, N). The tensors differ from those of `__init__` in their addresses only, multiples of 16."""
        c = unwritten(a, self.shape, a.dtype)
        on_device(self.device, self._launch, a, b, bias, residual, c)
        return c

    def _launch(
        self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None,
        c: torch.Tensor,
    ) -> None:  # fmt: skip
        left, right = (b, a) if self.swapped else (a, b)
        first: tuple[torch.Tensor | None, ...]
        if self.tile.split > 1:
            whole = (c, residual) if self.whole else (None, None)
            first = left, right, c, whole[0], bias, residual, whole[1], self._parts(a), semaphores(a, self.shared)
        else:
            more = (c, residual) if self.two_of_c else (None, None)
            first = left, right, right if self.two else None, c, more[0], bias, residual, more[1]
        self.launches(self.grid, first, (bias,))


def _box(matrix: torch.Tensor, rows: int, depth: int, along: bool) -> Box:
    """Boxes of a matrix (rows, K), stored along K or not."""
    return Box.of(matrix, rows, depth) if along else Box.of(matrix.mT, depth, rows)


def _of_result(matrix: torch.Tensor, tile: Tile, columns: int) -> Box:
    """Boxes of a matrix with the shape of C, of some columns of a tile."""
    return Box.of(matrix, columns, tile.BM) if tile.swapped else Box.of(matrix, tile.BM, columns)


def fits(*tensors: torch.Tensor | None) -> bool:
    """Whether addresses are multiples of 16."""
    return not any(it.data_ptr() % TMA_BYTES for it in tensors if it is not None)


def known_product(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, activation: str,
    gated: bool,
) -> Product:  # fmt: skip
    """The launch for such matrices, which `why_not` accepts."""
    key = (
        a.shape, a.stride(), b.shape, b.stride(), a.dtype, a.device, bias is None,
        None if residual is None else residual.stride(), activation, gated,
    )  # fmt: skip
    return _products.get(key) or _products.keep(key, Product(a, b, bias is not None, residual, activation, gated))


_products: KnownCalls[Product] = KnownCalls()
