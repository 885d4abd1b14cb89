"""The tiles of grouped products, as data, and how one is chosen before anyone knows how many rows a group has."""

from __future__ import annotations

import functools
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from tawa.ops.calls.tables import blocks, plan
from tawa.ops.products.tile_choice import Tile
from tawa.plan.cost.tile_time import DRAM_SHARE, Device, tile_us
from tawa.plan.search.candidate import clearly_fastest

TWO_GROUPS = (("num_consumer_groups", 2),)
"""The rows of a tile are split over two groups of consumers."""
GROUPED = (
    Tile(64, 128, 128, 4, 3),
    Tile(128, 256, 64, 8, 4, options=(plan(groups=2, stores=[{"slices": 4}]),)),
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 256, 64, 4, 4),
)
"""Rows in groups."""
GATED = (
    Tile(64, 128, 64, 4, 4),
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
)
"""With two accumulators."""
OUTER = (
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4),
)
"""Sums over the rows of each group."""
ELSEWHERE = (Tile(64, 64, 64, 4, 2),)
"""On other GPUs, where stock Triton compiles the kernels."""


class Sizes(NamedTuple):
    """Of A (rows, K) and of B (groups, K, N), whose groups take any number of rows. gated: C has N / 2 columns."""

    rows: int
    groups: int
    N: int
    K: int
    gated: bool = False


SIZE = 2
"""Bytes of an element."""


def grouped_us(tile: Tile, sizes: Sizes, device: Device, gathered: bool = False) -> float:
    """Microseconds of a product. gathered: an order says which row of A each row of C takes.

    Rows are taken to choose their groups at random, so that some groups have none, and the last tile of each other is
    half full. DRAM reads a matrix for each group that has rows.
    """
    rows, groups, N, K, gated = sizes
    met = groups * (1 - (1 - 1 / groups) ** rows)
    listed = rows / tile.BM + met / 2 if rows > met * tile.BM else met
    width = N // (1 + gated)
    program = replace(tile.program(K, SIZE), columns=(tile.BN,) * (1 + gated), gathered=gathered)
    made = tile.made(form="persistent")
    moved = SIZE * (met * N * K + rows * (K + width))
    return tile_us(program, ceil(listed * blocks(width, tile.BN)), made, device, moved)


@functools.lru_cache(maxsize=4096)
def grouped_tile(tiles: tuple[Tile, ...], sizes: Sizes, device: Device) -> Tile:
    """The tile that is expected to be the fastest."""
    return clearly_fastest(tiles, lambda tile: grouped_us(tile, sizes, device))


@functools.lru_cache(maxsize=4096)
def outer_tile(tiles: tuple[Tile, ...], M: int, N: int, rows: int, groups: int, device: Device) -> Tile:
    """The tile that is expected to be the fastest for sums (M, N) over so many rows in so many groups."""

    def time(tile: Tile) -> float:
        program = tile.program(rows / groups + tile.BK / 2, SIZE)
        moved = SIZE * (groups * M * N + rows * (M + N))
        return tile_us(program, groups * blocks(M, tile.BM) * blocks(N, tile.BN), tile.made(), device, moved)

    return clearly_fastest(tiles, time)


class Pair(NamedTuple):
    """The tiles of a gated product and of the one behind it, of the same height.

    moved: the rows of A are brought into order before.
    """

    first: Tile
    second: Tile
    moved: bool


@functools.lru_cache(maxsize=4096)
def pair(gated: tuple[Tile, ...], grouped: tuple[Tile, ...], sizes: Sizes, device: Device) -> Pair:
    """The pair that is expected to be the fastest for products from K to N columns, and from N / 2 to K."""
    rows, groups, N, K, _ = sizes
    behind = Sizes(rows, groups, K, N // 2)

    def time(of: Pair) -> float:
        moving = 2 * SIZE * rows * K / (DRAM_SHARE * device.dram) if of.moved else 0.0
        first = grouped_us(of.first, sizes._replace(gated=True), device, not of.moved)
        return moving + first + grouped_us(of.second, behind, device)

    pairs = [Pair(a, b, moved) for moved in (False, True) for a in gated for b in grouped if a.BM == b.BM]
    return clearly_fastest(pairs, time)
