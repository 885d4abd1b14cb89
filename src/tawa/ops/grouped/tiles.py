"""The tiles of grouped products, as data, and how one is chosen before anyone knows how many rows a group has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from tawa.ops.products.tile_choice import UNIT, Tile, plan, time_of_waves

TWO_GROUPS = (("num_consumer_groups", 2),)
"""The rows of a tile are split over two groups of consumers."""
GROUPED = (
    Tile(64, 128, 128, 4, 3, 0.7),
    Tile(128, 128, 64, 8, 4, 0.84, options=TWO_GROUPS),
    Tile(64, 256, 64, 4, 4, 0.85),
    Tile(128, 256, 64, 8, 4, 1.08, options=(plan(groups=2, stores=[{"slices": 4}]),)),
)
"""Rows in groups."""
GATED = (
    Tile(64, 128, 64, 4, 4, 0.89),
    Tile(128, 128, 64, 8, 4, 1.02, options=TWO_GROUPS),
)
"""With two accumulators."""
BY_INDEX = 0.91
"""Of the rate, if threads copy the rows of A one by one, because an order says which they are."""
OUTER = (
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4, 0.75),
)
"""Sums over the rows of each group."""
ELSEWHERE = (Tile(64, 64, 64, 4, 2),)
"""On other GPUs, where stock Triton compiles the kernels."""


READ = 0.82
"""Of what DRAM could move."""
TIME = 6.0
"""Microseconds of a unit: 5.6 TFLOP/s of an SM at rate 1."""
START = 0.05
"""Of a tile: loads of persistent programs run ahead into the next one."""


class Gpu(NamedTuple):
    """Multiprocessors, and bytes that DRAM could move in a microsecond."""

    multiprocessors: int
    dram: float


class Sizes(NamedTuple):
    """Of A (rows, K) and of B (groups, K, N), whose groups take any number of rows."""

    rows: int
    groups: int
    N: int
    K: int


def time_of(tile: Tile, sizes: Sizes, gpu: Gpu, width: int) -> float:
    """How long a product takes, in units of `UNIT` at rate 1. width: columns of C.

    Rows are taken to choose their groups at random, so that some groups have none, and the last tile of each other is
    half full. No tile is faster than DRAM, which reads a matrix for each group that has rows, and takes what is stored.
    """
    rows, groups, N, K = sizes
    met = groups * (1 - (1 - 1 / groups) ** rows)
    listed = rows / tile.BM + met / 2 if rows > met * tile.BM else met
    waves = ceil(listed * ceil(N / tile.BN) / (gpu.multiprocessors * tile.per_sm))
    computing = waves * (tile.BM * tile.BN * K * tile.per_sm / tile.rate / UNIT + START)
    return max(2 * (met * N * K + rows * width) / (READ * TIME * gpu.dram), computing)


def grouped_tile(tiles: Sequence[Tile], sizes: Sizes, gpu: Gpu) -> Tile:
    """The tile that is expected to be the fastest; the first of equals."""
    return min(tiles, key=lambda tile: time_of(tile, sizes, gpu, sizes.N))


def outer_tile(tiles: Sequence[Tile], M: int, N: int, rows: int, groups: int, multiprocessors: int) -> Tile:
    """The tile that is expected to be the fastest for sums (M, N) over so many rows in so many groups."""

    def time_of(tile: Tile) -> float:
        programs = groups * -(-M // tile.BM) * -(-N // tile.BN)
        return time_of_waves(tile, programs, rows / groups + tile.BK / 2, multiprocessors)

    return min(tiles, key=time_of)


class Pair(NamedTuple):
    """The tiles of a gated product and of the one behind it, of the same height.

    moved: the rows of A are brought into order before.
    """

    first: Tile
    second: Tile
    moved: bool


def pair(gated: Sequence[Tile], grouped: Sequence[Tile], sizes: Sizes, gpu: Gpu) -> Pair:
    """The pair that is expected to be the fastest for products from K to N columns, and from N / 2 to K."""
    rows, groups, N, K = sizes
    behind = Sizes(rows, groups, K, N // 2)

    def time(of: Pair) -> float:
        first = of.first if of.moved else replace(of.first, rate=of.first.rate * BY_INDEX)
        moving = 4 * rows * K / (READ * TIME * gpu.dram) if of.moved else 0.0
        return moving + time_of(first, sizes, gpu, N // 2) + time_of(of.second, behind, gpu, K)

    return min((Pair(a, b, moved) for moved in (False, True) for a in gated for b in grouped if a.BM == b.BM), key=time)
