"""The tiles of grouped products, as data, and how one is chosen before anyone knows how many rows a group has."""

from __future__ import annotations

from collections.abc import Sequence

from tawa.ops.products.tile_choice import Tile, plan, time_of_waves

TWO_GROUPS = (("num_consumer_groups", 2),)
"""The rows of a tile are split over two groups of consumers."""
GROUPED = (
    Tile(64, 128, 64, 4, 4, 0.75),
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 256, 64, 4, 4, 0.99),
)
"""Rows in groups: stores of tiles that are not full need shared memory for a whole tile, so 128 x 256 has few slots."""
GATED = (
    Tile(64, 128, 64, 4, 4, 0.75),
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
)
"""With two accumulators."""
PADDED = (Tile(128, 256, 64, 8, 4, options=(plan(groups=2, stores=[{"slices": 4}]),)),)
"""Rows in groups that begin at multiples of a tile, behind a gated product of tiles as high: all tiles are full."""
OUTER = (
    Tile(128, 128, 64, 8, 4, options=TWO_GROUPS),
    Tile(64, 128, 64, 4, 4, 0.75),
)
"""Sums over the rows of each group."""
ELSEWHERE = (Tile(64, 64, 64, 4, 2),)
"""On other GPUs, where stock Triton compiles the kernels."""


READ = 19e6
"""Bytes that DRAM delivers in the time of a unit: 2.6 TB/s, beside 4.5 TFLOP/s of an SM."""


def grouped_tile(tiles: Sequence[Tile], rows: int, groups: int, N: int, K: int, multiprocessors: int) -> Tile:
    """The tile that is expected to be the fastest for so many rows in so many groups; the first of equals.

    Groups are taken to be of any size: the last tile of each is half full on average. No tile is faster than DRAM,
    which reads the matrix of each group; where all are as fast, the first has the most slots.
    """
    matrices = 2 * min(groups, rows) * N * K

    def time_of(tile: Tile) -> float:
        listed = rows / tile.BM + min(groups, rows) / 2
        return max(matrices / READ, time_of_waves(tile, listed * -(-N // tile.BN), K, multiprocessors))

    return min(tiles, key=time_of)


def outer_tile(tiles: Sequence[Tile], M: int, N: int, rows: int, groups: int, multiprocessors: int) -> Tile:
    """The tile that is expected to be the fastest for sums (M, N) over so many rows in so many groups."""

    def time_of(tile: Tile) -> float:
        programs = groups * -(-M // tile.BM) * -(-N // tile.BN)
        return time_of_waves(tile, programs, rows / groups + tile.BK / 2, multiprocessors)

    return min(tiles, key=time_of)


def pair(
    gated: Sequence[Tile], grouped: Sequence[Tile], rows: int, groups: int, N: int, K: int, multiprocessors: int
) -> tuple[Tile, Tile]:
    """The tiles of a gated product (K to N columns) and of the one behind it, of the same height.

    The second is one of `PADDED` if that has the height: then both products take padded groups.
    """
    first = grouped_tile(gated, rows, groups, N, K, multiprocessors)
    known = (*PADDED, *grouped) if gated is GATED else grouped
    return first, next(it for it in known if it.BM == first.BM)
