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
its own. A mask that is uniform over the tile is a *gate*: where it is false, the box is moved out of bounds. Stores
follow the same rules: TMA writes no element that is out of bounds. Where runs of neighbouring elements share an address
(packed weights: row ``r // 8``), the box has one row for each run.

Source of the limits: CUDA driver API, cuTensorMapEncodeTiled; the 16 bytes of a box's start were measured on an H200.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tawa.analysis.rings.loads import TMA_BYTES
from tawa.analysis.tma.accesses import NotABox, bytes_of, element_of, mask_of, tile_of
from tawa.dialects.arith import is_zero
from tawa.dialects.tt import LoadOp
from tawa.ir import Operation, Value, shape_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import AffineTile, Bound, Guard
from tawa.symbolic.known import LOADED, Proof
from tawa.symbolic.polynomial import ONE, Atom, Monomial, Poly, constant
from tawa.symbolic.value_ranges import ValueRanges

OPEN = 0x7FFF0000
"""The size of a dimension without a bound; Triton's own ragged descriptors use the same."""
BOX_BYTES = 16
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
    whether whole boxes wrap around at the size; then the index is taken modulo the size.
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


@dataclass(frozen=True, slots=True)
class Box:
    """A load or a store as a box.

    base, offset: the tensor starts at `base + offset` (offset in elements). dims: slowest first. gates: the access
    touches memory only where each is > 0. proof: the premises under which the access is this box.
    """

    access: Operation
    base: Value
    offset: Poly
    dims: tuple[BoxDim, ...]
    gates: tuple[Poly, ...]
    element: str
    proof: Proof

    @property
    def element_bytes(self) -> int:
        """The size of an element."""
        return bytes_of(self.element)

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of the box."""
        return tuple(dim.block for dim in self.dims)


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
        self._arguments, self._taken = {}, {}
        element = element_of(access)
        address = self.affine.tile(access.operands[0])
        if address is None:
            raise NotABox(
                "its address is not affine: not the sum of a pointer and, for each dimension, a stride times the place",
                "compute it as base + rows[:, None] * stride + columns[None, :], with rows and columns in steps of one",
            )
        if address.base is None:
            raise NotABox("the address has no base pointer")
        bounds = self._mask(access)
        guards = (*address.guards, *(guard for bound in bounds for guard in bound.guards))
        self._check_runs(access, address, bounds)
        self._check_wraps(access, guards)
        dims, rest = self._tile_dims(access, address, bounds, guards, bytes_of(element))
        offset, extra = self._extra_dims(access, rest)
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
        return Box(access, address.base, offset, everything, gates, element, proof)

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
        """Where elements of the tile share an address, the mask must bound them from above only."""
        for run in address.runs:
            self._prove_index(access, run.divided, "the dividend in the index")
            for bound in bounds:
                if bound.dim == run.dim and (bound.kind == "lower" or (bound.kind == "upper" and bound.guards)):
                    reason = f"{run.length} elements of the tile share an address, and the mask may cut between them"
                    raise NotABox(reason, _MASK_CURE)

    def _certain(self, bound: Bound, at: Operation) -> bool:
        """Whether a bound is proved, without any premise, wherever the access is executed."""
        proof = self.facts.positive(bound.room, at)
        return proof is not None and not proof.arguments and not proof.taken

    # -- dimensions of the tile ------------------------------------------------------------------------------------

    def _tile_dims(
        self, access: Operation, address: AffineTile, bounds: tuple[Bound, ...], guards: tuple[Guard, ...], width: int
    ) -> tuple[list[BoxDim], Poly]:
        """The dimensions of the tile, slowest first, and the rest of the address."""
        shape = _shape(access, address)
        order = self._order(access, address, width)
        rest, found = address.offset, dict[int, BoxDim]()
        for dim in order:
            stride = address.lanes[dim]
            upper = [bound for bound in bounds if bound.kind == "upper" and bound.dim == dim]
            masked = dict.fromkeys(bound.room for bound in upper)
            # A comparison with guards says nothing beyond them, so that only bounds without guards imply a guard.
            unguarded = {bound.room for bound in upper if not bound.guards}
            open_guards = dict.fromkeys(guard for guard in guards if guard.dim == dim and guard.room not in unguarded)
            if masked or open_guards:
                rooms = tuple(dict.fromkeys((*masked, *(guard.room for guard in open_guards))))
                index, sizes = self._bounded(access, stride, rooms, dim, bounds)
                index = self._in_runs(index, address.run(dim))
                found[dim] = BoxDim(stride, sizes, index, shape[dim], dim, guards=tuple(open_guards))
                rest = rest - stride * index
        for dim in sorted(order, key=lambda at: _rank(address.lanes[at])):
            if dim not in found:
                index, rest = self._unbounded(access, address.lanes, dim, rest)
                found[dim] = BoxDim(address.lanes[dim], (), index, shape[dim], dim)
        self._check_loaded_offset(access, [found[dim] for dim in order])
        tile = [self._above_zero(access, found[dim], address, bounds) for dim in order]
        return [replace(dim, run=address.run(dim.tile or 0)) for dim in tile], rest

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

    def _order(self, access: Operation, address: AffineTile, width: int) -> list[int]:
        """The dimensions of the tile with more than one element, the contiguous one last."""
        shape = shape_of(tile_of(access))
        dims = [dim for dim, size in enumerate(shape) if size > 1]
        for dim in dims:
            if dim not in address.lanes:
                raise NotABox(f"all elements along dimension {dim} of the tile have the same address", "load it once")
        inner = [dim for dim in dims if address.lanes[dim] == ONE]
        if len(inner) != 1:
            what = "no dimension" if not inner else "more than one dimension"
            reason = f"{what} of the tile is contiguous in memory (stride 1)"
            raise NotABox(
                reason, "pass the tensor with a stride of 1, known when the kernel is compiled, in one dimension"
            )
        block = _shape(access, address)[inner[0]]
        if block * width < BOX_BYTES:
            raise NotABox(
                f"{block} elements in a row are fewer than the {BOX_BYTES} bytes of a TMA box", "larger blocks"
            )
        return [*(dim for dim in dims if dim != inner[0]), inner[0]]

    def _bounded(
        self, access: Operation, stride: Poly, rooms: tuple[Poly, ...], dim: int, bounds: tuple[Bound, ...]
    ) -> tuple[Poly, tuple[Poly, ...]]:
        """Splits ``room = size - index`` into the index and the sizes: fixed terms belong to the size.

        If the mask also has a lower bound, that bound defines the index.
        """
        self._check_fixed(stride, "a stride")
        for bound in bounds:
            if bound.kind == "lower" and bound.dim == dim and not self._certain(bound, access):
                index = bound.room - ONE
                sizes = tuple(room + index for room in rooms)
                for size in sizes:
                    self._check_fixed(size, "a bound")
                return index, sizes
        parts = [self._parted(room) for room in rooms]
        index = -parts[0][1]
        if len({moving for _, moving in parts}) != 1:
            raise NotABox(f"two bounds of dimension {dim} of the tile have different indices", _MASK_CURE)
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

    def _unbounded(self, access: Operation, strides: Mapping[int, Poly], dim: int, rest: Poly) -> tuple[Poly, Poly]:
        """The index of a dimension without a mask, and the remaining terms of the address."""
        stride = strides[dim]
        self._check_fixed(stride, "a stride")
        moving = Poly.of((mono, factor) for mono, factor in rest.terms if not self._all(mono, self.in_offset))
        if stride != ONE:
            index, _ = moving.parted_by(stride)
            if not self._plain(index, access):
                index, _ = rest.parted_by(stride)
            return index, rest - index * stride
        numbers = [abs(other.number) for at, other in strides.items() if at != dim and other.number]
        limit = min(numbers, default=_FAR)
        index = Poly.of(
            (monomial, factor)
            for monomial, factor in moving.terms
            if abs(factor) < limit and not self._is_strided(Poly(((monomial, factor),)))
        )
        if not self._plain(index, access) and not self.affine.atoms.wide(rest - moving):
            index = index + rest - moving
        return index, rest - index

    def _is_strided(self, term: Poly) -> bool:
        """Whether a term of an address selects a row: it needs 64 bits, or has a stride of its own."""
        return self.affine.atoms.wide(term) or any(self.in_size(atom) for atom in self.affine.atoms.of(term))

    def _above_zero(self, access: Operation, dim: BoxDim, address: AffineTile, bounds: Iterable[Bound]) -> BoxDim:
        """Checks that no index below 0 is read unless the mask excludes it; fills in `last` and `masked`."""
        lower = [bound for bound in bounds if bound.kind == "lower" and bound.dim == dim.tile]
        proved = any(bound.room == dim.index + ONE and not bound.guards for bound in lower)
        for bound in lower:
            if bound.room != dim.index + ONE and not self._certain(bound, access):
                reason = f"the lower bound of dimension {dim.tile} of the tile is not the start of the tensor"
                raise NotABox(reason, "let the mask bound the index from above, and from below only by 0")
        if not proved:
            self._prove_index(access, dim.index, f"the index along dimension {dim.tile} of the tile")
        rooms = [guard.room for guard in dim.guards]
        upper = [bound for bound in bounds if bound.kind == "upper" and bound.dim == dim.tile]
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
                f"{what}, {self.affine.atoms.text(index)}, may be negative, and TMA reads zero there",
                "state tl.assume(index >= 0) for the index of the block",
            )
        self._arguments.update(dict.fromkeys(proof.arguments))
        self._taken.update(dict.fromkeys(proof.taken))

    # -- the remaining terms of the address ------------------------------------------------------------------------

    def _extra_dims(self, access: Operation, rest: Poly) -> tuple[Poly, list[BoxDim]]:
        """The offset of the base, and one dimension for each stride among the terms that are not fixed."""
        groups: dict[tuple[Monomial, int], list[tuple[Monomial, int]]] = {}
        fixed: list[tuple[Monomial, int]] = []
        for monomial, factor in rest.terms:
            if self._all(monomial, self.in_offset):
                fixed.append((monomial, factor))
                continue
            known = tuple(atom for atom in monomial if self.in_size(self.affine.atoms[atom]))
            moving = tuple(atom for atom in monomial if atom not in known)
            groups.setdefault((known, 0 if known else abs(factor)), []).append((moving, factor))
        dims: list[BoxDim] = []
        for (known, _), terms in groups.items():
            scale = Poly.of(terms).content()
            stride = Poly.of([(known, scale)])
            index = Poly.of((moving, factor // scale) for moving, factor in terms)
            if not self._plain(index, access):
                whole, left = Poly.of(fixed).parted_by(stride)
                index, fixed = index + whole, list(left.terms)
            self._prove_index(access, index, "an index in front of the tile")
            dims.append(BoxDim(stride, (), index, 1, None, self.facts.greatest(index)))
        return Poly.of(fixed), dims

    def _check_alignment(self, inner: BoxDim, width: int) -> None:
        """Checks that the innermost index is always a multiple of 16 bytes: otherwise TMA traps."""
        multiple = self.facts.multiple(inner.index)
        if multiple * width % BOX_BYTES:
            raise NotABox(
                f"the innermost index, {self.affine.atoms.text(inner.index)}, is only known to be a multiple of "
                f"{multiple * width} bytes, and TMA needs {BOX_BYTES}",
                "let blocks begin at multiples of 16 bytes; tl.multiple_of states what Triton cannot derive",
            )


def _shape(access: Operation, address: AffineTile) -> tuple[int, ...]:
    """The shape of the box for the tile of an access."""
    return tuple(size // address.run(dim) for dim, size in enumerate(shape_of(tile_of(access))))


def _rank(stride: Poly) -> tuple[bool, int]:
    """The order in which strides claim terms of the address: symbolic strides first, then the greatest constants."""
    number = stride.number
    return number is not None, -(number or 0)


__all__ = ["BOX_BYTES", "MAX_RANK", "OPEN", "STRIDE_LIMIT", "Box", "BoxDim", "BoxFinder"]
