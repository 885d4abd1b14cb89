"""Boxes: pointer loads and stores whose tile is provably a box of a strided tensor, so that one TMA copy can move it.

    tl.load(a + rows[:, None] * s + ks[None, :], (rows[:, None] < M) & (ks[None, :] < K), other=0)
                                                          rows = 128·pid + r0, ks = 64·i + r1
    →   base a, dimensions   stride s   size M   index 128·pid   block 128   from dimension 0 of the tile
                             stride 1   size K   index 64·i      block 64    from dimension 1

Each dimension of the tile becomes a dimension of the box. Its mask ``index + r < size`` is split into index and size:
the *fixed* terms (known where the descriptor is made) belong to the size, all others to the index. Without a mask, the
size is *open*: no element is out of bounds. The remaining terms of the address are divided the same way: fixed terms
are added to the base; every other term is a fixed stride times an index and becomes a dimension with a block of one
(batches, heads).

The TMA load gives the same tile as the pointer load if

  - every index is 0 or more, or the mask excludes the elements below 0,
  - the innermost index is a multiple of 16 bytes,
  - the mask fills with zero.

TMA indices have 32 bits. A term that the kernel multiplies in 64 bits selects another row and becomes a dimension of
its own. A mask that is uniform over the tile is a *gate*: where it is false, the box is moved out of bounds. Where runs
of neighbouring elements share an address (packed weights: row ``r // 8``), the box has one row for each run.

Stores follow the same rules, and two more: a TMA store traps if its innermost index is negative, also where the mask
excludes the elements below 0, and it writes nothing out of bounds only if rows end at a multiple of 16 bytes
(`HostSizes.whole_rows`).

Source of the limits: CUDA driver API, cuTensorMapEncodeTiled, and measurements (`tawa.machine.nvidia`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tawa.analysis.rings.loads import TMA_BYTES
from tawa.analysis.tma.accesses import NotABox, bytes_of, element_of, mask_of, tile_of
from tawa.analysis.tma.axes import Axis, axes_of
from tawa.analysis.tma.bound_choices import BoundChoice, BoundChoices, Whole
from tawa.analysis.tma.obstacles import find_obstacle
from tawa.analysis.tma.outer_strides import outer_strides
from tawa.dialects.arith import is_zero
from tawa.dialects.tt import LoadOp, StoreOp
from tawa.ir import Operation, Value, shape_of
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import AffineTile, Bound, Guard
from tawa.symbolic.known import LOADED, Proof
from tawa.symbolic.polynomial import ONE, ZERO, Atom, Monomial, Poly, constant
from tawa.symbolic.quotients import taken_from
from tawa.symbolic.value_ranges import ValueRanges

OPEN = 0x7FFF0000
"""The size of a dimension without a bound; Triton's own ragged descriptors use the same."""
STRIDE_LIMIT = 1 << 40
"""In bytes."""
MAX_RANK = 5
_FAR = 1 << 12
"""A term with at least this factor selects another row; used where the length of a row is unknown."""
_MASK_CURE = "bound it by sizes that are arguments of the kernel: rows[:, None] < M"

Fixed = Callable[[Atom], bool]


@dataclass(frozen=True, slots=True)
class BoxDim:
    """One dimension of the tensor. stride: in elements.

    tile: the corresponding dimension of the tile; None for a dimension of block 1 that the tile does not have. run: how
    many neighbouring elements of the tile read one element of the box. sizes: in elements of the tile; the smallest is
    the bound, and a dimension without sizes is open. last: the greatest index, if known. guards: guards of the address;
    beyond them the pointer load reads other elements. masked: whether the mask bounds the dimension as well. wraps:
    whether whole boxes wrap around at the size; then the index is taken modulo the size. low: whether it is the
    position in runs of elements, whose numbers are another dimension of the box.
    """

    stride: Poly
    sizes: tuple[Poly, ...]
    index: Poly
    block: int
    tile: int | None
    last: int | None = None
    guards: tuple[Guard, ...] = ()
    masked: bool = False
    wraps: bool = False
    run: int = 1
    low: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A load or a store as a box.

    base, offset: the tensor starts at `base + offset` (offset in elements). dims: slowest first. gates: the access
    touches memory only where each is > 0. proof: the premises under which the access is this box; wholes: those that a
    launch checks.
    """

    access: Operation
    base: Value
    offset: Poly
    dims: tuple[BoxDim, ...]
    gates: tuple[Poly, ...]
    element: str
    proof: Proof
    wholes: tuple[Whole, ...] = ()

    @property
    def element_bytes(self) -> int:
        """The size of an element."""
        return bytes_of(self.element)

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of the box."""
        return tuple(dim.block for dim in self.dims)

    def repeats(self, dim: BoxDim) -> int:
        """How often the tile repeats each element along a dimension, next to each other."""
        return 1 if any(other.low and other.tile == dim.tile for other in self.dims) else dim.run


@dataclass(slots=True)
class BoxFinder:
    """Finds boxes in one function.

    in_size: which atoms are fixed in sizes and strides; in_offset: which are fixed in the offset of the base. All other
    atoms must be part of an index.
    """

    affine: Affine
    facts: ValueRanges
    in_size: Fixed
    in_offset: Fixed
    _arguments: dict[Value, None] = field(default_factory=dict[Value, None])
    _taken: dict[str, None] = field(default_factory=dict[str, None])

    def find(self, access: Operation) -> Box:
        """The box of a load or a store; raises NotABox."""
        element = element_of(access)
        address = self.affine.tile(access.operands[0])
        if address is None:
            found = find_obstacle(self.affine, access.operands[0])
            raise NotABox(found.reason, found.cure, found.op)
        if address.base is None:
            raise NotABox("the address has no base pointer")
        choices = BoundChoices(self.affine, self.facts, self.in_size)
        bounds = choices.taken_apart(self._mask(access))
        first: NotABox | None = None
        for choice in choices.of(bounds, shape_of(tile_of(access))):
            try:
                return self._bounded_box(access, element, address, choice)
            except NotABox as why:
                first = first or why
        assert first is not None
        raise first

    def _bounded_box(self, access: Operation, element: str, address: AffineTile, choice: BoundChoice) -> Box:
        """The box of an access under one reading of its mask; raises NotABox."""
        assert address.base is not None
        self._arguments, self._taken = {}, {}
        bounds = choice.bounds
        guards = (*address.guards, *(guard for bound in bounds for guard in bound.guards))
        self._check_runs(access, address, bounds)
        self._check_wraps(access, guards)
        dims, rest = self._tile_dims(access, address, bounds, guards, bytes_of(element))
        offset, extra = self._extra_dims(access, rest, MAX_RANK - len(dims))
        everything = (*extra, *dims)
        if len(everything) > MAX_RANK:
            raise NotABox(f"{len(everything)} dimensions: a TMA descriptor has at most {MAX_RANK}")
        if any(abs(factor) >> 31 for dim in everything for _, factor in dim.index.terms):
            raise NotABox("one of its indices needs more than 32 bits")
        gates = tuple(bound.room for bound in bounds if bound.kind == "uniform" and not self._certain(bound, access))
        self._check_alignment(dims[-1], bytes_of(element))
        bytes = bytes_of(element) * prod(dim.block for dim in dims)
        if bytes % TMA_BYTES:
            raise NotABox(
                f"its {bytes} bytes are not a multiple of the {TMA_BYTES} at which TMA writes", "larger blocks"
            )
        proof = Proof(tuple(self._arguments), tuple(self._taken))
        return Box(access, address.base, offset, everything, gates, element, proof, choice.wholes)

    # -- the mask --------------------------------------------------------------------------------------------------

    def _mask(self, access: Operation) -> tuple[Bound, ...]:
        view = LoadOp.of(access)
        mask = mask_of(access)
        if mask is None:
            return ()
        bounds = self.affine.bounds(mask)
        if bounds is None:
            raise NotABox("the mask is not a conjunction of bounds of one dimension each", _MASK_CURE)
        if bounds and view and view.other is not None and not is_zero(view.other):
            reason = "the mask fills with something other than zero, and TMA fills with zero"
            raise NotABox(reason, "use other=0.0, and insert the other value by tl.where")
        return bounds

    def _check_runs(self, access: Operation, address: AffineTile, bounds: tuple[Bound, ...]) -> None:
        """Quotients must not round up, and the mask must not cut runs of elements that share an address."""
        for divided in (*(run.divided for run in address.runs), *(it for bound in bounds for it in bound.divided)):
            self._prove_index(access, divided, "the dividend in the index")
        for run in (run for run in address.runs if run.length > 1):
            for bound in (bound for bound in bounds if bound.dim == run.dim and not bound.low):
                if bound.kind == "lower" or (bound.kind == "upper" and bound.guards):
                    reason = f"{run.length} elements of the tile share an address, and the mask may cut between them"
                    raise NotABox(reason, _MASK_CURE)
            if any(bound.low not in (0, run.length) for bound in bounds if bound.dim == run.dim):
                raise NotABox(f"the mask takes dimension {run.dim} of the tile apart in another way than the address")

    def _certain(self, bound: Bound, at: Operation) -> bool:
        """Whether a bound is proved, without any premise, wherever the access is executed."""
        proof = self.facts.positive(bound.room, at)
        return proof is not None and not proof.arguments and not proof.taken

    # -- dimensions of the tile ------------------------------------------------------------------------------------

    def _tile_dims(
        self, access: Operation, address: AffineTile, bounds: tuple[Bound, ...], guards: tuple[Guard, ...], width: int
    ) -> tuple[list[BoxDim], Poly]:
        """The dimensions of the tile, slowest first, and the rest of the address."""
        for dim in address.dims:
            self._check_direction(access, dim, (address.lanes.get(dim, ZERO), address.within.get(dim, ZERO)))
        axes = axes_of(address, shape_of(tile_of(access)), width)
        rest, found = address.offset, dict[Axis, BoxDim]()
        for axis in axes:
            upper = [bound for bound in bounds if bound.kind == "upper" and axis.has(bound)]
            masked = dict.fromkeys(bound.room for bound in upper)
            # A comparison with guards says nothing beyond them, so that only bounds without guards imply a guard.
            unguarded = {bound.room for bound in upper if not bound.guards}
            of_axis = [guard for guard in guards if guard.dim == axis.dim and not axis.low]
            open_guards = dict.fromkeys(guard for guard in of_axis if guard.room not in unguarded)
            if masked or open_guards:
                rooms = tuple(dict.fromkeys((*masked, *(guard.room for guard in open_guards))))
                index, sizes = self._bounded(access, axis, rooms, bounds)
                index = self._in_runs(index, axis.run)
                found[axis] = _dim(axis, sizes, index, tuple(open_guards))
                rest = rest - axis.stride * index
        for axis in sorted(axes, key=lambda at: at.rank):
            if axis not in found:
                index, rest = self._unbounded(access, [other.stride for other in axes if other != axis], axis, rest)
                found[axis] = _dim(axis, (), index)
        self._check_loaded_offset(access, [found[axis] for axis in axes])
        return [self._above_zero(access, axis, found[axis], address, bounds) for axis in axes], rest

    def _check_direction(self, access: Operation, dim: int, strides: tuple[Poly, ...]) -> None:
        """Declines a dimension that is read backwards: the strides of a descriptor are positive."""
        for stride in strides:
            if stride != ZERO and self.facts.not_negative(-stride, access) is not None:
                text = self.affine.atoms.text(stride)
                reason = f"dimension {dim} of the tile is read backwards, with a stride of {text}; TMA reads forwards"
                raise NotABox(reason, "load the rows forwards, and turn them around where the result is stored")

    def _check_loaded_offset(self, access: Operation, dims: Sequence[BoxDim]) -> None:
        """Declines an unmasked innermost offset that the kernel loads: it may point to a row before the tile's first.

        A mask keeps such an offset in its row.
        """
        proof = self.facts.not_negative(dims[-1].index, access) if not dims[-1].sizes else None
        if proof and LOADED in proof.taken and any(dim.index.number is None for dim in dims[:-1]):
            reason = "an offset in elements that the kernel loads is added to rows that move, and may point before them"
            raise NotABox(reason, "load the index of a row instead, or state tl.assume(offset >= 0)")

    def _check_wraps(self, access: Operation, guards: tuple[Guard, ...]) -> None:
        """The dividend of a remainder must be 0 or more: the remainder of a negative number is negative."""
        for guard in guards:
            if guard.modulus is not None:
                self._prove_index(access, guard.modulus - guard.room, "the index that wraps around")

    def _bounded(
        self, access: Operation, axis: Axis, rooms: tuple[Poly, ...], bounds: tuple[Bound, ...]
    ) -> tuple[Poly, tuple[Poly, ...]]:
        """Splits ``room = size - index`` into the index and the sizes: fixed terms belong to the size.

        If the mask also has a lower bound, that bound defines the index.
        """
        self._check_fixed(axis.stride, "a stride")
        for bound in bounds:
            if bound.kind == "lower" and axis.has(bound) and not self._certain(bound, access):
                index = bound.room - ONE
                sizes = tuple(room + index for room in rooms)
                for size in sizes:
                    self._check_fixed(size, "a bound")
                return index, sizes
        parts = [self._parted(room) for room in rooms]
        index = -parts[0][1]
        if len({moving for _, moving in parts}) != 1:
            first, *others = (f"less than {self.affine.atoms.text(room)}" for room in rooms)
            text = f"positions along dimension {axis.dim} of the tile must be {first} and {' and '.join(others)}"
            raise NotABox(
                f"{text}: a box has one bound in each dimension, and tiles may cross the other",
                "let blocks divide one of the bounds; tl.multiple_of states what Triton cannot derive",
            )
        if not self._plain(index, access):
            whole = Poly.of((monomial, -factor) for monomial, factor in rooms[0].terms if factor < 0)
            for other in (whole, self.facts.counted_from_the_end(index, access)):
                if all(self._is_fixed(room + other) for room in rooms):
                    index = other
                    break
        return index, tuple(room + index for room in rooms)

    def _in_runs(self, index: Poly, length: int) -> Poly:
        """Converts an index in elements of the tile to elements of the box."""
        found = index.divided_by(constant(length))
        if found is None:
            text = self.affine.atoms.text(index)
            raise NotABox(f"{length} elements of the tile share an address, and the mask begins at {text}", _MASK_CURE)
        return found

    def _plain(self, index: Poly, access: Operation) -> bool:
        """Whether an index is proved to be 0 or more without assuming anything about memory or divisors.

        Otherwise it must not be split: a part of a sum may be negative even if the sum is assumed to be 0 or more.
        """
        proof = self.facts.not_negative(index, access)
        return proof is not None and not proof.taken

    def _is_fixed(self, poly: Poly) -> bool:
        return all(self.in_size(atom) for atom in self.affine.atoms.of(poly))

    def _parted(self, room: Poly) -> tuple[Poly, Poly]:
        """The terms that belong to a size, and the others."""
        fixed = [(monomial, factor) for monomial, factor in room.terms if self._all(monomial, self.in_size)]
        return Poly.of(fixed), room - Poly.of(fixed)

    def _all(self, monomial: Monomial, test: Fixed) -> bool:
        return all(test(self.affine.atoms[index]) for index in monomial)

    def _check_fixed(self, poly: Poly, what: str) -> None:
        for atom in self.affine.atoms.of(poly):
            if not self.in_size(atom):
                text = self.affine.atoms.text(poly)
                reason = f"{what}, {text}, is not known where the descriptor is made"
                raise NotABox(reason, "pass it as an argument of the kernel")

    def _unbounded(self, access: Operation, others: Sequence[Poly], axis: Axis, rest: Poly) -> tuple[Poly, Poly]:
        """The index of an axis without a mask, and the remaining terms of the address. others: the other strides."""
        stride = axis.stride
        self._check_fixed(stride, "a stride")
        moving = Poly.of((mono, factor) for mono, factor in rest.terms if not self._all(mono, self.in_offset))
        if stride != ONE:
            index, _ = moving.parted_by(stride)
            if not self._plain(index, access):
                index, _ = rest.parted_by(stride)
            return index, rest - index * stride
        numbers = [abs(other.number) for other in others if other.number]
        limit = min(numbers, default=_FAR)
        index = Poly.of(
            (monomial, factor)
            for monomial, factor in moving.terms
            if abs(factor) < limit and not self._is_strided(Poly(((monomial, factor),)))
        )
        index = index - taken_from(self.affine, index, moving - index)
        if not self._plain(index, access) and not self.affine.atoms.wide(rest - moving):
            index = index + rest - moving
        return index, rest - index

    def _is_strided(self, term: Poly) -> bool:
        """Whether a term of an address selects a row: it needs 64 bits, or has a stride of its own."""
        return self.affine.atoms.wide(term) or any(self.in_size(atom) for atom in self.affine.atoms.of(term))

    def _above_zero(
        self, access: Operation, axis: Axis, dim: BoxDim, address: AffineTile, bounds: Iterable[Bound]
    ) -> BoxDim:
        """Checks that no index below 0 is read unless the mask excludes it; fills in `last` and `masked`."""
        lower = [bound for bound in bounds if bound.kind == "lower" and axis.has(bound)]
        proved = any(bound.room == dim.index + ONE and not bound.guards for bound in lower)
        for bound in lower:
            if bound.room != dim.index + ONE and not self._certain(bound, access):
                reason = f"the lower bound of dimension {dim.tile} of the tile is not the start of the tensor"
                raise NotABox(reason, "let the mask bound the index from above, and from below only by 0")
        if not proved or (axis.stride == ONE and StoreOp.matches(access)):
            self._prove_index(access, dim.index, f"the index along dimension {dim.tile} of the tile")
        rooms = [guard.room for guard in dim.guards]
        upper = [bound for bound in bounds if bound.kind == "upper" and axis.has(bound)]
        masked = bool(lower) or any(bound.room not in rooms or not bound.guards for bound in upper)
        masked = masked or any(guard not in address.guards for guard in dim.guards)
        return replace(dim, last=self.facts.greatest(dim.index), masked=masked)

    def _prove_index(self, access: Operation, index: Poly, what: str) -> None:
        proof = self.facts.not_negative(index, access)
        if proof is None and any(factor < 0 for _, factor in index.terms) and self.facts.from_memory(index):
            raise NotABox(
                f"a bound of {what} is loaded by the kernel, so that the size of the tensor is not known",
                "pass the size as an argument, or mask the results instead of the load",
            )
        if proof is None:
            raise NotABox(
                f"{what}, {self.affine.atoms.text(index)}, may be negative, and TMA {_below_zero(access)}",
                "state tl.assume(index >= 0) for the index of the block",
            )
        self._arguments.update(dict.fromkeys(proof.arguments))
        self._taken.update(dict.fromkeys(proof.taken))

    # -- the remaining terms of the address ------------------------------------------------------------------------

    def _extra_dims(self, access: Operation, rest: Poly, most: int) -> tuple[Poly, list[BoxDim]]:
        """The offset of the base, and one dimension for each stride among the terms that are not fixed.

        most: the number of dimensions that the descriptor has left. Beyond it, a stride that is a multiple of another
        one joins that dimension.
        """
        fixed = [(monomial, factor) for monomial, factor in rest.terms if self._all(monomial, self.in_offset)]
        moving = rest - Poly.of(fixed)
        dims: list[BoxDim] = []
        for stride, index in outer_strides(moving, self.affine, self.facts, self.in_size, access, most):
            if not self._plain(index, access):
                whole, left = Poly.of(fixed).parted_by(stride)
                index, fixed = index + whole, list(left.terms)
            self._prove_index(access, index, "an index in front of the tile")
            dims.append(BoxDim(stride, (), index, 1, None, self.facts.greatest(index)))
        return Poly.of(fixed), dims

    def _check_alignment(self, inner: BoxDim, width: int) -> None:
        """Checks that the innermost index is always a multiple of 16 bytes: otherwise TMA traps."""
        multiple = self.facts.multiple(inner.index)
        if multiple * width % TMA_CHUNK_BYTES:
            raise NotABox(
                f"the innermost index, {self.affine.atoms.text(inner.index)}, is only known to be a multiple of "
                f"{multiple * width} bytes, and TMA needs {TMA_CHUNK_BYTES}",
                "let blocks begin at multiples of 16 bytes; tl.multiple_of states what Triton cannot derive",
            )


def _below_zero(access: Operation) -> str:
    """What TMA does with a box that begins at a negative index."""
    return "does not store there" if StoreOp.matches(access) else "reads zero there"


def _dim(axis: Axis, sizes: tuple[Poly, ...], index: Poly, guards: tuple[Guard, ...] = ()) -> BoxDim:
    return BoxDim(axis.stride, sizes, index, axis.block, axis.dim, guards=guards, run=axis.run, low=axis.low)
