"""Bound choices: which bounds of a mask describe the tensor, and which decide about a whole tile.

    k + r < min(chunk, length - chunk·c)         two bounds with different indices:
      chunk·c + k + r < length                     the tensor has `length` rows, and the box begins at chunk·c + k
      k + r < chunk                                r < 64, and 64 divides k; if it divides `chunk`, the bound holds for
                                                   all rows of a tile or for none: a condition on the tile, k < chunk

TMA has one size and one index in each dimension, so that the bounds of a dimension must agree in the index. A bound
that does not agree is exact nevertheless if its room is a multiple of the tile's size. Whether an argument is such a
multiple is a condition that each launch checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import Bound
from tawa.symbolic.extremes import parts_of
from tawa.symbolic.polynomial import Atom, Poly
from tawa.symbolic.value_ranges import ValueRanges

_MOST = 16
"""The limit on the number of choices."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The condition of a launch that `poly` is a multiple of `number`."""

    poly: Poly
    number: int


@dataclass(frozen=True, slots=True)
class BoundChoice:
    """Bounds that are equivalent to the mask if all of `wholes` hold."""

    bounds: tuple[Bound, ...]
    wholes: tuple[Whole, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundChoices:
    """Finds the choices in one function. in_size: the atoms that are known where the descriptor is made."""

    affine: Affine
    facts: ValueRanges
    in_size: Callable[[Atom], bool]

    def taken_apart(self, bounds: Sequence[Bound]) -> tuple[Bound, ...]:
        """The same mask with a bound for each operand of minima and maxima that the size cannot hold."""
        return tuple(
            replace(bound, room=room) for bound in bounds for room in parts_of(self.affine, bound.room, self.in_size)
        )

    def of(self, bounds: Sequence[Bound], shape: Sequence[int]) -> list[BoundChoice]:
        """The choices, best first: the bounds as they are, then those with the fewest conditions.

        shape: of the tile.
        """
        dims = dict.fromkeys(bound.dim for bound in bounds if bound.kind == "upper" and bound.unconditional)
        options = [list(self._of_dim(bounds, dim, shape[dim])) for dim in dims]
        found = [BoundChoice(tuple(bounds))]
        for changes in product(*([{}, *option] for option in options)):
            changed: dict[Bound, tuple[Whole, ...]] = {bound: it for change in changes for bound, it in change.items()}
            if changed and len(found) < _MOST:
                wholes = dict.fromkeys(whole for it in changed.values() for whole in it)
                kept = (Bound("uniform", bound.room) if bound in changed else bound for bound in bounds)
                found.append(BoundChoice(tuple(dict.fromkeys(kept)), tuple(wholes)))
        return sorted(found, key=lambda choice: len(choice.wholes))

    def _of_dim(self, bounds: Sequence[Bound], dim: int, size: int) -> Iterator[dict[Bound, tuple[Whole, ...]]]:
        """The bounds of one dimension that become conditions on the tile: all but those of one index, then all."""
        upper = [bound for bound in bounds if bound.kind == "upper" and bound.dim == dim and bound.unconditional]
        apart = {bound: wholes for bound in upper if (wholes := self._wholes(bound.room, size)) is not None}
        moving = {bound: self._moving(bound.room) for bound in upper}
        for index in (*dict.fromkeys(moving.values()), None):
            others = [bound for bound in upper if moving[bound] != index]
            if others and all(bound in apart for bound in others):
                yield {bound: apart[bound] for bound in others}

    def _wholes(self, room: Poly, size: int) -> tuple[Whole, ...] | None:
        """The conditions under which `room` is a multiple of `size`; None if no launch can check that."""
        if self.facts.multiple(room) % size == 0:
            return ()
        moving = self._moving(room)
        fixed = room - moving
        if fixed.number is not None or self.facts.multiple(moving) % size:
            return None
        return (Whole(fixed, size),)

    def _moving(self, room: Poly) -> Poly:
        """The terms that are not known where the descriptor is made."""
        return Poly.of(
            (monomial, factor)
            for monomial, factor in room.terms
            if not all(self.in_size(self.affine.atoms[index]) for index in monomial)
        )
