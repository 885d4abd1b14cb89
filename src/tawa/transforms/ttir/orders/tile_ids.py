"""Tile ids: the program ids of the tile at a place in the order of a persistent form.

    launch           place 0, 1, 2, …                     x varies fastest, as the hardware starts programs
    longest first    the tiles that take longest first    where programs get longer along one axis (`longer`)
    others           blocks of the grid                   `tawa.transforms.ttir.orders.grid_orders`

Longest first, with n tiles along that axis and R tiles along all others (the heads of a causal attention):

    section of all R     0 0 0 0   1 1 1 1     few of the R at a time, whose tiles load the same data: it stays in L2
    axis                 3 3 2 2 1 1 0 0       in a section, the longest tiles first
    place in a section   0 1 0 1 0 1 0 1       neighbours start together

If all R were one section, every K and V would be needed at once; if each were a section of its own, long tiles would
start until the very end. A section has the tiles of `SECTION_WAVES` waves of programs. They are counted from the end,
so that the last section, behind which programs run idle, is a whole one.

    sections = max(R div ceil(waves · programs / n), 1); size = ceil(R / sections)        before the loop
    back     = tiles - 1 - place
    section  = back div (size · n); rest = back mod (size · n); here = min(size, R - section · size)
    axis     = rest div here; others = section · size + rest mod here

The ids are then put together to the place of the tile in launch order, which is marked (`TILE_ID`), and taken apart
again as in launch order. So what depends on the order is one number, and what is computed from it needs nothing but the
sizes of the grid: `dynamic_tiles` lets the producer alone compute that number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tawa.analysis.work.longer_programs import LongerInfo
from tawa.dialects.arith import AddIOp, DivSIOp, MaxSIOp, MinSIOp, MulIOp, RemSIOp, SubIOp
from tawa.ir import Builder, Value
from tawa.plan.defaults import SECTION_WAVES

TILE_ID = "tawa.tile_id"
"""Attribute of the operation that computes the place of a tile in launch order; `steps.take_tiles` removes it."""

Ids = Callable[[Builder, Value], list[Value]]
"""From a place in the order, an i32 in the loop over tiles, to the program ids of its tile."""


def ids_in_launch_order(sizes: Sequence[Value]) -> Ids:
    """The ids of the tiles in the order in which the hardware would start programs. sizes: of the grid."""
    return lambda builder, place: _along(builder, place, sizes)


def ids_longest_first(front: Builder, sizes: Sequence[Value], tiles: Value, programs: Value, longer: LongerInfo) -> Ids:
    """The ids of the tiles with the longest ones first.

    front: builds before the loop. tiles: their number. programs: of the launch. longer: says which tiles take longer.
    """
    found = _Sections.create(front, sizes, tiles, programs, longer)

    def ids(builder: Builder, place: Value) -> list[Value]:
        return whole_ids(builder, found.ids(builder, place), sizes)

    return ids


def whole_ids(builder: Builder, ids: Sequence[Value], sizes: Sequence[Value]) -> list[Value]:
    """The same ids, taken apart again from the tile's place in launch order, which is marked."""
    tile = _together(builder, ids, sizes)
    assert tile.defining_op is not None
    tile.defining_op.attributes[TILE_ID] = "unit"
    return _along(builder, tile, sizes)


@dataclass(frozen=True, slots=True)
class _Sections:
    """The numbers of the description, before the loop. last: the number of tiles minus 1."""

    sizes: Sequence[Value]
    longer: LongerInfo
    last: Value
    along: Value
    others: Value
    size: Value
    tiles_of_section: Value

    @staticmethod
    def create(b: Builder, sizes: Sequence[Value], tiles: Value, programs: Value, longer: LongerInfo) -> _Sections:
        one, waves = b.constant(1), b.constant(SECTION_WAVES)
        along = sizes[longer.axis]
        others = DivSIOp.create(b, tiles, MaxSIOp.create(b, along, one), "others")
        wanted = _ceil_div(b, MulIOp.create(b, programs, waves), MaxSIOp.create(b, along, one), one)
        sections = MaxSIOp.create(b, DivSIOp.create(b, others, wanted), one, "sections")
        size = MaxSIOp.create(b, _ceil_div(b, others, sections, one), one, "size")
        last = SubIOp.create(b, tiles, one, "last")
        return _Sections(sizes, longer, last, along, others, size, MulIOp.create(b, size, along))

    def ids(self, b: Builder, place: Value) -> list[Value]:
        back = SubIOp.create(b, self.last, place, "back")
        section = DivSIOp.create(b, back, self.tiles_of_section, "section")
        rest = RemSIOp.create(b, back, self.tiles_of_section)
        start = MulIOp.create(b, section, self.size)
        here = MinSIOp.create(b, self.size, SubIOp.create(b, self.others, start), "here")
        here = MaxSIOp.create(b, here, b.constant(1), "here")  # it is: for the checks, which try places behind the last
        own = DivSIOp.create(b, rest, here, "pid")
        if not self.longer.grows:
            own = SubIOp.create(b, SubIOp.create(b, self.along, b.constant(1)), own, "pid")
        other = AddIOp.create(b, start, RemSIOp.create(b, rest, here))
        axis = self.longer.axis
        ids = _along(b, other, [size for at, size in enumerate(self.sizes) if at != axis])
        return [*ids[:axis], own, *ids[axis:]]


def _ceil_div(b: Builder, value: Value, by: Value, one: Value) -> Value:
    return DivSIOp.create(b, AddIOp.create(b, value, SubIOp.create(b, by, one)), by)


def _together(b: Builder, ids: Sequence[Value], sizes: Sequence[Value]) -> Value:
    """The place in launch order of the tile with these ids."""
    tile = ids[-1]
    for own, size in zip(reversed(ids[:-1]), reversed(sizes[:-1]), strict=True):
        tile = AddIOp.create(b, own, MulIOp.create(b, tile, size), "tile")
    return AddIOp.create(b, tile, b.constant(0), "tile")  # an operation of its own, whatever the ids are


def _along(builder: Builder, place: Value, sizes: Sequence[Value]) -> list[Value]:
    """The ids along some axes, of which the first varies fastest."""
    ids: list[Value] = []
    for size in sizes[:-1]:
        ids.append(RemSIOp.create(builder, place, size, "pid"))
        place = DivSIOp.create(builder, place, size, "pid")
    return [*ids, place] if sizes else []
