"""Kernel descriptors: a box's tensor described in the kernel, outside of the loop of the load.

    %d = make_tensor_descriptor (addptr %a, offset), [max(M, 1), K], [s, 1]

One whose pointer is known before all loops stands in the entry block, right behind the last of what it is computed
from. One whose pointer a loop around loads from a table is made in front of what holds the load, in the outermost block
that knows all it needs: once for a group of tiles, or for a tile, which then begins where the tensor does.

A size of 0 or less, which no descriptor can have, becomes 1, and every index is moved far past the end, so that what is
read is still zero. A stride that comes from memory may be anything: `Checked.limits` says what must hold of it for the
descriptor to be used at all, and where that does not hold the descriptor is one of 16 bytes a row, which no copy uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tawa.analysis.accesses import NotABox
from tawa.analysis.affine import Affine
from tawa.analysis.box import BOX_BYTES, OPEN, STRIDE_LIMIT, Box, BoxDim
from tawa.analysis.facts import Facts, Proof
from tawa.analysis.polynomials import Atom, Poly
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Builder, Operation, Value
from tawa.transforms.added_arguments import descriptor_type
from tawa.transforms.materialize import Materializer, arithmetic, cast, is_known, last_of

_CURE = "let the stride be a multiple of 16, which Triton sees at the launch, or have the launcher make the descriptor"
_PADDING = {"padding": "1 : i32"}  # zero
_BEYOND = 1 << 30  # an index that is past every size that is 1, and a multiple of 16 bytes


@dataclass(frozen=True, slots=True)
class Limit:
    """What must hold of a stride at run time: 1 or more, and less than `below` elements."""

    stride: Poly
    below: int


@dataclass(frozen=True, slots=True)
class Checked:
    """Why a descriptor can be made: what is taken for granted, and what the kernel has to ask before it uses it."""

    proof: Proof
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a descriptor is made: in the block of `before`, which is or holds the load, and in front of it.

    of_tile: whether the tensor begins where the tile does, and ends where its mask does: then nothing need be known of
    the place of the tile in a larger one.
    """

    function: FuncOp
    affine: Affine
    before: Operation
    of_tile: bool = False

    @property
    def block(self) -> Block:
        """The block."""
        assert self.before.parent is not None
        return self.before.parent

    def knows(self, value: Value) -> bool:
        """Whether a value is there."""
        return is_known(value, Builder.before(self.before))

    def version(self, atom: Value) -> Value | None:
        """One of the values that an atom stands for which is there."""
        return next((it for it in self.affine.atoms.versions(atom) if self.knows(it)), None)

    def in_offset(self, atom: Atom) -> bool:
        """Whether a scalar is known there."""
        if not isinstance(atom, Value) or width_of(atom.type) in (None, 1):
            return False
        return self.version(atom) is not None

    def in_size(self, atom: Atom) -> bool:
        """Whether, in addition, it has nothing to do with which program or iteration this is: a size, not a place."""
        if not self.in_offset(atom) or not isinstance(atom, Value):
            return False
        op = atom.defining_op
        if self.of_tile:
            return True
        if op is None:
            return atom.owner is self.function.body
        if op.name == "tt.load":
            return True
        if not op.name.startswith("arith."):
            return False
        polys = [self.affine.poly(operand) for operand in op.operands]
        return all(self.in_size(inner) for poly in polys for inner in self.affine.atoms.of(poly))


class KernelDescriptors:
    """Descriptors made in one function."""

    def __init__(self, function: FuncOp, affine: Affine) -> None:
        self.function, self.affine = function, affine
        self._made: dict[tuple[object, ...], tuple[Value, list[Value | None]]] = {}

    def places(self, load: Operation, base: Value) -> list[Place]:
        """Where descriptors for a load may be made, outermost first: its pointer is known, and its loop is not begun.

        Last comes one of the tile alone. Memory of an argument is described before all loops, or not at all.
        """
        loop = enclosing_loops(load)[0]
        holders = [load, *load.ancestors()]
        inside = holders[holders.index(loop) : holders.index(self.function.op)]
        found = [Place(self.function, self.affine, holder) for holder in reversed(inside)]
        known = [place for place in found if place.knows(base)]
        if base.owner is self.function.body:
            return known[:1]
        return [*known, *(replace(place, of_tile=True) for place in known[-1:])]

    def check(self, box: Box, facts: Facts) -> Checked:
        """All that the host would check at a launch must be known here, or be asked; raises NotABox."""
        width = box.element_bytes
        if facts.value_multiple(box.base) % BOX_BYTES:
            cure = "pass tensors that are aligned; of pointers from memory tl.multiple_of says so"
            raise NotABox("its pointer is not known to be a multiple of 16 bytes", cure)
        if facts.multiple(box.offset) * width % BOX_BYTES:
            start = self.affine.atoms.text(box.offset)
            raise NotABox(f"its tensor begins at element {start}, not known to be a multiple of 16 bytes", _CURE)
        for dim in box.dims[:-1]:
            if facts.multiple(dim.stride) * width % BOX_BYTES:
                stride = self.affine.atoms.text(dim.stride)
                raise NotABox(f"its stride {stride} is not known to be a multiple of 16 bytes", _CURE)
        for dim in box.dims:
            if any(facts.multiple(size) % dim.run for size in dim.sizes):
                raise NotABox(f"its mask is not known to be a multiple of the {dim.run} that share an address", _CURE)
        limits = self._limits(box, facts)
        asked = [limit.stride for limit in limits]
        proofs = [facts.not_negative(dim.stride, box.access) for dim in box.dims if dim.stride not in asked]
        known = [proof for proof in proofs if proof is not None]
        if len(known) < len(proofs):
            raise NotABox("a stride may be negative, which a TMA descriptor cannot have", _CURE)
        arguments = dict.fromkeys(argument for proof in known for argument in proof.arguments)
        taken = dict.fromkeys(text for proof in known for text in proof.taken)
        return Checked(Proof(tuple(arguments), tuple(taken)), limits)

    def _limits(self, box: Box, facts: Facts) -> tuple[Limit, ...]:
        """The strides from memory of which nobody knows that TMA takes them."""
        below = STRIDE_LIMIT // box.element_bytes
        found: dict[Limit, None] = {}
        for dim in box.dims[:-1]:
            if not facts.from_memory(dim.stride):
                continue
            proof, most = facts.positive(dim.stride, box.access), facts.greatest(dim.stride)
            small = not self.affine.atoms.wide(dim.stride) or (most is not None and most < below)
            if proof is None or proof.arguments or proof.taken or not small:
                found[Limit(dim.stride, below)] = None
        return tuple(found)

    def make(
        self, box: Box, place: Place, limits: Sequence[Limit], numbers: Materializer, nested: bool
    ) -> tuple[Value, Sequence[Value | None]]:
        """The descriptor of a box, and what is to be added to each index; equal ones are made once."""
        dims = tuple((dim.stride, dim.sizes, dim.run, dim.last, dim.block) for dim in box.dims)
        key = (place.before, box.base, box.offset, dims)
        if key not in self._made:
            self._made[key] = self._make(box, place, limits, numbers, nested)
        return self._made[key]

    def _make(
        self, box: Box, place: Place, limits: Sequence[Limit], numbers: Materializer, nested: bool
    ) -> tuple[Value, list[Value | None]]:
        builder = self._point(box, place)
        sizes: list[Value] = []
        shifts: list[Value | None] = []
        for dim in box.dims:
            size, shift = self._size(dim, numbers, builder)
            sizes.append(size)
            shifts.append(shift)
        strides = [self._stride(dim.stride, limits, box.element_bytes, numbers, builder) for dim in box.dims]
        base = box.base
        if box.offset.terms:
            offset = numbers.number(box.offset, builder, "i64", "offset")
            base = builder.create("tt.addptr", (base, offset), (base.type,), hints=(base.hint,)).result
        type = descriptor_type(box.block, box.element, nested)
        made = builder.create(
            "tt.make_tensor_descriptor", (base, *sizes, *strides), (type,), properties=dict(_PADDING), hints=("desc",)
        )
        return made.result, shifts

    def _size(self, dim: BoxDim, numbers: Materializer, builder: Builder) -> tuple[Value, Value | None]:
        """The size of a dimension, at least 1, and how far its indices are moved where it was less."""
        if not dim.sizes:
            last = OPEN if dim.last is None else min(OPEN, dim.last + dim.block)
            return builder.constant(last), None
        if len(dim.sizes) == 1 and (dim.sizes[0].number or 0) > 0 and dim.run == 1:
            return self._number(dim.sizes[0], numbers, builder), None
        size: Value | None = None
        for poly in dim.sizes:
            value = self._number(poly, numbers, builder)
            if dim.run > 1:
                value = arithmetic(builder, "arith.divsi", value, builder.constant(dim.run), "size")
            size = value if size is None else arithmetic(builder, "arith.minsi", size, value, "size")
        assert size is not None
        some = arithmetic(builder, "arith.maxsi", size, builder.constant(1), "size")
        zero, beyond = builder.constant(0), builder.constant(_BEYOND)
        holds = builder.create("arith.cmpi", (size, zero), ("i1",), properties={"predicate": "4 : i64"}).result
        return some, builder.create("arith.select", (holds, zero, beyond), ("i32",), hints=("shift",)).result

    def _number(self, poly: Poly, numbers: Materializer, builder: Builder) -> Value:
        """A size, the greatest there can be where it is greater still."""
        if not self.affine.atoms.wide(poly):
            return numbers.number(poly, builder, "i32", "size")
        size = numbers.number(poly, builder, "i64", "size")
        size = arithmetic(builder, "arith.minsi", size, builder.constant(OPEN, "i64"), "size")
        return cast(builder, size, "i32")

    def _stride(
        self, stride: Poly, limits: Sequence[Limit], width: int, numbers: Materializer, builder: Builder
    ) -> Value:
        value = numbers.number(stride, builder, "i64", "stride")
        limit = next((limit for limit in limits if limit.stride == stride), None)
        if limit is None:
            return value
        holds, least = holds_at(builder, limit, numbers), builder.constant(BOX_BYTES // width, "i64")
        return builder.create("arith.select", (holds, value, least), ("i64",), hints=("stride",)).result

    def _point(self, box: Box, place: Place) -> Builder:
        """In a loop right in front of the load's; in the entry block behind the last that the descriptor needs."""
        if place.block is not self.function.body:
            return Builder.before(place.before)
        needed: list[Value] = [box.base]
        for poly in (box.offset, *(part for dim in box.dims for part in (dim.stride, *dim.sizes))):
            atoms = [atom for atom in self.affine.atoms.of(poly) if isinstance(atom, Value)]
            needed += [made for atom in atoms if (made := place.version(atom)) is not None]
        last: Operation | None = last_of(needed, self.function.body.ops)
        return Builder.after(last) if last is not None else Builder.at_start(self.function.body, box.access.loc)


def holds_at(builder: Builder, limit: Limit, numbers: Materializer) -> Value:
    """Whether a limit is kept, as an i1."""
    stride = numbers.number(limit.stride, builder, "i64", "stride")
    # Below nothing as an unsigned number: what is 0 or less becomes the greatest there is.
    less = arithmetic(builder, "arith.subi", stride, builder.constant(1, "i64"))
    most = builder.constant(limit.below - 1, "i64")
    unsigned_less = {"predicate": "6 : i64"}
    return builder.create("arith.cmpi", (less, most), ("i1",), properties=unsigned_less, hints=("fits",)).result


__all__ = ["Checked", "KernelDescriptors", "Limit", "Place", "holds_at"]
