"""Async wgmma: whether the wgmmas of a loop may stay in flight across its back edge.

for k, acc:
  x = slot of a ring;  y = local_alloc(to f16(local_load(slot)))
  acc = dot(x, y, acc)                   may stay in flight: the accumulator is loop-carried, x is live until the slot
                                         is released, and y is live once each iteration in flight has its own buffer
"""

from __future__ import annotations

from collections.abc import Collection

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.aref import GetOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import LoadOp
from tawa.dialects.ttg import LocalAllocOp, whole_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import MemDescType, Operation, Value, parse_type


def dots_in(loop: ForOp) -> list[WarpGroupDotOp]:
    """The dots in the body of a loop, without nested ones."""
    return [dot for op in loop.body.ops if (dot := WarpGroupDotOp.of(op))]


def is_aside(loop: ForOp) -> bool:
    """Whether a loop is a rarely executed fallback that loads its own operands: it gets no buffers."""
    return any(load.stays for op in loop.body.ops if (load := LoadOp.of(op)))


def obstacle(loop: ForOp, moved: Collection[Operation] = ()) -> str:
    """Why no wgmma of this loop may stay in flight; empty if all may.

    moved: allocations in the loop that slots of rings will replace.
    """
    return next((reason for dot in dots_in(loop) if (reason := _obstacle(loop, dot, moved))), "")


def own_buffers(loop: ForOp, moved: Collection[Operation] = ()) -> list[LocalAllocOp]:
    """Buffers that each iteration fills with computed values and that only dots of the same iteration read."""
    found = [view for op in loop.body.ops if op not in moved and (view := LocalAllocOp.of(op)) and view.source]
    return [view for view in found if _read_by_dots_only(loop, view.op.result)]


def own_buffer_bytes(loop: ForOp, moved: Collection[Operation] = ()) -> int:
    """Bytes of `own_buffers` for one more iteration in flight; 0 if no wgmma stays in flight."""
    if not dots_in(loop) or is_aside(loop) or obstacle(loop, moved):
        return 0
    types = [parse_type(view.op.result.type) for view in own_buffers(loop, moved)]
    return sum(type.bytes for type in types if isinstance(type, MemDescType))


def _read_by_dots_only(loop: ForOp, view: Value) -> bool:
    readers = slot_readers(view)
    return bool(readers) and all(WarpGroupDotOp.of(it) and it.parent is loop.body for it in readers)


def _obstacle(loop: ForOp, dot: WarpGroupDotOp, moved: Collection[Operation]) -> str:
    body = loop.body
    if dot.adds_partial_sums:
        return "the dot adds up partial sums of fp8 products (max_num_imprecise_acc)"
    if dot.a_in_registers:
        return "operand A is in registers"
    for operand in (dot.a, dot.b):
        if not _stays(loop, operand, moved):
            return "an operand is in a buffer that others read or write as well"
    accumulator = dot.accumulator
    carried = accumulator.owner is body and accumulator.index > 0
    before = accumulator.defining_op
    chained = before is not None and WarpGroupDotOp.of(before) is not None and before.parent is body
    if not (carried or chained):
        return "the accumulator does not come from the previous iteration"
    if len(accumulator.uses) != 1:
        return "the accumulator has another use in the loop"
    if len(dot.op.result.uses) != 1:
        return "the result of the dot has another use in the loop"
    use = dot.op.result.uses[0]
    onward = WarpGroupDotOp.of(use.op)
    if use.op is body.terminator:
        if not _returns_to_itself(loop, dot, use.index):
            return "the accumulator moves to another variable"
    elif onward is None or use.index != 2 or use.op.parent is not body:
        return "the result of the dot is used inside the loop"
    return ""


def _returns_to_itself(loop: ForOp, dot: WarpGroupDotOp, index: int) -> bool:
    """Whether the chain of dots that ends in `dot` starts from the loop-carried value that it is yielded to."""
    value = dot.accumulator
    while (before := WarpGroupDotOp.of(value.defining_op)) is not None:
        value = before.accumulator
    return value is loop.iter_args[index]


def _stays(loop: ForOp, operand: Value, moved: Collection[Operation]) -> bool:
    """Whether the buffer of a memdesc operand stays unchanged until the wgmma completes, or can be made to."""
    op = whole_of(operand).defining_op
    if op is None or op in moved or GetOp.of(op) is not None or not loop.op.is_ancestor_of(op):
        return True
    return any(view.op is op for view in own_buffers(loop, moved))
