"""Direct stores: stores and reductions of fp32 accumulators that can leave from the layout of the dot.

    %t = convert_layout %acc : #mma → #blocked
    tt.store %p, %t : #blocked

The accumulator may have other dimensions by then (reshape, trans), which rename its registers only.

The conversion needs scratch memory for the tile, 128 KiB for 128 × 256, while the rings are live: if there are several
consumer groups, or if the store is in a loop over tiles. In the layout of the dot, eight rows of 32 bytes, or eight
columns of 32 bytes, belong to one instruction of a warp, so each access is a whole sector of global memory. That needs
elements of four bytes, and dimensions in which they are still neighbours. A store whose pointers cannot be computed in
the other layout stays as it is, and so does one whose tile is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.rebuilt import can_rebuild
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import AtomicRMWOp, ReshapeOp, StoreOp, TransOp, through_pointers
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Module, ScalarType, TensorType, Value, parse_type
from tawa.ir.encodings import fields_of, kind_of
from tawa.machine.distribution import distribution_at
from tawa.symbolic.dim_relations import has_rows

_WHOLE_SECTORS = 32
"""The least bits of an element with which a warp writes whole sectors from the layout of a dot."""
_SECTOR = 8
"""Elements of that size in a sector."""
_DOT = "#ttg.nvidia_mma"


@dataclass(frozen=True, slots=True)
class DirectStore:
    """One store or reduction. layout: of the dot, or of its registers under other names."""

    store: StoreOp | AtomicRMWOp
    layout: str


def find_direct_stores(module: Module, groups: int) -> tuple[DirectStore, ...]:
    """The stores whose conversions take memory beside the rings, and can be left out. groups: consumer groups."""
    stores = (it for op in module.walk() if (it := through_pointers(op)) and (groups > 1 or enclosing_loops(op)))
    found = ((it, _layout_of_dot(module, it.source)) for it in stores)
    return tuple(DirectStore(it, layout) for it, layout in found if layout is not None and _can_leave(it, layout))


def _can_leave(store: StoreOp | AtomicRMWOp, layout: str) -> bool:
    return has_rows(store.source) and all(can_rebuild(it, layout) for it in store.op.operands)


def _layout_of_dot(module: Module, tile: Value) -> str | None:
    """The layout of the dot that computes a stored tile, where the store needs another layout; else None."""
    kind = parse_type(tile.type)
    element = parse_type(kind.element) if isinstance(kind, TensorType) else None
    if not isinstance(element, ScalarType) or element.bits < _WHOLE_SECTORS:
        return None
    convert = ConvertLayoutOp.of(tile.defining_op)
    if convert is None:
        return None
    dot = convert.source
    while view := ReshapeOp.of(dot.defining_op) or TransOp.of(dot.defining_op):
        dot = view.source
    source, made = parse_type(convert.source.type), parse_type(dot.type)
    if not isinstance(source, TensorType) or not isinstance(made, TensorType):
        return None
    renamed = dot is not convert.source
    if kind_of(module.aliases, made.encoding) != _DOT or (renamed and not _has_whole_sectors(module, convert)):
        return None
    return source.encoding


def _has_whole_sectors(module: Module, convert: ConvertLayoutOp) -> bool:
    """Whether an instruction of a warp has whole sectors, if neighbours in memory are those of the store's layout."""
    found, target = distribution_at(convert.op, convert.source.type), parse_type(convert.op.result.type)
    order = fields_of(module.aliases, target.encoding).get("order") if isinstance(target, TensorType) else None
    if found is None or order is None:
        return False
    dim = int(order.strip("[]").split(",")[0])
    near = [
        [base[dim] for base in kind if 0 < base[dim] == sum(base) < _SECTOR] for kind in (found.registers, found.lanes)
    ]
    own, others = map(sorted, near)
    # The registers of a thread, 16 bytes at most, are neighbours, and leave together; other threads have the rest.
    return len(own) <= 2 and [*own, *others] == [1, 2, 4]
