"""Direct stores: stores of fp32 accumulators leave from the layout of the dot, without passing through shared memory.

    %t = convert_layout %acc : #mma → #blocked          %p' = the pointers, computed again in #mma
    tt.store %p, %t : #blocked                     →    tt.store %p', %acc : #mma

The conversion needs scratch memory for the tile, 128 KiB for 128 × 256, while the rings are live: if there are several
consumer groups, or if the store is in a loop over tiles. In the layout of the dot, eight rows of 32 bytes, or eight
columns of 32 bytes, belong to one instruction of a warp, so each access is a whole sector of global memory. That needs
elements of four bytes.

Requires: TTGIR before the rings are decided.
Ensures: the same writes.
Leaves a store as it is if its pointers cannot be computed in the other layout, or if a tile of it is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.layouts import layout_name
from tawa.analysis.layout.rebuilt import can_rebuild, rebuild
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import StoreOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, Module, ScalarType, TensorType, Value, parse_type, source_of
from tawa.remarks import Remark
from tawa.symbolic.dim_relations import has_rows
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.result import PassResult

_WHOLE_SECTORS = 32
"""The least bits of an element with which a warp writes whole sectors from the layout of a dot."""
_DOT = "#ttg.nvidia_mma"
_DIRECT = "the store leaves from the layout of the dot: it takes no shared memory from the rings"


@dataclass(frozen=True, slots=True)
class DirectStores:
    """groups: the number of consumer groups."""

    groups: int = 1

    def run(self, module: Module) -> PassResult:
        """Changes the stores whose conversions would take memory beside the rings."""
        stores = [it for op in module.walk() if (it := StoreOp.of(op)) and (self.groups > 1 or enclosing_loops(op))]
        changed = [store for store in stores if _store_directly(module, store)]
        if changed:
            DropDead().run(module)
        return PassResult(bool(changed), tuple(Remark("done", _DIRECT, source_of(module, it.op)) for it in changed))


def _store_directly(module: Module, store: StoreOp) -> bool:
    layout = _layout_of_dot(module, store.source)
    if layout is None or not has_rows(store.source) or not all(can_rebuild(it, layout) for it in store.op.operands):
        return False
    builder, made = Builder.before(store.op), dict[tuple[Value, str], Value]()
    for index, operand in enumerate(store.op.operands):
        store.op.set_operand(index, rebuild(operand, layout, builder, made))
    return True


def _layout_of_dot(module: Module, tile: Value) -> str | None:
    """The layout of the dot whose result is converted for the store of `tile`; None if there is none."""
    kind = parse_type(tile.type)
    element = parse_type(kind.element) if isinstance(kind, TensorType) else None
    if not isinstance(element, ScalarType) or element.bits < _WHOLE_SECTORS:
        return None
    convert = ConvertLayoutOp.of(tile.defining_op)
    source = parse_type(convert.source.type) if convert else None
    dot = isinstance(source, TensorType) and layout_name(module, source.encoding) == _DOT
    return source.encoding if dot and isinstance(source, TensorType) else None


__all__ = ["DirectStores"]
