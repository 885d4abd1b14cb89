"""Outer strides: the terms of an address beside the tile, as strides times indices.

    batch·stride_b + (group·per_group + head)·stride_h      →   stride_b: batch;  stride_h: group·per_group + head

Each stride becomes a dimension of the descriptor. Terms are grouped by what is known where the descriptor is made; a
stride that is a multiple of another one joins it where that is necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.ir import Operation
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Atom, Monomial, Poly
from tawa.symbolic.value_ranges import ValueRanges

Part = tuple[Poly, Poly]
"""A stride and an index."""


def outer_strides(
    rest: Poly, affine: Affine, facts: ValueRanges, in_size: Callable[[Atom], bool], access: Operation, most: int
) -> list[Part]:
    """The strides and indices of `rest`; at most `most`, if joining them makes so few."""
    groups: dict[tuple[Monomial, int], list[tuple[Monomial, int]]] = {}
    for monomial, factor in rest.terms:
        known = tuple(atom for atom in monomial if in_size(affine.atoms[atom]))
        moving = tuple(atom for atom in monomial if atom not in known)
        groups.setdefault((known, 0 if known else abs(factor)), []).append((moving, factor))
    parts = _merged([_factored(known, terms) for (known, _), terms in groups.items()], facts, access)
    while len(parts) > most and (fewer := _joined(parts, affine)) is not None:
        parts = fewer
    return parts


def _factored(known: Monomial, terms: Sequence[tuple[Monomial, int]]) -> Part:
    """The stride and the index of terms with the known factor `known`."""
    scale = Poly.of(terms).content()
    return Poly.of([(known, scale)]), Poly.of((moving, factor // scale) for moving, factor in terms)


def _merged(parts: list[Part], facts: ValueRanges, access: Operation) -> list[Part]:
    """The same, where an index that is a part of a remainder has joined the other part.

    ``(pid - pid // n * n)·s`` has terms with the strides s and n·s; the index of the second one is negative.
    """
    merged = list(parts)
    for part in parts:
        if facts.not_negative(part[1], access) is not None:
            continue
        for at, other in enumerate(merged):
            index = _joined_index(other, part)
            if index is not None and part in merged and facts.not_negative(index, access) is not None:
                merged[at] = (other[0], index)
                merged.remove(part)
                break
    return merged


def _joined(parts: list[Part], affine: Affine) -> list[Part] | None:
    """One fewer; None if no stride divides another one.

    What the kernel computes in 64 bits stays apart, because an index of TMA has 32 bits.
    """
    for part in parts:
        for at, other in enumerate(parts):
            index = _joined_index(other, part)
            if index is not None and not affine.atoms.wide(part[0] * part[1]):
                joined = list(parts)
                joined[at] = (other[0], index)
                joined.remove(part)
                return joined
    return None


def _joined_index(part: Part, other: Part) -> Poly | None:
    """The index of both at the stride of the first; None if that stride does not divide the second one."""
    times = (other[0] * other[1]).divided_by(part[0]) if part[0] != other[0] else None
    return part[1] + times if times is not None else None
