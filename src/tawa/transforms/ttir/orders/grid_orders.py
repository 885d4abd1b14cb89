"""Grid orders: orders in which tiles that run at the same time share what they load, so that it stays in L2.

A kernel reads rows by the program id along x and columns by that along y (or the other way round). P programs that run
at the same time load the fewest different tiles if theirs form a block of the grid. Launch order takes a strip: all of
x, and a few of y.

    grouped     blocks of G tiles along x by all along y      0 2 4 6     G = 2, x downwards
                                                              1 3 5 7
    hilbert     squares of 16 tiles on a side, each on a      0 3 4 5
                Hilbert curve, side by side along y; the      1 2 7 6
                next row of squares runs back
    l2_halves   even places take the first half of y,         0 2 | 1 3
                odd ones the second; each half is grouped     4 6 | 5 7

A square that the edge of the grid cuts is taken as a group. Along a third axis, one plane follows the other.

`l2_halves` is for a GPU whose L2 has two halves, each nearer to one half of the SMs, as Hopper's. Neither CUDA nor the
program can tell which SM is at which half: %smid says nothing of it, and differs from one GPU to the next. So programs
are taken by the parity of their place. With strided tiles and an even number of programs each then stays in one half
of the result. Along a grid of one axis it halves that axis, which works for kernels that order their tiles themselves.

All orders are permutations of the tiles, whatever the size of the grid. What is computed is made of scalars: no table.
Source: D. Hilbert (1891); H. S. Warren, Hacker's Delight (2nd ed., 2012), chapter 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.dialects.arith import (
    AddIOp,
    AndIOp,
    CmpIOp,
    DivSIOp,
    MaxSIOp,
    MinSIOp,
    MulIOp,
    Predicate,
    RemSIOp,
    SelectOp,
    ShRUIOp,
    SubIOp,
    XOrIOp,
)
from tawa.ir import Builder, Value
from tawa.transforms.ttir.orders.tile_ids import Ids, whole_ids

SIDE_BITS = 4
"""A square of a Hilbert curve has 2^4 tiles on a side: one of them holds more tiles than there are SMs."""

Place = tuple[Value, Value]
"""The ids of a tile along x and y."""
Plane = Callable[[Builder, Value], Place]
"""From a place in a plane of the grid to the ids of its tile."""


def ids_grouped(sizes: Sequence[Value], group: int) -> Ids:
    """The ids of the tiles in blocks of `group` tiles along x. sizes: of the grid, at least two."""
    return _marked(sizes, lambda b, place: _grouped(b, place, sizes[0], sizes[1], group))


def ids_on_curve(sizes: Sequence[Value]) -> Ids:
    """The ids of the tiles on Hilbert curves. sizes: of the grid, at least two."""
    return _marked(sizes, lambda b, place: _on_curves(b, place, sizes[0], sizes[1]))


def ids_in_halves(sizes: Sequence[Value], group: int) -> Ids:
    """The ids of the tiles alternately from the two halves of y, or of x if the grid has no other axis."""
    if len(sizes) > 1:
        return _marked(sizes, lambda b, place: _in_halves(b, place, sizes[0], sizes[1], group))

    def ids(b: Builder, place: Value) -> list[Value]:
        _, at = _in_halves(b, place, b.constant(1), sizes[0], 1)
        return whole_ids(b, [at], sizes)

    return ids


def _marked(sizes: Sequence[Value], plane: Plane) -> Ids:
    """An order of the tiles of each plane; one plane after the other."""

    def ids(b: Builder, place: Value) -> list[Value]:
        rest: list[Value] = []
        if len(sizes) > 2:
            tiles = MulIOp.create(b, sizes[0], sizes[1])
            rest.append(DivSIOp.create(b, place, tiles, "pid"))
            place = RemSIOp.create(b, place, tiles)
        return whole_ids(b, [*plane(b, place), *rest], sizes)

    return ids


def _grouped(b: Builder, place: Value, x: Value, y: Value, group: int) -> Place:
    size = b.constant(group)
    tiles = _positive(b, MulIOp.create(b, size, y))
    start = MulIOp.create(b, DivSIOp.create(b, place, tiles), size)
    rest = RemSIOp.create(b, place, tiles)
    here = _positive(b, MinSIOp.create(b, size, SubIOp.create(b, x, start)))
    return AddIOp.create(b, start, RemSIOp.create(b, rest, here)), DivSIOp.create(b, rest, here)


def _in_halves(b: Builder, place: Value, x: Value, y: Value, group: int) -> Place:
    """Even places are the first half's. If y is odd, that half has one column more, whose tiles are the last."""
    one = b.constant(1)
    small = ShRUIOp.create(b, y, one)
    large = SubIOp.create(b, y, small)
    tiles = MulIOp.create(b, x, small)
    paired = CmpIOp.create(b, Predicate.SLT, place, AddIOp.create(b, tiles, tiles))
    odd = SelectOp.create(b, paired, AndIOp.create(b, place, one), b.constant(0))
    own = SelectOp.create(b, paired, ShRUIOp.create(b, place, one), SubIOp.create(b, place, tiles))
    second = CmpIOp.create(b, Predicate.NE, odd, b.constant(0))
    row, column = _grouped(b, own, x, SelectOp.create(b, second, small, large), group)
    return row, AddIOp.create(b, column, SelectOp.create(b, second, large, b.constant(0)))


def _on_curves(b: Builder, place: Value, x: Value, y: Value) -> Place:
    side, one = b.constant(1 << SIDE_BITS), b.constant(1)
    band_tiles = _positive(b, MulIOp.create(b, side, y))
    band, in_band = DivSIOp.create(b, place, band_tiles), RemSIOp.create(b, place, band_tiles)
    top = MulIOp.create(b, band, side)
    rows = _positive(b, MinSIOp.create(b, side, SubIOp.create(b, x, top)))
    square_tiles = MulIOp.create(b, rows, side)
    left = MulIOp.create(b, DivSIOp.create(b, in_band, square_tiles), side)
    rest = RemSIOp.create(b, in_band, square_tiles)
    columns = MinSIOp.create(b, side, SubIOp.create(b, y, left))
    along, down = _curve(b, rest)
    whole = CmpIOp.create(b, Predicate.EQ, AddIOp.create(b, rows, columns), AddIOp.create(b, side, side))
    down = SelectOp.create(b, whole, down, RemSIOp.create(b, rest, rows))
    along = SelectOp.create(b, whole, along, DivSIOp.create(b, rest, rows))
    column = AddIOp.create(b, left, along)
    back = CmpIOp.create(b, Predicate.NE, AndIOp.create(b, band, one), b.constant(0))
    mirrored = SubIOp.create(b, SubIOp.create(b, y, one), column)
    return AddIOp.create(b, top, down), SelectOp.create(b, back, mirrored, column)


def _curve(b: Builder, step: Value) -> Place:
    """The point of a Hilbert curve that begins at (0, 0) and ends at (side - 1, 0), from the last two bits upwards."""
    one, zero = b.constant(1), b.constant(0)
    along: Value = zero
    down: Value = zero
    for bit in range(SIDE_BITS):
        size, last = b.constant(1 << bit), b.constant((1 << bit) - 1)
        low, high = AndIOp.create(b, step, one), AndIOp.create(b, ShRUIOp.create(b, step, one), one)
        up = XOrIOp.create(b, low, high)
        swapped = CmpIOp.create(b, Predicate.EQ, up, zero)
        flipped = CmpIOp.create(b, Predicate.NE, high, zero)
        # In the first and the last quarter its axes are swapped; in the last one it is mirrored, too.
        other_along = SelectOp.create(b, flipped, SubIOp.create(b, last, down), down)
        other_down = SelectOp.create(b, flipped, SubIOp.create(b, last, along), along)
        along, down = (
            SelectOp.create(b, swapped, other_along, along),
            SelectOp.create(b, swapped, other_down, down),
        )
        along = AddIOp.create(b, along, MulIOp.create(b, high, size))
        down = AddIOp.create(b, down, MulIOp.create(b, up, size))
        step = ShRUIOp.create(b, step, b.constant(2))
    return along, down


def _positive(b: Builder, value: Value) -> Value:
    """The value, which is at least 1 for tiles of the grid: for the checks, which try others as well."""
    return MaxSIOp.create(b, value, b.constant(1))
