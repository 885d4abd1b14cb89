"""Kernel descriptors: a box's tensor described in the kernel, once, before all loops.

    %d = make_tensor_descriptor (addptr %a, offset), [max(M, 1), K], [s, 1]

It stands in the entry block, right behind the last of what it is computed from. A size of 0 or less, which no
descriptor can have, becomes 1, and every index is moved far past the end, so that what is read is still zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.analysis.affine import Affine
from tawa.analysis.boxes import BOX_BYTES, OPEN, Box, BoxDim, NotABox
from tawa.analysis.facts import Facts, Proof
from tawa.analysis.polynomials import Atom, Poly
from tawa.dialects.scalars import width_of
from tawa.dialects.tt import FuncOp
from tawa.ir import Builder, Operation, Value
from tawa.transforms.added_arguments import descriptor_type
from tawa.transforms.materialize import Materializer, arithmetic, cast, last_of

_CURE = "let the stride be a multiple of 16, which Triton sees at the launch, or have the launcher make the descriptor"
_PADDING = {"padding": "1 : i32"}  # zero
_BEYOND = 1 << 30  # an index that is past every size that is 1, and a multiple of 16 bytes


class KernelDescriptors:
    """Descriptors made in one function."""

    def __init__(self, function: FuncOp, affine: Affine) -> None:
        self.function, self.affine = function, affine
        self._made: dict[tuple[object, ...], tuple[Value, list[Value | None]]] = {}

    def in_offset(self, atom: Atom) -> bool:
        """Whether a scalar is known before all loops."""
        if not isinstance(atom, Value) or width_of(atom.type) in (None, 1):
            return False
        return self._in_entry(atom) is not None

    def _in_entry(self, atom: Value) -> Value | None:
        """One of the values that an atom stands for, made in the entry block."""
        entry = self.function.body
        versions = self.affine.atoms.versions(atom)
        return next(
            (it for it in versions if it.owner is entry or (it.defining_op and it.defining_op.parent is entry)), None
        )

    def in_size(self, atom: Atom) -> bool:
        """Whether, in addition, it has nothing to do with which program this is: a size, not a place."""
        if not self.in_offset(atom) or not isinstance(atom, Value):
            return False
        op = atom.defining_op
        if op is None or op.name == "tt.load":
            return True
        if not op.name.startswith("arith."):
            return False
        polys = [self.affine.poly(operand) for operand in op.operands]
        return all(self.in_size(inner) for poly in polys for inner in self.affine.atoms.of(poly))

    def check(self, box: Box, facts: Facts) -> Proof:
        """All that the host would check at a launch must be known here; raises NotABox. Returns what is taken."""
        width = box.element_bytes
        if self._in_entry(box.base) is None:
            raise NotABox("its pointer is made in a loop or a branch: a descriptor of it would be made again and again")
        if facts.value_multiple(box.base) % BOX_BYTES:
            raise NotABox("its pointer is not known to be a multiple of 16 bytes", "pass tensors that are aligned")
        if facts.multiple(box.offset) * width % BOX_BYTES:
            start = self.affine.atoms.text(box.offset)
            raise NotABox(f"its tensor begins at element {start}, not known to be a multiple of 16 bytes", _CURE)
        for dim in box.dims[:-1]:
            if facts.multiple(dim.stride) * width % BOX_BYTES:
                stride = self.affine.atoms.text(dim.stride)
                raise NotABox(f"its stride {stride} is not known to be a multiple of 16 bytes", _CURE)
        proofs = [facts.not_negative(dim.stride, box.load) for dim in box.dims]
        known = [proof for proof in proofs if proof is not None]
        if len(known) < len(proofs):
            raise NotABox("a stride may be negative, which a TMA descriptor cannot have", _CURE)
        arguments = dict.fromkeys(argument for proof in known for argument in proof.arguments)
        return Proof(tuple(arguments), tuple(dict.fromkeys(text for proof in known for text in proof.taken)))

    def make(self, box: Box, numbers: Materializer, nested: bool) -> tuple[Value, Sequence[Value | None]]:
        """The descriptor of a box, and what is to be added to each index; equal ones are made once."""
        key = (box.base, box.offset, tuple((dim.stride, dim.sizes, dim.last, dim.block) for dim in box.dims))
        if key not in self._made:
            self._made[key] = self._make(box, numbers, nested)
        return self._made[key]

    def _make(self, box: Box, numbers: Materializer, nested: bool) -> tuple[Value, list[Value | None]]:
        builder = self._place(box)
        sizes: list[Value] = []
        shifts: list[Value | None] = []
        for dim in box.dims:
            size, shift = self._size(dim, numbers, builder)
            sizes.append(size)
            shifts.append(shift)
        strides = [numbers.number(dim.stride, builder, "i64", "stride") for dim in box.dims]
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
        if len(dim.sizes) == 1 and (dim.sizes[0].number or 0) > 0:
            return self._number(dim.sizes[0], numbers, builder), None
        size: Value | None = None
        for poly in dim.sizes:
            value = self._number(poly, numbers, builder)
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

    def _place(self, box: Box) -> Builder:
        """Behind the last operation of the entry block that the descriptor needs."""
        needed: list[Value] = [box.base]
        for poly in (box.offset, *(part for dim in box.dims for part in (dim.stride, *dim.sizes))):
            atoms = [atom for atom in self.affine.atoms.of(poly) if isinstance(atom, Value)]
            needed += [made for atom in atoms if (made := self._in_entry(atom)) is not None]
        last: Operation | None = last_of(needed, self.function.body.ops)
        return Builder.after(last) if last is not None else Builder.at_start(self.function.body, box.load.loc)


__all__ = ["KernelDescriptors"]
