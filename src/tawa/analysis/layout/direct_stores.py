"""Direct stores: stores of fp32 accumulators that can leave from the layout of the dot.

    %t = convert_layout %acc : #mma → #blocked
    tt.store %p, %t : #blocked

The conversion needs scratch memory for the tile, 128 KiB for 128 × 256, while the rings are live: if there are several
consumer groups, or if the store is in a loop over tiles. In the layout of the dot, eight rows of 32 bytes, or eight
columns of 32 bytes, belong to one instruction of a warp, so each access is a whole sector of global memory. That needs
elements of four bytes. A store whose pointers cannot be computed in the other layout stays as it is, and so does one
whose tile is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.rebuilt import can_rebuild
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import StoreOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Module, ScalarType, TensorType, Value, parse_type
from tawa.ir.encodings import kind_of
from tawa.symbolic.dim_relations import has_rows

_WHOLE_SECTORS = 32
"""The least bits of an element with which a warp writes whole sectors from the layout of a dot."""
_DOT = "#ttg.nvidia_mma"


@dataclass(frozen=True, slots=True)
class DirectStore:
    """One store. layout: of the dot."""

    store: StoreOp
    layout: str


def find_direct_stores(module: Module, groups: int) -> tuple[DirectStore, ...]:
    """The stores whose conversions take memory beside the rings, and can be left out. groups: consumer groups."""
    stores = (it for op in module.walk() if (it := StoreOp.of(op)) and (groups > 1 or enclosing_loops(op)))
    found = ((it, _layout_of_dot(module, it.source)) for it in stores)
    return tuple(DirectStore(it, layout) for it, layout in found if layout is not None and _can_leave(it, layout))


def _can_leave(store: StoreOp, layout: str) -> bool:
    return has_rows(store.source) and all(can_rebuild(it, layout) for it in store.op.operands)


def _layout_of_dot(module: Module, tile: Value) -> str | None:
    """The layout of the dot that computes a stored tile, where the store needs another layout; else None."""
    kind = parse_type(tile.type)
    element = parse_type(kind.element) if isinstance(kind, TensorType) else None
    if not isinstance(element, ScalarType) or element.bits < _WHOLE_SECTORS:
        return None
    convert = ConvertLayoutOp.of(tile.defining_op)
    source = parse_type(convert.source.type) if convert else None
    dot = isinstance(source, TensorType) and kind_of(module.aliases, source.encoding) == _DOT
    return source.encoding if dot and isinstance(source, TensorType) else None
