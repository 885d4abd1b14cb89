"""Left operands in tensor memory: tiles that the threads compute from results, and that no shared memory has to hold.

%s = dot …                          a result: 128 rows, one in each lane
%x = local_alloc (… %s …)           only left operands of dots read it
dot %x, %v
"""

from __future__ import annotations

from collections.abc import Iterator

from tawa.dialects.tcgen05 import ACCUMULATOR, SCALED
from tawa.dialects.ttg import LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Operation, TensorType, Use, parse_type
from tawa.machine.machines import TCGEN05


def left_in_tensor_memory(function: Operation) -> frozenset[Operation]:
    """The allocations of such tiles, in a kernel whose accumulators in tensor memory are still tiles.

    A tile has the rows of tensor memory, and each thread has those of its lane, as of a result. A left operand with
    scales stays in shared memory.
    """
    dots = [op for op in function.walk() if ACCUMULATOR in op.attributes]
    results = {type.encoding for op in dots if isinstance(type := parse_type(op.result.type), TensorType)}
    return frozenset(op for op, kind in _tiles(dots) if kind.shape[0] == TCGEN05.rows and kind.encoding in results)


def _tiles(dots: list[Operation]) -> Iterator[tuple[Operation, TensorType]]:
    for dot in dots:
        alloc = LocalAllocOp.of(dot.operands[WarpGroupDotOp.a.index].defining_op)
        kind = parse_type(alloc.source.type) if alloc is not None and alloc.source is not None else None
        if alloc is not None and isinstance(kind, TensorType) and all(map(_is_left, alloc.op.result.uses)):
            yield alloc.op, kind


def _is_left(use: Use) -> bool:
    """Whether a dot reads it as its left operand, without scales."""
    scaled = SCALED["a_type"] in use.op.attributes
    return use.index == WarpGroupDotOp.a.index and ACCUMULATOR in use.op.attributes and not scaled
