"""Affine tiles: a tile of integers or pointers, or a mask, as a sum of products, and the region where the sum holds.

    base + offset + Σ lanes[d]·r_d        r_d: the position along dimension d, from 0

`offset` is the polynomial that all elements share; ``lanes[d]`` is the coefficient of the position along dimension d. A
scalar is a tile without dimensions. The sum is qualified by:

guard   The sum holds only in a part of the tile: ``(x + r0) % M`` is x + r0 where that is less than M. The other
        elements are unknown, so that a client has to show that they do not matter.
run     Neighbouring elements are equal: in ``(8·i + r0) // 8``, runs of 8 elements are, as for weights packed eight to
        a word. Then r0 // 8 stands for r0.
bound   A mask is a conjunction of bounds, ``(rows < M) & (ks >= 0) & (k < K)``:

        upper     room - r_d > 0          rows[:, None] < M with rows = 128·pid + r0   →   room = M - 128·pid
        lower     room + r_d > 0          the same from below
        uniform   room > 0                a condition that is uniform over the tile
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

    modulus: the sum wraps around at it, ``(x + r) % modulus``; None if the sum is clamped or selected instead. whole:
    whether the whole dependence on the position wraps around; it does not in ``(x + r) % modulus + r``.
    """

    dim: int
    room: Poly
    modulus: Poly | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """Runs of `length` elements of a dimension are equal. divided: the dividend; it must be 0 or more for that."""

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
        """The length of the runs of equal elements along a dimension."""
        return next((run.length for run in self.runs if run.dim == dim), 1)

    def plus(self, other: AffineTile) -> AffineTile | None:
        """The sum; at most one of the two is a pointer.

        None if only one of the two has runs, and if the lane of a run cancels: its requirement on the dividend would be
        lost.
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
        """The quotient by a constant, if the tile divides into whole runs of equal quotients.

        sizes: the shape of the tile. towards_zero: the rounding of ``//`` in a kernel; for negative dividends it
        differs from that of a shift.
        """
        if len(self.lanes) != 1 or self.guards or self.runs or self.base is not None:
            return None
        ((dim, lane),) = self.lanes.items()
        first = self.offset.divided_by(constant(number))
        if lane != ONE or first is None or sizes[dim] % number:
            return None
        return AffineTile(first, dict(self.lanes), runs=(Run(dim, number, self.offset if towards_zero else ZERO),))

    def guarded(self, guards: Sequence[Guard]) -> AffineTile:
        """The same sum with additional guards."""
        return replace(self, guards=tuple(dict.fromkeys((*self.guards, *guards))))

    def moved(self, places: Places) -> AffineTile:
        """The same tile with other dimensions."""
        lanes = {places[dim]: poly for dim, poly in self.lanes.items() if dim in places}
        runs = tuple(replace(run, dim=places[run.dim]) for run in self.runs)
        return replace(self, lanes=lanes, guards=_moved_guards(self.guards, places), runs=runs)

    def _guards_beside(self, other: AffineTile) -> tuple[Guard, ...]:
        """The guards in a sum with `other`: if `other` depends on the same position, the sum wraps around in part."""
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
        """Guards whose conjunction implies the mask; None if the mask has bounds other than upper ones.

        They include the guards of the compared sums: the comparison is only known where the sums hold.
        """
        if any(bound.kind != "upper" for bound in self.bounds):
            return None
        return tuple(guard for bound in self.bounds for guard in (Guard(bound.dim, bound.room), *bound.guards))


def _moved_guards(guards: Sequence[Guard], places: Places) -> tuple[Guard, ...]:
    return tuple(replace(guard, dim=places[guard.dim]) for guard in guards)


def less(left: AffineTile, right: AffineTile, or_equal: bool) -> Mask | None:
    """``left < right`` as ``right - left > 0``; None if that is not a bound of one dimension."""
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
