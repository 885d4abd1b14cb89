"""Places in memory: an allocation, a slot of it, a box of the slot; and views of them.

%slot = ttg.memdesc_index %tiles[%s]          Place(tiles, path=(1,))
%half = ttg.memdesc_subslice %slot[0, 32]     Place(tiles, (1,), box=((0, 64), (32, 64)))
"""

from __future__ import annotations

from typing import NamedTuple

from tawa.dialects import ttg
from tawa.dialects.tcgen05 import TMEMSubsliceOp, pitch_of
from tawa.ir import MemDescType, Operation, parse_type
from tawa.ir.attributes import read_array


class NotUnderstood(Exception):
    """The check does not model operation `op`."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.reason = reason
        self.op = op


class Place(NamedTuple):
    """A region of an allocation: indices of the outer dimensions, then a box of the remaining ones.

    `reshaped`: a view of another shape, which cannot be indexed further. `view`: for each dimension of a view the one
    of the region, and how many elements of the region are one of the view along it; None for the region as it is.
    """

    alloc: int
    path: tuple[int, ...] = ()
    box: tuple[tuple[int, int], ...] | None = None
    reshaped: bool = False
    view: tuple[tuple[int, int], ...] | None = None

    @property
    def place(self) -> Place:
        """The region, however it is viewed."""
        return Place(self.alloc, self.path, self.box) if self.reshaped or self.view else self


NAMED = -1
"""The `alloc` of a named barrier, which is no allocation: the path of its `Place` is its number."""


def overlap(one: Place, other: Place) -> bool:
    """Whether two regions of one allocation have elements in common."""
    shared = min(len(one.path), len(other.path))
    if one.path[:shared] != other.path[:shared]:
        return False
    if len(one.path) != len(other.path) or one.box is None or other.box is None:
        return True
    return all(low < top and start < end for (low, end), (start, top) in zip(one.box, other.box, strict=True))


def indexed(op: Operation, memory: Place, slot: int) -> Place:
    """One slot of a place."""
    if memory.reshaped or memory.box is not None or memory.view is not None:
        raise NotUnderstood("an index into a reshaped view of shared memory", op)
    return Place(memory.alloc, (*memory.path, slot))


def viewed(op: Operation, memory: Place) -> Place:
    """The place that a view other than an index names."""
    source, target = parse_type(op.operands[0].type), parse_type(op.results[0].type)
    assert isinstance(source, MemDescType) and isinstance(target, MemDescType)
    if source.in_tensor_memory:
        return _columns(op, memory, source, target)
    match op.name:
        case ttg.MemDescSubsliceOp.NAME:
            if memory.reshaped or memory.box is not None:
                raise NotUnderstood("a slice of a reshaped view of shared memory", op)
            offsets = read_array(op.properties["offsets"])
            dims = memory.view or _natural(len(offsets))
            spans = sorted(
                (dim, start * factor, (start + size) * factor)
                for (dim, factor), start, size in zip(dims, offsets, target.shape, strict=True)
            )
            return memory._replace(box=tuple((start, end) for _, start, end in spans))
        case ttg.MemDescTransOp.NAME:
            order = ttg.MemDescTransOp(op).order
            dims = memory.view or _natural(len(order))
            if len(dims) == len(order):
                memory = memory._replace(view=tuple(dims[dim] for dim in order))
            return memory
        case ttg.MemDescReinterpretOp.NAME if (dims := _wider(source, target, memory)) is not None:
            return memory._replace(view=dims)
        case _:
            return memory._replace(reshaped=True)


def _columns(op: Operation, memory: Place, source: MemDescType, target: MemDescType) -> Place:
    """A view of tensor memory. Its boxes count rows and bits of a row, so that views of other elements keep them."""
    if subslice := TMEMSubsliceOp.of(op):
        units = (1, pitch_of(op, source))
        spans = list(memory.box or [(0, size * unit) for size, unit in zip(source.shape[-2:], units, strict=True)])
        dim = subslice.dim
        low = spans[dim][0] + subslice.start * units[dim]
        spans[dim] = low, low + target.shape[dim] * units[dim]
        return memory._replace(box=tuple(spans))
    if op.name == ttg.MemDescReinterpretOp.NAME and source.shape[:-1] == target.shape[:-1]:
        rows = [type.shape[-1] * pitch_of(op, type) for type in (source, target)]
        if rows[0] == rows[1]:
            return memory
    raise NotUnderstood(f"{op.name} of tensor memory", op)


def _natural(rank: int) -> tuple[tuple[int, int], ...]:
    return tuple((dim, 1) for dim in range(rank))


def _wider(source: MemDescType, target: MemDescType, memory: Place) -> tuple[tuple[int, int], ...] | None:
    """The view with wider elements in the same rows; None for any other reinterpretation."""
    if memory.reshaped or source.shape[:-1] != target.shape[:-1] or source.bytes != target.bytes:
        return None
    factor, left = divmod(source.shape[-1], target.shape[-1])
    if left or not factor:
        return None  # of narrower elements, several are one element of the region
    (*rows, (dim, before)) = memory.view or _natural(len(source.shape))
    return (*rows, (dim, before * factor))
