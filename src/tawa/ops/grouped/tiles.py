"""The tiles of grouped products, as data, and how one is chosen before anyone knows how many rows a group has."""

from __future__ import annotations

from collections.abc import Sequence

from tawa.ops.products.tile_choice import START, UNIT, Tile

TWO_GROUPS = (("num_consumer_groups", 2),)
"""The rows of a tile are split over two groups of consumers."""
GROUPED = (
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4, 0.75),
)
"""Rows in groups: stores of tiles that are not full need shared memory for a whole tile, so 128 x 256 has few slots."""
GATED = (
    Tile(128, 128, 64, 8, 3, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4, 0.75),
)
"""With two accumulators."""
OUTER = (
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4, 0.75),
)
"""Sums over the rows of each group."""
ELSEWHERE = (Tile(64, 64, 64, 4, 2),)
"""On other GPUs, where stock Triton compiles the kernels."""


def grouped_tile(tiles: Sequence[Tile], rows: int, groups: int, N: int, K: int, multiprocessors: int) -> Tile:
    """The tile that is expected to be the fastest for so many rows in so many groups; the first of equals.

    Groups are taken to be of any size: the last tile of each is half full on average.
    """

    def time_of(tile: Tile) -> float:
        listed = rows / tile.BM + min(groups, rows) / 2
        waves = -(-listed * -(-N // tile.BN) // (multiprocessors * tile.per_sm))
        return waves * (tile.BM * tile.BN * K * tile.per_sm / tile.rate / UNIT + START)

    return min(tiles, key=time_of)
