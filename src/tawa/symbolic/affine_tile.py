"""Affine tiles: what a tile of numbers or pointers, or a mask, is as a sum of products, and where that sum holds.

    base + offset + Σ lanes[d]·r_d        r_d: the place along dimension d, from 0

`offset` is the polynomial that all elements share, ``lanes[d]`` the polynomial that the place along dimension d is
multiplied with. A scalar is a tile without dimensions. Three things go with the sum:

guard   The sum holds only in a part of the tile: ``(x + r0) % M`` is x + r0 where that is less than M. What the tile is
        elsewhere is not described, so a user of a tile with guards has to show that elements outside do not matter.
run     Neighbouring places share a number: in ``(8·i + r0) // 8``, as where eight weights are packed in one word, 8
        places do. Then r0 // 8 stands for r0.
bound   A mask is a conjunction of bounds, ``(rows < M) & (ks >= 0) & (k < K)``:

        upper     room - r_d > 0          rows[:, None] < M with rows = 128·pid + r0   →   room = M - 128·pid
        lower     room + r_d > 0          the same the other way round
        uniform   room > 0                a condition that does not depend on the place in the tile
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tawa.ir import Value
from tawa.symbolic.polynomial import ONE, ZERO, Poly, constant

Places = Mapping[int, int]
"""Where each dimension of a tile goes when it is reshaped; dimensions of size one are left out."""
Kind = Literal["upper", "lower", "uniform"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The sum holds where ``room - r_dim > 0``.

    modulus: elsewhere the number wraps around to it, ``(x + r) % modulus``; None where it is clamped or selected.
    whole: whether everything that depends on the place does so; not in ``(x + r) % modulus + r``.
    """

    dim: int
    room: Poly
    modulus: Poly | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """`length` places of a dimension share a number. divided: the dividend, which must be 0 or more for that."""

    dim: int
    length: int
    divided: Poly


@dataclass(frozen=True, slots=True)
class AffineTile:
    """``base + offset + Σ lanes[d]·r_d`` where all guards hold. base: a pointer; None for numbers."""

    offset: Poly
    lanes: Mapping[int, Poly] = field(default_factory=dict[int, Poly])
    base: Value | None = None
    guards: tuple[Guard, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether all elements are the same number."""
        return not self.lanes and not self.guards and self.base is None

    def times(self, factor: Poly) -> AffineTile:
        """The product with a scalar; numbers only."""
        lanes = {dim: product for dim, poly in self.lanes.items() if (product := poly * factor) != ZERO}
        return replace(self, offset=self.offset * factor, lanes=lanes, runs=self.runs if lanes else ())

    def run(self, dim: int) -> int:
        """How many places of a dimension share a number."""
        return next((run.length for run in self.runs if run.dim == dim), 1)

    def plus(self, other: AffineTile) -> AffineTile | None:
        """The sum; at most one of the two is a pointer.

        None where places share numbers in only one of the two, and where the lane of a run cancels: its requirement on
        the dividend would be lost.
        """
        if any(self.run(dim) != other.run(dim) for dim in self.lanes.keys() & other.lanes.keys()):
            return None
        lanes = dict(self.lanes)
        for dim, poly in other.lanes.items():
            lanes[dim] = lanes.get(dim, ZERO) + poly
        lanes = {dim: poly for dim, poly in lanes.items() if poly != ZERO}
        guards = tuple(dict.fromkeys((*self._guards_beside(other), *other._guards_beside(self))))
        runs = tuple(dict.fromkeys((*self.runs, *other.runs)))
        if any(run.dim not in lanes for run in runs):
            return None
        return AffineTile(self.offset + other.offset, lanes, self.base or other.base, guards, runs)

    def divided(self, number: int, sizes: Sequence[int], towards_zero: bool) -> AffineTile | None:
        """A range of numbers, each divided by `number`, where whole runs of places share the quotient.

        sizes: the shape of the tile. towards_zero: as ``//`` rounds in a kernel; below 0 that differs from a shift.
        """
        if len(self.lanes) != 1 or self.guards or self.runs or self.base is not None:
            return None
        ((dim, lane),) = self.lanes.items()
        first = self.offset.divided_by(constant(number))
        if lane != ONE or first is None or sizes[dim] % number:
            return None
        return AffineTile(first, dict(self.lanes), runs=(Run(dim, number, self.offset if towards_zero else ZERO),))

    def guarded(self, guards: Sequence[Guard]) -> AffineTile:
        """The same sum, which holds only where these guards do as well."""
        return replace(self, guards=tuple(dict.fromkeys((*self.guards, *guards))))

    def moved(self, places: Places) -> AffineTile:
        """The same tile with other dimensions."""
        lanes = {places[dim]: poly for dim, poly in self.lanes.items() if dim in places}
        runs = tuple(replace(run, dim=places[run.dim]) for run in self.runs)
        return replace(self, lanes=lanes, guards=_moved_guards(self.guards, places), runs=runs)

    def _guards_beside(self, other: AffineTile) -> tuple[Guard, ...]:
        """The guards in a sum with `other`: where that depends on the same place, not all of the sum wraps around."""
        apart = [guard for guard in self.guards if guard.dim in other.lanes and guard not in other.guards]
        return tuple(replace(guard, whole=False) if guard in apart else guard for guard in self.guards)


@dataclass(frozen=True, slots=True)
class Bound:
    """One comparison of a mask. dim: of the tile (0 for uniform). guards: where the compared sums hold."""

    kind: Kind
    room: Poly
    dim: int = 0
    guards: tuple[Guard, ...] = ()


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
        """Guards that together hold only where the mask does; None where it has bounds other than upper ones.

        The guards of the compared sums are among them: a comparison of a number that wraps around says something only
        where it does not.
        """
        if any(bound.kind != "upper" for bound in self.bounds):
            return None
        return tuple(guard for bound in self.bounds for guard in (Guard(bound.dim, bound.room), *bound.guards))


def _moved_guards(guards: Sequence[Guard], places: Places) -> tuple[Guard, ...]:
    return tuple(replace(guard, dim=places[guard.dim]) for guard in guards)


def less(left: AffineTile, right: AffineTile, or_equal: bool) -> Mask | None:
    """``left < right`` as ``right - left > 0``; None where that is no bound of one dimension."""
    if left.base is not None or right.base is not None:
        return None
    gap = right.plus(left.times(constant(-1)))
    if gap is None or gap.runs:
        return None
    room = gap.offset + ONE if or_equal else gap.offset
    if not gap.lanes:
        return Mask((Bound("uniform", room),)) if not gap.guards else None
    if len(gap.lanes) != 1:
        return None
    ((dim, lane),) = gap.lanes.items()
    kinds: dict[int | None, Kind] = {-1: "upper", 1: "lower"}
    kind = kinds.get(lane.number)
    return Mask((Bound(kind, room, dim, gap.guards),)) if kind else None


__all__ = ["AffineTile", "Bound", "Guard", "Mask", "Places", "Run", "less"]
