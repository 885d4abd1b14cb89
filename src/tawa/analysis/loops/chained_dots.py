"""Dots that work on what other dots of the same iteration computed, through more than an accumulator.

    s = dot(q, k); p = exp2(s - …); acc = dot(p, v, acc)        the second is chained to the first
    acc = dot(a, b, acc); acc2 = dot(a, u, acc2)                neither is

Between chained dots the CUDA cores work while the tensor cores wait, unless another consumer group has work for them.
"""

from __future__ import annotations

from tawa.dialects.scf import ForOp, WhileOp
from tawa.dialects.tt import DOTS
from tawa.ir import Module, Operation, Value

_ACCUMULATOR = 2


def has_chained_dots(module: Module) -> bool:
    """Whether some loop of the kernel (TTIR or TTGIR) has a dot whose operand A or B comes from another one in it."""
    return any(_chained(op) for op in module.walk() if ForOp.of(op) or WhileOp.of(op))


def _chained(loop: Operation) -> bool:
    dots = [op for op in loop.walk() if op.name in DOTS]
    return len(dots) > 1 and any(_comes_from_dot(dot.operands[:_ACCUMULATOR], loop) for dot in dots)


def _comes_from_dot(values: list[Value], loop: Operation) -> bool:
    """Whether any of the values is computed from a dot inside the loop, within one iteration."""
    work, seen = list(values), set[Value]()
    while work:
        value = work.pop()
        op = value.defining_op
        if value in seen or op is None or not loop.is_ancestor_of(op):
            continue
        seen.add(value)
        if op.name in DOTS:
            return True
        work += op.operands
    return False
