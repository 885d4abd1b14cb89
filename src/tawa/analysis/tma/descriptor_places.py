"""Descriptor places: where in the kernel the descriptor of a box may be made, and the proof that it is valid there.

    for %tile … { %p = load table; for %k … { load %p + … } }       before the inner loop, once for each %tile

The descriptor for memory of an argument is made before all loops. If an outer loop loads the pointer from a table, the
descriptor is made inside of that loop, but outside of the loop of the load. Everything that the launcher would check
must be proved at compile time; strides loaded from memory are checked by the kernel (`Checked.limits`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.available_values import is_known
from tawa.analysis.tma.boxes import STRIDE_LIMIT, Box
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import FuncOp, LoadOp
from tawa.ir import Block, Builder, Operation, Value
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Proof
from tawa.symbolic.polynomial import Atom, Poly
from tawa.symbolic.value_ranges import ValueRanges

_CURE = "let the stride be a multiple of 16, which Triton sees at the launch, or have the launcher make the descriptor"


@dataclass(frozen=True, slots=True)
class Limit:
    """A run-time check of a stride: 1 or more, and less than `below` elements."""

    stride: Poly
    below: int


@dataclass(frozen=True, slots=True)
class Checked:
    """Why a descriptor is valid: the premises, and the run-time checks that the kernel makes before it is used."""

    proof: Proof
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a descriptor is made: directly before `before`, which is the load or contains it.

    of_tile: whether the tensor of the descriptor is the tile itself, bounded by the mask. Then the position of the tile
    in a larger tensor need not be known.
    """

    function: FuncOp
    affine: Affine
    before: Operation
    of_tile: bool = False

    @property
    def block(self) -> Block:
        """The block of `before`."""
        assert self.before.parent is not None
        return self.before.parent

    def knows(self, value: Value) -> bool:
        """Whether a value dominates this place."""
        return is_known(value, Builder.before(self.before))

    def version(self, atom: Value) -> Value | None:
        """A value equal to an atom that dominates this place, or None."""
        return next((it for it in self.affine.atoms.versions(atom) if self.knows(it)), None)

    def in_offset(self, atom: Atom) -> bool:
        """Whether a scalar is available here, so that it may be part of the offset."""
        if not isinstance(atom, Value) or width_of(atom.type) in (None, 1):
            return False
        return self.version(atom) is not None

    def in_size(self, atom: Atom) -> bool:
        """Whether a scalar may also be part of a size or a stride: it must not depend on the program or iteration."""
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
    """The places for the descriptor of a load, outermost first: its pointer dominates them, and its loop does not.

    The last one is for the tile alone. For memory of an argument, the only place is before all loops.
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
    """Proves what the launcher would check, or returns run-time checks for it; raises NotABox."""
    width = box.element_bytes
    if facts.value_multiple(box.base) % TMA_CHUNK_BYTES:
        cure = "pass tensors that are aligned; of pointers from memory tl.multiple_of says so"
        raise NotABox("its pointer is not known to be a multiple of 16 bytes", cure)
    if facts.multiple(box.offset) * width % TMA_CHUNK_BYTES:
        start = affine.atoms.text(box.offset)
        raise NotABox(f"its tensor begins at element {start}, not known to be a multiple of 16 bytes", _CURE)
    for dim in box.dims[:-1]:
        if facts.multiple(dim.stride) * width % TMA_CHUNK_BYTES:
            stride = affine.atoms.text(dim.stride)
            raise NotABox(f"its stride {stride} is not known to be a multiple of 16 bytes", _CURE)
    for dim in box.dims:
        if any(facts.multiple(size) % dim.run for size in dim.sizes):
            raise NotABox(f"its mask is not known to be a multiple of the {dim.run} that share an address", _CURE)
    for whole in box.wholes:
        text = affine.atoms.text(whole.poly)
        cure = f"tl.multiple_of({text}, {whole.number}), if that is so"
        raise NotABox(f"a bound of its mask, {text}, is not known to be a multiple of {whole.number}, the tile", cure)
    limits = _limits(box, facts, affine)
    checked = [limit.stride for limit in limits]
    proofs = [facts.not_negative(dim.stride, box.access) for dim in box.dims if dim.stride not in checked]
    known = [proof for proof in proofs if proof is not None]
    if len(known) < len(proofs):
        raise NotABox("a stride may be negative, which a TMA descriptor cannot have", _CURE)
    arguments = dict.fromkeys(argument for proof in known for argument in proof.arguments)
    taken = dict.fromkeys(text for proof in known for text in proof.taken)
    return Checked(Proof(tuple(arguments), tuple(taken)), limits)


def _limits(box: Box, facts: ValueRanges, affine: Affine) -> tuple[Limit, ...]:
    """The strides from memory that are not proved to be valid for TMA."""
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
