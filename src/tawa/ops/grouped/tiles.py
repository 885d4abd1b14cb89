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
    Tile(64, 128, 64, 4, 4, 0.67),
    Tile(128, 128, 64, 8, 4, 0.84, options=TWO_GROUPS),
    Tile(64, 256, 64, 4, 4, 0.85),
)
"""Rows in groups: stores of tiles that are not full need shared memory for a whole tile, so 128 x 256 has few slots."""
GATED = (
    Tile(64, 128, 64, 4, 4, 0.89),
    Tile(128, 128, 64, 8, 4, 1.02, options=TWO_GROUPS),
)
"""With two accumulators."""
BY_INDEX = 0.91
"""Of the rate, if threads copy the rows of A one by one, because an order says which they are."""
PADDED = (Tile(128, 256, 64, 8, 4, 1.08, options=(plan(groups=2, stores=[{"slices": 4}]),)),)
"""Rows in groups that begin at multiples of a tile, behind a gated product of tiles as high: all tiles are full."""
OUTER = (
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4, 0.75),
)
"""Sums over the rows of each group."""
ELSEWHERE = (Tile(64, 64, 64, 4, 2),)
"""On other GPUs, where stock Triton compiles the kernels."""


READ = 16.5e6
"""Bytes that DRAM moves in the time of a unit: 2.75 TB/s, beside 5.6 TFLOP/s of an SM at rate 1."""
START = 0.05
"""Of a tile: loads of persistent programs run ahead into the next one."""


def time_of(
    tile: Tile, rows: int, groups: int, N: int, K: int, multiprocessors: int, width: int = 0, padded: bool = False
) -> float:
    """How long a product of so many rows in so many groups takes, in units of `UNIT` at rate 1; width: columns of C.

    Rows are taken to choose their groups at random, so that some groups have none, and the last tile of each other is
    half full. No tile is faster than DRAM, which reads a matrix for each group that has rows, and takes what is stored.
    """
    met = groups * (1 - (1 - 1 / groups) ** rows)
    listed = rows / tile.BM + met / 2 if rows > met * tile.BM else met
    moved = 2 * (met * N * K + (listed * tile.BM if padded else rows) * (width or N))
    waves = ceil(listed * ceil(N / tile.BN) / (multiprocessors * tile.per_sm))
    return max(moved / READ, waves * (tile.BM * tile.BN * K * tile.per_sm / tile.rate / UNIT + START))


def grouped_tile(tiles: Sequence[Tile], rows: int, groups: int, N: int, K: int, multiprocessors: int) -> Tile:
    """The tile that is expected to be the fastest for so many rows in so many groups; the first of equals."""
    return min(tiles, key=lambda tile: time_of(tile, rows, groups, N, K, multiprocessors))


def outer_tile(tiles: Sequence[Tile], M: int, N: int, rows: int, groups: int, multiprocessors: int) -> Tile:
    """The tile that is expected to be the fastest for sums (M, N) over so many rows in so many groups."""

    def time_of(tile: Tile) -> float:
        programs = groups * -(-M // tile.BM) * -(-N // tile.BN)
        return time_of_waves(tile, programs, rows / groups + tile.BK / 2, multiprocessors)

    return min(tiles, key=time_of)


class Pair(NamedTuple):
    """The tiles of a gated product and of the one behind it, of the same height.

    padded: groups begin at multiples of it. moved: the rows of A are brought into order before.
    """

    first: Tile
    second: Tile
    padded: bool
    moved: bool


def pair(
    gated: Sequence[Tile], grouped: Sequence[Tile], rows: int, groups: int, N: int, K: int, multiprocessors: int
) -> Pair:
    """The pair that is expected to be the fastest for products from K to N columns, and from N / 2 to K."""

    def time(of: Pair) -> float:
        first = of.first if of.moved else replace(of.first, rate=of.first.rate * BY_INDEX)
        sizes, moving = (multiprocessors, N // 2, of.padded), 4 * rows * K / READ if of.moved else 0.0
        second = time_of(of.second, rows, groups, K, N // 2, multiprocessors, K, of.padded)
        return moving + time_of(first, rows, groups, N, K, *sizes) + second

    seconds = (*PADDED, *grouped) if gated is GATED else grouped
    known = [Pair(a, b, b in PADDED, moved) for moved in (False, True) for a in gated for b in seconds if a.BM == b.BM]
    return min(known, key=time)
