"""Chained dots: dots whose operand A or B depends on another dot of the same iteration.

    s = dot(q, k); p = exp2(s - …); acc = dot(p, v, acc)        the second dot is chained to the first
    acc = dot(a, b, acc); acc2 = dot(a, u, acc2)                no chained dots

Between chained dots, the tensor cores wait for the CUDA cores, unless another consumer group keeps them busy.
"""

from __future__ import annotations

from tawa.dialects.scf import ForOp, WhileOp
from tawa.dialects.tt import DOTS
from tawa.ir import Module, Operation, Value, Worklist

_ACCUMULATOR = 2


def has_chained_dots(module: Module) -> bool:
    """Whether some loop of the kernel (TTIR or TTGIR) has chained dots."""
    return any(_chained(op) for op in module.walk() if ForOp.of(op) or WhileOp.of(op))


def _chained(loop: Operation) -> bool:
    dots = [op for op in loop.walk() if op.name in DOTS]
    return len(dots) > 1 and any(_comes_from_dot(dot.operands[:_ACCUMULATOR], loop) for dot in dots)


def _comes_from_dot(values: list[Value], loop: Operation) -> bool:
    """Whether any of the values is computed from a dot inside the loop, within one iteration."""
    work = Worklist(values)
    for value in work:
        op = value.defining_op
        if op is None or not loop.is_ancestor_of(op):
            continue
        if op.name in DOTS:
            return True
        work += op.operands
    return False
