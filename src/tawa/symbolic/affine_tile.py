"""Affine tiles: a tile of integers or pointers, or a mask, as a sum of products, and the region where the sum holds.

    base + offset + Σ lanes[d]·r_d        r_d: the position along dimension d, from 0

`offset` is the polynomial that all elements share; ``lanes[d]`` is the coefficient of the position along dimension d. A
scalar is a tile without dimensions. The sum is qualified by:

guard   The sum holds only in a part of the tile: ``(x + r0) % M`` is x + r0 where that is less than M. The other
        elements are unknown, so that a client has to show that they do not matter.
run     Neighbouring elements are equal: in ``(8·i + r0) // 8``, runs of 8 elements are, as for weights packed eight to
        a word. Then r0 // 8 stands for r0. ``within[d]`` is the coefficient of r0 % 8, the position in the run: rows
        of a tile that count tokens and, faster, heads have a stride for each of the two.
bound   A mask is a conjunction of bounds, ``(rows < M) & (ks >= 0) & (k < K)``:

        upper     room - r_d > 0          rows[:, None] < M with rows = 128·pid + r0   →   room = M - 128·pid
        lower     room + r_d > 0          the same from below
        uniform   room > 0                a condition that is uniform over the tile

indicator   A tile of two numbers that stands for a mask: ``where(columns < N, 1, 0) != 0``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from tawa.ir import Value
from tawa.symbolic.polynomial import ONE, ZERO, Poly, constant

Places = Mapping[int, int]
"""Where each dimension of a tile goes when it is reshaped; dimensions of size one are left out."""
Kind = Literal["upper", "lower", "uniform"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The sum holds where ``room - r_dim > 0``.

    modulus: the sum wraps around at it, ``(x + r) % modulus``; None if the sum is clamped or selected instead. whole:
    whether the whole dependence on the position wraps around; it does not in ``(x + r) % modulus + r``.
    """

    dim: int
    room: Poly
    modulus: Poly | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """A dimension in runs of `length` elements. divided: what was divided; it must be 0 or more for the sum to hold."""

    dim: int
    length: int
    divided: Poly


@dataclass(frozen=True, slots=True)
class AffineTile:
    """``base + offset + Σ lanes[d]·r_d`` where all guards hold. base: a pointer; None for numbers.

    In a dimension with runs, lanes[d] is the coefficient of the run's number, and within[d] that of the place in it.
    """

    offset: Poly
    lanes: Mapping[int, Poly] = field(default_factory=dict[int, Poly])
    base: Value | None = None
    guards: tuple[Guard, ...] = ()
    runs: tuple[Run, ...] = ()
    within: Mapping[int, Poly] = field(default_factory=dict[int, Poly])

    @property
    def uniform(self) -> bool:
        """Whether all elements are the same number."""
        return not self.dims and not self.guards and self.base is None

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions along which the elements differ."""
        return tuple(dict.fromkeys((*self.lanes, *self.within)))

    def times(self, factor: Poly) -> AffineTile:
        """The product with a scalar; numbers only."""
        lanes, within = _nonzero(self.lanes, factor), _nonzero(self.within, factor)
        runs = self.runs if lanes or within else ()
        return replace(self, offset=self.offset * factor, lanes=lanes, within=within, runs=runs)

    def run(self, dim: int) -> int:
        """The length of the runs of a dimension."""
        return max((run.length for run in self.runs if run.dim == dim), default=1)

    def plus(self, other: AffineTile) -> AffineTile | None:
        """The sum; at most one of the two is a pointer.

        None if the two have different runs, and if the lane of a run cancels: its requirement on the dividend would be
        lost.
        """
        left, right = self, other
        for dim in (dim for dim in self.dims if dim in other.dims):
            left, right = left._in_runs(dim, right.run(dim)), right._in_runs(dim, left.run(dim))
            if left.run(dim) != right.run(dim):
                return None
        lanes, within = _added(left.lanes, right.lanes), _added(left.within, right.within)
        guards = tuple(dict.fromkeys((*self._guards_beside(other), *other._guards_beside(self))))
        runs = tuple(dict.fromkeys((*left.runs, *right.runs)))
        if any(run.dim not in lanes and run.dim not in within for run in runs):
            return None
        base = self.base or other.base
        return AffineTile(self.offset + other.offset, lanes, base, guards, runs, within)._joined()

    def _in_runs(self, dim: int, length: int) -> AffineTile:
        """The same tile with a dimension in runs, if it has none."""
        lane = self.lanes.get(dim)
        if self.run(dim) > 1 or length == 1 or lane is None:
            return self
        lanes, within = {**self.lanes, dim: lane * constant(length)}, {**self.within, dim: lane}
        return replace(self, lanes=lanes, within=within, runs=(*self.runs, Run(dim, length, ZERO)))

    def _joined(self) -> AffineTile:
        """The same tile without the runs that continue one another: ``8·(r0 // 8) + r0 % 8``."""
        whole = [d for d, step in self.within.items() if self.lanes.get(d) == step * constant(self.run(d))]
        if not whole:
            return self
        lanes = {dim: self.within[dim] if dim in whole else step for dim, step in self.lanes.items()}
        within = {dim: step for dim, step in self.within.items() if dim not in whole}
        runs = (replace(run, length=1) if run.dim in whole else run for run in self.runs)
        left = tuple(dict.fromkeys(run for run in runs if run.length > 1 or run.divided != ZERO))
        return replace(self, lanes=lanes, within=within, runs=left)

    def divided(self, number: int, sizes: Sequence[int], towards_zero: bool) -> AffineTile | None:
        """The quotient by a constant, if the tile divides into whole runs of equal quotients.

        sizes: the shape of the tile. towards_zero: the rounding of ``//`` in a kernel; for negative dividends it
        differs from that of a shift.
        """
        found = self._counted_in_runs(number, sizes)
        if found is None:
            return None
        dim, first = found
        return AffineTile(first, dict(self.lanes), runs=(Run(dim, number, self.offset if towards_zero else ZERO),))

    def remainder(self, number: int, sizes: Sequence[int], towards_zero: bool) -> AffineTile | None:
        """The remainder of the division by a constant: the place in a run. Arguments as for `divided`."""
        found = self._counted_in_runs(number, sizes)
        if found is None:
            return None
        dim, _ = found
        divided = self.offset if towards_zero else ZERO
        if sizes[dim] == number:
            return AffineTile(ZERO, {dim: ONE}, runs=(Run(dim, 1, divided),) if divided != ZERO else ())
        return AffineTile(ZERO, runs=(Run(dim, number, divided),), within={dim: ONE})

    def _counted_in_runs(self, number: int, sizes: Sequence[int]) -> tuple[int, Poly] | None:
        """The dimension and the number of the first run, if the tile counts in steps of 1 from the start of a run."""
        if len(self.lanes) != 1 or self.guards or self.runs or self.base is not None:
            return None
        ((dim, lane),) = self.lanes.items()
        first = self.offset.divided_by(constant(number))
        return (dim, first) if lane == ONE and first is not None and sizes[dim] % number == 0 else None

    def guarded(self, guards: Sequence[Guard]) -> AffineTile:
        """The same sum with additional guards."""
        return replace(self, guards=tuple(dict.fromkeys((*self.guards, *guards))))

    def moved(self, places: Places) -> AffineTile:
        """The same tile with other dimensions."""
        lanes = {places[dim]: poly for dim, poly in self.lanes.items() if dim in places}
        within = {places[dim]: poly for dim, poly in self.within.items() if dim in places}
        runs = tuple(replace(run, dim=places[run.dim]) for run in self.runs)
        return replace(self, lanes=lanes, guards=_moved_guards(self.guards, places), runs=runs, within=within)

    def reshaped(self, source: Sequence[int], target: Sequence[int]) -> AffineTile | None:
        """The same elements, in the same order, in another shape; None if their sum has another form there."""
        whole = AffineTile(self.offset, base=self.base)
        touched = [guard.dim for guard in self.guards] + [run.dim for run in self.runs]
        for before, after in _groups(source, target):
            if len(before) == len(after) == 1:
                parts: AffineTile | None = self._only(before[0]).moved({before[0]: after[0]})
            elif any(dim in touched for dim in before):
                return None
            elif len(before) == 1:
                parts = AffineTile(ZERO, _taken_apart(self.lanes.get(before[0], ZERO), after, target))
            else:
                parts = _put_together([(self.lanes.get(dim, ZERO), source[dim]) for dim in before], after)
            if parts is None:
                return None
            lanes, within = {**whole.lanes, **parts.lanes}, {**whole.within, **parts.within}
            guards, runs = (*whole.guards, *parts.guards), (*whole.runs, *parts.runs)
            whole = replace(whole, lanes=lanes, within=within, guards=guards, runs=runs)
        return whole

    def _only(self, dim: int) -> AffineTile:
        """The part that depends on one dimension."""
        return AffineTile(
            ZERO,
            {dim: self.lanes[dim]} if dim in self.lanes else {},
            None,
            tuple(guard for guard in self.guards if guard.dim == dim),
            tuple(run for run in self.runs if run.dim == dim),
            {dim: self.within[dim]} if dim in self.within else {},
        )

    def _guards_beside(self, other: AffineTile) -> tuple[Guard, ...]:
        """The guards in a sum with `other`: if `other` depends on the same position, the sum wraps around in part."""
        apart = [guard for guard in self.guards if guard.dim in other.dims and guard not in other.guards]
        return tuple(replace(guard, whole=False) if guard in apart else guard for guard in self.guards)


@dataclass(frozen=True, slots=True)
class Bound:
    """One comparison of a mask. dim: of the tile (0 for uniform). guards: where the compared sums hold.

    divided: what must be 0 or more for that. low: if not 0, r_d stands for the position in a run of this length.
    """

    kind: Kind
    room: Poly
    dim: int = 0
    guards: tuple[Guard, ...] = ()
    divided: tuple[Poly, ...] = ()
    low: int = 0

    @property
    def unconditional(self) -> bool:
        """Whether the comparison is that of the room with the position in the tile everywhere."""
        return not self.guards and not self.divided and not self.low


@dataclass(frozen=True, slots=True)
class Mask:
    """True exactly where all bounds hold."""

    bounds: tuple[Bound, ...] = ()

    def both(self, other: Mask) -> Mask:
        """The conjunction."""
        return Mask(tuple(dict.fromkeys((*self.bounds, *other.bounds))))

    def moved(self, places: Places) -> Mask:
        """The same mask with other dimensions."""
        return Mask(
            tuple(
                replace(
                    bound,
                    dim=places[bound.dim] if bound.kind != "uniform" else 0,
                    guards=_moved_guards(bound.guards, places),
                )
                for bound in self.bounds
            )
        )

    def as_guards(self) -> tuple[Guard, ...] | None:
        """Guards whose conjunction implies the mask; None if the mask has bounds other than upper ones of positions.

        They include the guards of the compared sums: the comparison is only known where the sums hold.
        """
        if any(bound.kind != "upper" or bound.divided or bound.low for bound in self.bounds):
            return None
        return tuple(guard for bound in self.bounds for guard in (Guard(bound.dim, bound.room), *bound.guards))


@dataclass(frozen=True, slots=True)
class Indicator:
    """A tile of two numbers: `inside` where the mask holds, `outside` elsewhere. ``where(x < N, 1, 0)``."""

    mask: Mask
    inside: int
    outside: int

    def moved(self, places: Places) -> Indicator:
        """The same tile with other dimensions."""
        return replace(self, mask=self.mask.moved(places))

    def where(self, holds: Callable[[int], bool]) -> Mask | None:
        """Where the element satisfies a condition; None if that is neither where the mask holds nor everywhere."""
        if holds(self.outside):
            return Mask() if holds(self.inside) else None
        return self.mask if holds(self.inside) else None

    def as_tile(self) -> AffineTile | None:
        """The number inside, guarded by the mask."""
        guards = self.mask.as_guards()
        return None if guards is None else AffineTile(constant(self.inside)).guarded(guards)


def _moved_guards(guards: Sequence[Guard], places: Places) -> tuple[Guard, ...]:
    return tuple(replace(guard, dim=places[guard.dim]) for guard in guards)


def less(left: AffineTile, right: AffineTile, or_equal: bool) -> Mask | None:
    """``left < right`` as ``right - left > 0``; None if that is not a bound of one dimension."""
    if left.base is not None or right.base is not None:
        return None
    gap = right.plus(left.times(constant(-1)))
    if gap is None:
        return None
    room = gap.offset + ONE if or_equal else gap.offset
    if not gap.dims:
        return Mask((Bound("uniform", room),)) if not gap.guards else None
    if len(gap.dims) != 1:
        return None
    (dim,) = gap.dims
    low = dim in gap.within
    lane, length = (gap.within if low else gap.lanes)[dim], gap.run(dim)
    kinds: dict[int | None, Kind] = {-1: "upper", 1: "lower"}
    kind = kinds.get(lane.number)
    if kind is None or (low and dim in gap.lanes):
        return None
    if not low and length > 1:  # a bound of the number of the run: the same of the first or last position in it
        room = room * constant(length) - (constant(length - 1) if kind == "lower" else ZERO)
    divided = tuple(dict.fromkeys(run.divided for run in gap.runs if run.divided != ZERO))
    return Mask((Bound(kind, room, dim, gap.guards, divided, length if low else 0),))


def _nonzero(steps: Mapping[int, Poly], factor: Poly) -> dict[int, Poly]:
    """The products that are not zero."""
    return {dim: product for dim, step in steps.items() if (product := step * factor) != ZERO}


def _added(left: Mapping[int, Poly], right: Mapping[int, Poly]) -> dict[int, Poly]:
    """The sums that are not zero."""
    sums = {dim: left.get(dim, ZERO) + right.get(dim, ZERO) for dim in (*left, *right)}
    return {dim: step for dim, step in sums.items() if step != ZERO}


def _groups(source: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions longer than one that hold the same elements before and after a reshape."""
    before = [dim for dim, size in enumerate(source) if size > 1]
    after = [dim for dim, size in enumerate(target) if size > 1]
    found: list[tuple[list[int], list[int]]] = []
    while before and after:
        left, right = [before.pop(0)], [after.pop(0)]
        while (gap := prod(source[dim] for dim in left) - prod(target[dim] for dim in right)) != 0:
            (left if gap < 0 else right).append((before if gap < 0 else after).pop(0))
        found.append((left, right))
    return found


def _taken_apart(lane: Poly, dims: Sequence[int], sizes: Sequence[int]) -> dict[int, Poly]:
    """The coefficient of each of `dims`, which one dimension becomes."""
    steps = {dim: lane * constant(prod(sizes[inner] for inner in dims[at + 1 :])) for at, dim in enumerate(dims)}
    return {dim: step for dim, step in steps.items() if step != ZERO}


def _put_together(parts: Sequence[tuple[Poly, int]], dims: Sequence[int]) -> AffineTile | None:
    """The dimension that several become. parts: their coefficients and sizes. None if it has more than two strides."""
    levels: list[tuple[Poly, int]] = []
    for step, size in reversed(parts):
        if levels and step == levels[-1][0] * constant(levels[-1][1]):
            levels[-1] = (levels[-1][0], levels[-1][1] * size)
        else:
            levels.append((step, size))
    if len(levels) > 2 or len(dims) != 1:
        return None
    (inner, length), *outer = levels
    if not outer:
        return AffineTile(ZERO, {dims[0]: inner} if inner != ZERO else {})
    lanes = {dims[0]: outer[0][0]} if outer[0][0] != ZERO else {}
    within = {dims[0]: inner} if inner != ZERO else {}
    return AffineTile(ZERO, lanes, runs=(Run(dims[0], length, ZERO),), within=within)
