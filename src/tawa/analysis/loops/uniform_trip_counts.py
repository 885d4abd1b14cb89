"""Whether all programs of a grid go through their loops equally often.

    for k in range(0, K, 64)                              alike
    for n in range(0, load(%counts + pid // 8388608))     alike: no grid has so many programs along an axis
    for n in range(0, (pid + 1) * 128, 64)                not alike

What is asked is how work is best dealt out, not what is right: branches are not looked at, and memory is taken to stay
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from tawa.analysis.rings.loads import find_dots
from tawa.dialects.arith import DivSIOp, constant_int
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.scf import ForOp, IfOp, enclosing_loops
from tawa.dialects.tt import FuncOp, GetProgramIdOp
from tawa.ir import Block, Module, Operation, Value

_PROGRAM = GetProgramIdOp.NAME
MOST_PROGRAMS = 1 << 20
"""Along one axis; FlexAttention without a mask has one block of keys for 2^23 programs."""


def programs_alike(module: Module) -> bool:
    """Whether no loop around a dot depends on the program; False where that is not known."""
    loops = dict.fromkeys(loop for dot in find_dots(module) for loop in enclosing_loops(dot))
    counted = [ForOp.of(loop) for loop in loops]
    return all(loop is not None and _same(loop.bounds) for loop in counted)


def _same(values: Iterable[Value]) -> bool:
    """Whether values do not depend on the program."""
    work, seen = list(values), set[Value]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        sources = _sources(value)
        if sources is None:
            return False
        work += sources
    return True


def _sources(value: Value) -> list[Value] | None:
    """What a value is computed from; None where the program comes in, or may."""
    if isinstance(value.owner, Block):
        parent = value.owner.parent_op
        if parent is None or FuncOp.matches(parent):
            return []
        loop = ForOp.of(parent)
        return _carried(loop, value.index - 1) if loop else None
    op = value.owner
    loop, branch = ForOp.of(op), IfOp.of(op)
    if loop:
        return _carried(loop, value.index)
    if branch:
        return [branch.condition, *(block.terminator.operands[value.index] for block in branch.branches)]
    if _is_zero_for_all(op):
        return []
    if op.regions or op.name == _PROGRAM or not (is_pure(op) or is_plain_load(op)):
        return None
    return op.operands


def _carried(loop: ForOp, index: int) -> list[Value]:
    """Where a loop's variable (index -1) or what it carries comes from."""
    return [*loop.bounds, loop.inits[index], loop.yielded[index]] if index >= 0 else list(loop.bounds)


def _is_zero_for_all(op: Operation) -> bool:
    """Whether it divides the number of a program by more programs than there are."""
    if not DivSIOp.matches(op) or (constant_int(op.operands[1]) or 0) < MOST_PROGRAMS:
        return False
    program = op.operands[0].defining_op
    return program is not None and program.name == _PROGRAM


__all__ = ["MOST_PROGRAMS", "programs_alike"]
