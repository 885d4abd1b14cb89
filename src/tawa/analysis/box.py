"""`Box`: a box of a strided tensor, which a TMA copy moves as a whole; `tawa.analysis.boxes` finds them.

Source of the limits: CUDA driver API, cuTensorMapEncodeTiled; the 16 bytes of a box's start were measured on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.facts import Proof
from tawa.analysis.forms import Guard
from tawa.analysis.polynomials import Poly
from tawa.analysis.tma.accesses import bytes_of
from tawa.ir import Operation, Value

OPEN = 0x7FFF0000
"""The size of a dimension in which nothing is cut off; what Triton's own ragged descriptors take."""
BOX_BYTES = 16
STRIDE_LIMIT = 1 << 40
"""In bytes."""
MAX_RANK = 5


@dataclass(frozen=True, slots=True)
class BoxDim:
    """One dimension of the tensor. stride: in elements.

    tile: the dimension of the tile it becomes, None for one of block 1 that is not in the tile. run: how many places of
    the tile each of the box's stands for, next to each other. sizes: in places of the tile; the smallest of them
    counts, the dimension is open if there is none. last: the greatest index, where known. guards: of the forms, which
    cut off what the pointer load reads from elsewhere. masked: whether the mask cuts something off as well. wraps:
    whether whole boxes wrap around at the size, so that the index is to be taken modulo it.
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
    """A load or a store as a box: `base + offset` (elements), dimensions slowest first, gates (each > 0), the proof."""

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


__all__ = ["BOX_BYTES", "MAX_RANK", "OPEN", "STRIDE_LIMIT", "Box", "BoxDim"]
