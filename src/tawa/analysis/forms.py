"""Forms: a tile of numbers or pointers as a sum of products, and where in the tile that sum holds.

    base + offset + Σ lanes[d]·r_d        r_d: the place along dimension d, from 0

What all elements share is `offset`, a `Poly`; what a dimension's place is multiplied with is its lane. A *guard* says
where a form holds: ``(x + r0) % M`` is x + r0 where that is under M. What it is elsewhere is not said, so who uses a
form with guards must see to it that elements outside do not matter.

A *run* says that places share a number: in ``(8·i + r0) // 8``, as where eight weights are packed in one word, 8 each.
Then r0 // 8 stands for r0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.polynomials import ONE, ZERO, Poly, constant
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_array, read_int
from tawa.symbolic.dim_relations import shape_of


@dataclass(frozen=True, slots=True)
class Guard:
    """A form holds where ``room - r_dim > 0``.

    modulus: elsewhere the number wraps around to it, ``(x + r) % modulus``; None where it is clamped or chosen. whole:
    whether all that depends on the place does so; not in ``(x + r) % modulus + r``.
    """

    dim: int
    room: Poly
    modulus: Poly | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """`length` places of a dimension share what the form says. divided: what must be 0 or more for that."""

    dim: int
    length: int
    divided: Poly


@dataclass(frozen=True, slots=True)
class Form:
    """``base + offset + Σ lanes[d]·r_d`` where all guards hold. base: a pointer, None for numbers."""

    offset: Poly
    lanes: Mapping[int, Poly] = field(default_factory=dict[int, Poly])
    base: Value | None = None
    guards: tuple[Guard, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether all elements are the same number."""
        return not self.lanes and not self.guards and self.base is None

    def times(self, factor: Poly) -> Form:
        """Every part multiplied; numbers only."""
        lanes = {dim: product for dim, poly in self.lanes.items() if (product := poly * factor) != ZERO}
        return replace(self, offset=self.offset * factor, lanes=lanes, runs=self.runs if lanes else ())

    def run(self, dim: int) -> int:
        """How many places of a dimension share a number."""
        return next((run.length for run in self.runs if run.dim == dim), 1)

    def plus(self, other: Form) -> Form | None:
        """The sum; at most one of the two is a pointer.

        None where places share numbers in one and not in the other, or where runs cancel: what they ask for stays.
        """
        if any(self.run(dim) != other.run(dim) for dim in self.lanes.keys() & other.lanes.keys()):
            return None
        lanes = dict(self.lanes)
        for dim, poly in other.lanes.items():
            lanes[dim] = lanes.get(dim, ZERO) + poly
        lanes = {dim: poly for dim, poly in lanes.items() if poly != ZERO}
        guards = tuple(dict.fromkeys((*self._beside(other), *other._beside(self))))
        runs = tuple(dict.fromkeys((*self.runs, *other.runs)))
        if any(run.dim not in lanes for run in runs):
            return None
        return Form(self.offset + other.offset, lanes, self.base or other.base, guards, runs)

    def divided(self, number: int, sizes: Sequence[int], towards_zero: bool) -> Form | None:
        """A range of numbers, each divided by `number`, where whole runs of places share the result.

        towards_zero: as ``//`` in a kernel rounds, which is another way below 0.
        """
        if len(self.lanes) != 1 or self.guards or self.runs or self.base is not None:
            return None
        ((dim, lane),) = self.lanes.items()
        first = self.offset.divided_by(constant(number))
        if lane != ONE or first is None or sizes[dim] % number:
            return None
        return Form(first, dict(self.lanes), runs=(Run(dim, number, self.offset if towards_zero else ZERO),))

    def _beside(self, other: Form) -> tuple[Guard, ...]:
        """The guards, in a sum with `other`."""
        apart = [guard for guard in self.guards if guard.dim in other.lanes and guard not in other.guards]
        return tuple(replace(guard, whole=False) if guard in apart else guard for guard in self.guards)

    def moved(self, places: Mapping[int, int]) -> Form:
        """The same with other dimensions: `places` says where each goes; one it leaves out has size one."""
        lanes = {places[dim]: poly for dim, poly in self.lanes.items() if dim in places}
        guards = tuple(replace(guard, dim=places[guard.dim]) for guard in self.guards)
        runs = tuple(replace(run, dim=places[run.dim]) for run in self.runs)
        return replace(self, lanes=lanes, guards=guards, runs=runs)


def splat_number(op: Operation) -> int | None:
    """The integer of a constant, scalar or the same in all elements."""
    text = op.properties["value"]
    if text.startswith("dense<"):
        text = text[len("dense<") : text.index(">")]
    try:
        return read_int(text)
    except ValueError:
        return None


def moved_dims(op: Operation) -> dict[int, int] | None:
    """Where each dimension of the operand goes, those of size one left out; None where one is taken apart."""
    source, target = shape_of(op.operands[0]), shape_of(op.result)
    match op.name:
        case "tt.expand_dims":
            axis = read_int(op.properties["axis"])
            return {dim: dim + (dim >= axis) for dim, size in enumerate(source) if size > 1}
        case "tt.trans":
            order = read_array(op.properties["order"])
            return {dim: place for place, dim in enumerate(order) if source[dim] > 1}
        case "tt.broadcast":
            return {dim: dim for dim, size in enumerate(source) if size > 1}
        case "tt.reshape":
            before = [dim for dim, size in enumerate(source) if size > 1]
            after = [dim for dim, size in enumerate(target) if size > 1]
            same = [source[dim] for dim in before] == [target[dim] for dim in after]
            return dict(zip(before, after, strict=True)) if same and "allow_reorder" not in op.properties else None
        case _:
            return None


__all__ = ["Form", "Guard", "Run", "moved_dims", "splat_number"]
