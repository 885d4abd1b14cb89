"""Descriptor places: where in the kernel a box's tensor may be described, and why it can be described there.

    for %tile … { %p = load table; for %k … { load %p + … } }       in front of the inner loop, once for each %tile

Memory of an argument is described before all loops. A pointer that a loop around loads from a table is described in
front of what holds the load, outside of the loop of the load. All that a launch would check must be known when the
kernel is compiled; of a stride that comes from memory, the kernel asks it (`Checked.limits`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.analysis.boxes import BOX_BYTES, STRIDE_LIMIT, Box
from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.available_values import is_known
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import FuncOp, LoadOp
from tawa.ir import Block, Builder, Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Proof
from tawa.symbolic.polynomial import Atom, Poly
from tawa.symbolic.value_ranges import ValueRanges

_CURE = "let the stride be a multiple of 16, which Triton sees at the launch, or have the launcher make the descriptor"


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
        if LoadOp.matches(op):
            return True
        if not op.name.startswith("arith."):
            return False
        polys = [self.affine.poly(operand) for operand in op.operands]
        return all(self.in_size(inner) for poly in polys for inner in self.affine.atoms.of(poly))


def places_of(load: Operation, base: Value, function: FuncOp, affine: Affine) -> list[Place]:
    """Where descriptors for a load may be made, outermost first: its pointer is known, and its loop is not begun.

    Last comes one of the tile alone. Memory of an argument is described before all loops, or not at all.
    """
    loop = enclosing_loops(load)[0]
    holders = [load, *load.ancestors()]
    inside = holders[holders.index(loop) : holders.index(function.op)]
    found = [Place(function, affine, holder) for holder in reversed(inside)]
    known = [place for place in found if place.knows(base)]
    if base.owner is function.body:
        return known[:1]
    return [*known, *(replace(place, of_tile=True) for place in known[-1:])]


def check_descriptor(box: Box, facts: ValueRanges, affine: Affine) -> Checked:
    """All that the host would check at a launch must be known here, or be asked; raises NotABox."""
    width = box.element_bytes
    if facts.value_multiple(box.base) % BOX_BYTES:
        cure = "pass tensors that are aligned; of pointers from memory tl.multiple_of says so"
        raise NotABox("its pointer is not known to be a multiple of 16 bytes", cure)
    if facts.multiple(box.offset) * width % BOX_BYTES:
        start = affine.atoms.text(box.offset)
        raise NotABox(f"its tensor begins at element {start}, not known to be a multiple of 16 bytes", _CURE)
    for dim in box.dims[:-1]:
        if facts.multiple(dim.stride) * width % BOX_BYTES:
            stride = affine.atoms.text(dim.stride)
            raise NotABox(f"its stride {stride} is not known to be a multiple of 16 bytes", _CURE)
    for dim in box.dims:
        if any(facts.multiple(size) % dim.run for size in dim.sizes):
            raise NotABox(f"its mask is not known to be a multiple of the {dim.run} that share an address", _CURE)
    limits = _limits(box, facts, affine)
    asked = [limit.stride for limit in limits]
    proofs = [facts.not_negative(dim.stride, box.access) for dim in box.dims if dim.stride not in asked]
    known = [proof for proof in proofs if proof is not None]
    if len(known) < len(proofs):
        raise NotABox("a stride may be negative, which a TMA descriptor cannot have", _CURE)
    arguments = dict.fromkeys(argument for proof in known for argument in proof.arguments)
    taken = dict.fromkeys(text for proof in known for text in proof.taken)
    return Checked(Proof(tuple(arguments), tuple(taken)), limits)


def _limits(box: Box, facts: ValueRanges, affine: Affine) -> tuple[Limit, ...]:
    """The strides that come from memory and that nothing proves to be ones TMA takes."""
    below = STRIDE_LIMIT // box.element_bytes
    found: dict[Limit, None] = {}
    for dim in box.dims[:-1]:
        if not facts.from_memory(dim.stride):
            continue
        proof, most = facts.positive(dim.stride, box.access), facts.greatest(dim.stride)
        small = not affine.atoms.wide(dim.stride) or (most is not None and most < below)
        if proof is None or proof.arguments or proof.taken or not small:
            found[Limit(dim.stride, below)] = None
    return tuple(found)


__all__ = ["Checked", "Limit", "Place", "check_descriptor", "places_of"]
