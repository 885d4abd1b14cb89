"""Register operands: loop-invariant A operands of dots that fit into the registers that are left.

%a = local_alloc %q                             or a slot of a ring that is filled once for the whole loop
for … { %s = warp_group_dot %a, %b, %c }        A may stay in registers (`tawa.transforms.pipelining.register_operands`)
"""

from __future__ import annotations

from tawa.dialects.aref import GetOp
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.ttg import LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import MemDescType, Operation, TensorType, parse_type

_THREADS = 32
_HALVES = ("f16", "bf16")


def operands_to_keep(root: Operation, num_warps: int, most_registers: int) -> list[WarpGroupDotOp]:
    """The dots inside `root` whose left operand can be kept in registers.

    num_warps: that execute the dots. most_registers: per thread, for the results of a loop's dots and kept operands.
    """
    dots = [dot for op in root.walk() if (dot := WarpGroupDotOp.of(op)) and enclosing_loops(op)]
    found: list[WarpGroupDotOp] = []
    for loop in dict.fromkeys(enclosing_loops(dot.op)[0] for dot in dots):
        inside = [dot for dot in dots if enclosing_loops(dot.op)[0] is loop]
        stay = [dot for dot in inside if _stays(dot, loop)]
        if _bytes(stay, inside) <= 4 * _THREADS * num_warps * most_registers:
            found += stay
    return found


def dots_of(loop: Operation) -> list[WarpGroupDotOp]:
    """The dots whose innermost loop is `loop`, in program order, including those in branches."""
    dots = [dot for op in loop.walk() if (dot := WarpGroupDotOp.of(op))]
    return [dot for dot in dots if enclosing_loops(dot.op)[0] is loop]


def may_be_kept(dot: WarpGroupDotOp, loop: Operation) -> bool:
    """Whether the left operand of a dot in `loop` can be kept, if there are enough registers."""
    return _stays(dot, loop)


def kept_type(dot: WarpGroupDotOp) -> TensorType:
    """The type of the left operand in registers."""
    tile, result = parse_type(dot.a.type), parse_type(dot.op.result.type)
    assert isinstance(tile, MemDescType) and isinstance(result, TensorType)
    layout = f"#ttg.dot_op<{{opIdx = 0, parent = {result.encoding}, kWidth = 2}}>"
    return TensorType(tile.shape, tile.element, layout)


def _stays(dot: WarpGroupDotOp, loop: Operation) -> bool:
    """Whether A is a 16-bit tile that is complete in shared memory before the loop."""
    made, tile = dot.a.defining_op, parse_type(dot.a.type)
    if dot.a_in_registers or made is None or loop.is_ancestor_of(made):
        return False
    alloc = LocalAllocOp.of(made)
    if GetOp.of(made) is None and (alloc is None or alloc.source is None):
        return False
    return isinstance(tile, MemDescType) and tile.element in _HALVES


def _bytes(stay: list[WarpGroupDotOp], inside: list[WarpGroupDotOp]) -> int:
    """Bytes of the operands to be kept and of the results of all dots of the loop."""
    operands = dict.fromkeys((dot.a, kept_type(dot)) for dot in stay)
    results = [parse_type(dot.op.result.type) for dot in inside]
    return sum(type.bytes for _, type in operands) + sum(it.bytes for it in results if isinstance(it, TensorType))
