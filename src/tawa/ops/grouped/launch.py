"""Launching the kernels of grouped products on PyTorch tensors.

A group begins at any row. TMA reads it there where rows are not innermost in memory: others are copied.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import device_of, is_hopper, multiprocessors, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, Box, unwritten
from tawa.ops.grouped import tiles as tables
from tawa.ops.kernels.grouped import products as kernels
from tawa.ops.products.operands import Operand, has_rows
from tawa.ops.products.tile_choice import Tile

list_tiles: Any = once_for_all(kernels.list_tiles, ("T", "G", "slots"))
grouped_mm: Any = once_for_all(kernels.grouped_mm, ("N", "K", "G"), only_if_faster=False)
grouped_outer: Any = once_for_all(kernels.grouped_outer, ("M", "N", "T", "G"), only_if_faster=False)
GROUP = 8
"""Rows of tiles that are worked off together, column by column."""


def tiles_of(device: torch.device, of_hopper: tuple[Tile, ...]) -> tuple[Tile, ...]:
    """The tiles to choose from."""
    return of_hopper if is_hopper(device) else tables.ELSEWHERE


def above(count: int) -> int:
    """The least power of two above a number."""
    return 1 << count.bit_length()


def slots_for(rows: int, groups: int, BM: int) -> int:
    """How many tiles any division of rows into groups, and rows that are left, can have."""
    return rows // BM + min(groups + 1, rows)


class GroupedMM:
    """The launch for A (T, K) and B (G, K, N) that differ in their addresses only, and for a list of tiles.

    gated: B has 2 N columns. tile: not the chosen one. places: the rows of C where an order says which row of A each
    takes; several of them, `choices`, take the same.
    """

    def __init__(
        self, a: torch.Tensor, b: torch.Tensor, gated: bool = False, tile: Tile | None = None,
        places: int | None = None, choices: int = 1,
    ) -> None:  # fmt: skip
        check_capability(a)
        (T, K), (G, _, N) = a.shape, b.shape
        self.ordered, T = places is not None, T if places is None else places
        N //= 1 + gated
        self.shape = T, N
        sms = multiprocessors(a.device)
        known = tiles_of(a.device, tables.GATED if gated else tables.GROUPED)
        sizes = tables.Sizes(T, G, N * (1 + gated), K, gated)
        self.tile = tile = tile or tables.grouped_tile(known, sizes, device_of(a.device))
        self.slots = slots_for(T, G, tile.BM)
        self.grid = (min(sms * tile.per_sm, self.slots * blocks(N, tile.BN)),)
        b_rows = not gated and has_rows(b)  # the second half of the columns begins anywhere
        self.a = None if self.ordered else Operand(a, tile.BM, tile.BK)
        self.b = Operand(b, 1, *((tile.BK, tile.BN) if b_rows else (tile.BN, tile.BK)), transposed=not b_rows)
        c_box = Box.of_result(self.shape, a.dtype, tile.BM, tile.BN)
        self.boxed = c_box is not None
        constants = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": GROUP,
            "B_K": not b_rows,
            "GATED": gated,
            "CHOICES": choices,
            "ALIGNED": K * a.element_size() % TMA_BYTES == 0,
            **tile.launch(self.boxed),
        }
        boxes = self.a and self.a.box, self.b.box, None, c_box
        self.launches = Launches(lambda: grouped_mm, boxes, (N, K, G), constants, scratch=self.boxed)

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, tiles: torch.Tensor, order: torch.Tensor | None = None
    ) -> torch.Tensor:
        """C (T, N), contiguous. tiles: a list of tiles of `tile.BM` rows; `list_tiles` says what is in it.

        order: of rows of A, which are contiguous then, if the launch is for one.
        """
        c = unwritten(a, self.shape, a.dtype)
        left, boxed = a if self.a is None else self.a.readable(a), c if self.boxed else None
        self.launches(self.grid, (left, self.b.readable(b), c, boxed, tiles, order), (a,) if self.ordered else ())
        return c


class Listing:
    """The launch that lists the tiles of BM rows of `rows` rows in `groups` groups."""

    def __init__(self, rows: int, groups: int, BM: int, slots: int) -> None:
        self.slots = slots
        constants = {"BM": BM, "GROUPS": above(groups), "num_warps": 4}
        self.launches = Launches(lambda: list_tiles, (), (rows, groups, slots), constants)

    def __call__(self, ends: torch.Tensor) -> torch.Tensor:
        """The list. ends (G,) in int32."""
        tiles = list_for(ends, self.slots)
        self.launches((1,), (ends, tiles), (ends,))
        return tiles


def list_for(like: torch.Tensor, slots: int) -> torch.Tensor:
    """An unwritten list for so many tiles."""
    return unwritten(like, (4 + 4 * slots,), torch.int32)


class Rows:
    """Rows in groups, each with a matrix: A (T, K) @ B (G, K, N)."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor, tile: Tile | None = None) -> None:
        self.product = GroupedMM(a, b, tile=tile)
        self.listing = Listing(a.shape[0], b.shape[0], self.product.tile.BM, self.product.slots)

    def __call__(self, a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """C (T, N), contiguous; 0 in rows behind the last group."""
        return self.product(a, b, self.listing(ends))


class Outer:
    """Sums over the rows of each group: A (M, T) @ B (T, N) gives C (G, M, N)."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor, groups: int, tile: Tile | None = None) -> None:
        check_capability(a)
        (M, T), N = a.shape, b.shape[1]
        self.shape = groups, M, N
        known = tiles_of(a.device, tables.OUTER)
        tile = tile or tables.outer_tile(known, M, N, T, groups, device_of(a.device))
        self.tile, self.grid = tile, (groups * blocks(M, tile.BM) * blocks(N, tile.BN),)
        self.a, self.b = Operand(a, tile.BK, tile.BM, transposed=True), Operand(b, tile.BK, tile.BN)
        c_box = Box.of_result(self.shape, a.dtype, 1, tile.BM, tile.BN)
        constants = {
            "BM": tile.BM,
            "BN": tile.BN,
            "BK": tile.BK,
            "GROUP": GROUP,
            "C_TMA": c_box is not None,
            **tile.launch(c_box is not None),
        }
        boxes = self.a.box, self.b.box, c_box
        self.launches = Launches(lambda: grouped_outer, boxes, (M, N, T, groups), constants)

    def __call__(self, a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """C (G, M, N), contiguous; 0 for a group without rows. ends (G,) in int32."""
        c = unwritten(a, self.shape, a.dtype)
        self.launches(self.grid, (self.a.readable(a), self.b.readable(b), c, ends), (ends,))
        return c


class Call:
    """The launches for operands of one shape and layout: two matrices, or one and a matrix for each group."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor, groups: int) -> None:
        self.device, self.transposed, self.outer = a.device.index, a.dim() == 3, a.dim() == b.dim()
        self.run: Rows | Outer
        if self.outer:
            self.run = Outer(a, b, groups)
        else:
            self.run = Rows(b.mT, a.mT) if self.transposed else Rows(a, b)

    def __call__(self, a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """The product; of one transposed, its transpose is contiguous."""
        return on_device(self.device, self._run, a, b, ends)

    def _run(self, a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return self.run(b.mT, a.mT, ends).mT if self.transposed else self.run(a, b, ends)


def shape_of_product(a: torch.Tensor, b: torch.Tensor, groups: int) -> tuple[int, ...]:
    """The shape of a grouped product."""
    if a.dim() == b.dim():
        return groups, a.shape[0], b.shape[1]
    return (a.shape[-2], b.shape[-1])


def empty_product(a: torch.Tensor, b: torch.Tensor, groups: int) -> torch.Tensor:
    """A product of nothing, or without elements: zeros in the layout of the others."""
    if a.dim() == 3:
        return a.new_zeros(shape_of_product(a, b, groups)[::-1]).mT
    return a.new_zeros(shape_of_product(a, b, groups))


def run_grouped(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The product of valid arguments of any size."""
    if 0 in a.shape or 0 in b.shape or not ends.numel():
        return empty_product(a, b, ends.numel())
    return Call(a, b, ends.numel())(a, b, ends)
