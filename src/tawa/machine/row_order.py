"""Orders of the rows of a tile, and how one box of TMA loads rows in such an order.

    RowOrder((1, 2, 3, 4, 5, 6, 0))      128 rows: bit i of a place is bit order[i] of the row that stands there

      place   0 1 2 3 …  63  64 65 66 …
      row     0 2 4 6 … 126   1  3  5 …

A *run* is a part of a place whose bits are neighbours in the row as well: here the bits 1 to 6 (every second row), then
bit 0 (even or odd). TMA fills a box in the order of the dimensions of its descriptor, and each dimension may have any
stride. So each run becomes a dimension, the run of the lowest places innermost:

    boxes of BN × D of a tensor of S × D     →     boxes of 2 × BN/2 × D of a tensor of 2 × S/2 × D,
                                                   whose strides are 1 row, 2 rows, 1 element
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Run:
    """Bits of a place that are neighbours in the row. row: the lowest bit in the row. bits: how many."""

    row: int
    bits: int

    @property
    def size(self) -> int:
        """The number of rows along the run."""
        return 1 << self.bits

    @property
    def stride(self) -> int:
        """The distance of its rows."""
        return 1 << self.row


@dataclass(frozen=True)
class RowOrder:
    """An order of 2 ** len(bits) rows: bit i of a place is bit bits[i] of the row that stands there."""

    bits: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.bits) != list(range(len(self.bits))):
            raise ValueError(f"not an order of rows: {self.bits}")

    @property
    def size(self) -> int:
        """The number of rows."""
        return 1 << len(self.bits)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The row at each place."""
        return tuple(sum((place >> at & 1) << bit for at, bit in enumerate(self.bits)) for place in range(self.size))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs, that of the highest places first. Dimension i of a descriptor of the rows is run i."""
        found: list[Run] = []
        for row in self.bits:
            if found and found[0].row + found[0].bits == row:
                found[0] = Run(found[0].row, found[0].bits + 1)
            else:
                found.insert(0, Run(row, 1))
        return tuple(found)

    @property
    def top(self) -> int:
        """The run of the highest rows: along it, the next tile begins."""
        return max(range(len(self.runs)), key=lambda at: self.runs[at].row)

    @property
    def unit(self) -> int:
        """The rows of the tensor, and the first row of a tile, must be multiples of this."""
        return self.runs[self.top].stride

    # -- as permutations of dimensions ---------------------------------------------------------------------------------

    @property
    def by_place(self) -> tuple[int, ...]:
        """The rows as an array of places: the sizes of the runs."""
        return tuple(run.size for run in self.runs)

    @property
    def by_row(self) -> tuple[int, ...]:
        """The rows as an array in their own order: the sizes of the runs, that of the highest rows first."""
        return tuple(self.by_place[at] for at in self.to_rows)

    @property
    def to_rows(self) -> tuple[int, ...]:
        """The permutation of dimensions from `by_place` to `by_row`."""
        return tuple(sorted(range(len(self.runs)), key=lambda at: -self.runs[at].row))

    @property
    def to_places(self) -> tuple[int, ...]:
        """The permutation of dimensions from `by_row` to `by_place`."""
        return tuple(self.to_rows.index(at) for at in range(len(self.runs)))
