"""The IR of Triton releases: the pipeline writes that of 3.6, and later releases read another.

3.6   "ttg.warp_specialize"(captures) … "ttg.warp_specialize.partitions"()            TMA copy: cache, evict
3.7   "ttg.warp_specialize"() …         "ttg.warp_specialize.partitions"(captures)    TMA copy: operandSegmentSizes
"""

from __future__ import annotations

from tawa.dialects.ttg import WarpSpecializeOp
from tawa.dialects.ttng import AsyncTMACopyGlobalToLocalOp
from tawa.ir import Module, Operation
from tawa.ir.attributes import array_attr

_TMA_LOAD = AsyncTMACopyGlobalToLocalOp.NAME
# The descriptor comes before the coordinates; barrier, destination and predicate follow them.
_NOT_COORDINATES = 4


def to_3_7(module: Module) -> None:
    """Changes a module from the IR of Triton 3.6 to that of 3.7 and later, in place."""
    for op in list(module.walk()):
        view = WarpSpecializeOp.of(op)
        if view:
            _move_captures(view)
        elif op.name == _TMA_LOAD:
            coordinates = len(op.operands) - _NOT_COORDINATES
            op.properties = {
                "isVolatile": "false",
                "operandSegmentSizes": array_attr([1, coordinates, 0, 1, 1, 1]),
                **{
                    name: op.properties[name] for name in ("cache", "evict") if not op.properties[name].startswith("1 ")
                },
            }


def _move_captures(view: WarpSpecializeOp) -> None:
    holder: Operation = view.op.regions[1].block.ops[0]
    captures = list(view.op.operands)
    view.op.set_operands([])
    holder.set_operands(captures)
