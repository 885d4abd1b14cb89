"""Kernel descriptors: makes the descriptor of a box in the kernel, outside of the loop of the load.

    %d = make_tensor_descriptor (addptr %a, offset), [max(M, 1), K], [s, 1]

`tawa.analysis.tma.descriptor_places` finds the insertion point, if there is one. A descriptor whose pointer is defined
before all loops goes into the entry block, right after the last definition that it depends on. If an enclosing loop
loads the pointer from a table, the descriptor goes into the outermost block in which all of its operands are available,
before the operation that holds the load: it is then made once per group of tiles, or once per tile with its base at the
tile's origin.

Descriptors do not support sizes of 0 or less. Such a size is clamped to 1 and every index is moved far out of bounds,
so that loads still yield zeros. A stride loaded from memory may have any value. Its limits state when the descriptor
may be used; if they do not hold, the descriptor gets a valid dummy stride of 16 bytes and no copy uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.analysis.tma.boxes import OPEN, Box, BoxDim
from tawa.analysis.tma.descriptor_places import Limit, Place
from tawa.dialects.arith import CmpIOp, DivSIOp, MaxSIOp, MinSIOp, Predicate, SelectOp, SubIOp
from tawa.dialects.tt import AddPtrOp, FuncOp, MakeTensorDescOp
from tawa.ir import Builder, Operation, Value
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Poly
from tawa.transforms.materialize import Materializer, cast, last_definition
from tawa.transforms.ttir.added_arguments import descriptor_type

_PADDING = {"padding": "1 : i32"}  # zero
_BEYOND = 1 << 30  # an index that is out of bounds for size 1, and a multiple of 16 bytes


class KernelDescriptors:
    """The descriptors made in one function."""

    def __init__(self, function: FuncOp, affine: Affine) -> None:
        self.function, self.affine = function, affine
        self._made: dict[tuple[object, ...], tuple[Value, list[Value | None]]] = {}

    def make(
        self, box: Box, place: Place, limits: Sequence[Limit], numbers: Materializer, nested: bool
    ) -> tuple[Value, Sequence[Value | None]]:
        """The descriptor of a box and the offset to add to each index; equal descriptors are made once."""
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
            base = builder.create(AddPtrOp.NAME, (base, offset), (base.type,), hints=(base.hint,)).result
        type = descriptor_type(box.block, box.element, nested)
        made = builder.create(
            MakeTensorDescOp.NAME, (base, *sizes, *strides), (type,), properties=dict(_PADDING), hints=("desc",)
        )
        return made.result, shifts

    def _size(self, dim: BoxDim, numbers: Materializer, builder: Builder) -> tuple[Value, Value | None]:
        """The size of a dimension, clamped to at least 1, and the shift of its indices if it was clamped."""
        if not dim.sizes:
            last = OPEN if dim.last is None else min(OPEN, dim.last + dim.block)
            return builder.constant(last), None
        if len(dim.sizes) == 1 and (dim.sizes[0].number or 0) > 0 and dim.run == 1:
            return self._number(dim.sizes[0], numbers, builder), None
        size: Value | None = None
        for poly in dim.sizes:
            value = self._number(poly, numbers, builder)
            if dim.run > 1:
                value = DivSIOp.create(builder, value, builder.constant(dim.run), "size")
            size = value if size is None else MinSIOp.create(builder, size, value, "size")
        assert size is not None
        some = MaxSIOp.create(builder, size, builder.constant(1), "size")
        zero, beyond = builder.constant(0), builder.constant(_BEYOND)
        holds = CmpIOp.create(builder, Predicate.SGT, size, zero)
        return some, SelectOp.create(builder, holds, zero, beyond, "shift")

    def _number(self, poly: Poly, numbers: Materializer, builder: Builder) -> Value:
        """A size as an i32, clamped to the largest size that a descriptor supports."""
        if not self.affine.atoms.wide(poly):
            return numbers.number(poly, builder, "i32", "size")
        size = numbers.number(poly, builder, "i64", "size")
        size = MinSIOp.create(builder, size, builder.constant(OPEN, "i64"), "size")
        return cast(builder, size, "i32")

    def _stride(
        self, stride: Poly, limits: Sequence[Limit], width: int, numbers: Materializer, builder: Builder
    ) -> Value:
        value = numbers.number(stride, builder, "i64", "stride")
        limit = next((limit for limit in limits if limit.stride == stride), None)
        if limit is None:
            return value
        holds, least = holds_at(builder, limit, numbers), builder.constant(TMA_CHUNK_BYTES // width, "i64")
        return SelectOp.create(builder, holds, value, least, "stride")

    def _point(self, box: Box, place: Place) -> Builder:
        """Inside a loop: right before `place.before`. In the entry block: after the last definition that is needed."""
        if place.block is not self.function.body:
            return Builder.before(place.before)
        needed: list[Value] = [box.base]
        for poly in (box.offset, *(part for dim in box.dims for part in (dim.stride, *dim.sizes))):
            atoms = [atom for atom in self.affine.atoms.of(poly) if isinstance(atom, Value)]
            needed += [made for atom in atoms if (made := place.version(atom)) is not None]
        last: Operation | None = last_definition(needed, self.function.body.ops)
        return Builder.after(last) if last is not None else Builder.at_start(self.function.body, box.access.loc)


def holds_at(builder: Builder, limit: Limit, numbers: Materializer) -> Value:
    """Emits the check of a limit; returns an i1."""
    stride = numbers.number(limit.stride, builder, "i64", "stride")
    # Compared as unsigned numbers: a stride of 0 or less wraps around to a huge one.
    less = SubIOp.create(builder, stride, builder.constant(1, "i64"))
    most = builder.constant(limit.below - 1, "i64")
    return CmpIOp.create(builder, Predicate.ULT, less, most, "fits")
