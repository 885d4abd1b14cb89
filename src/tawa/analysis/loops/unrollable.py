"""Loops of which several iterations can become one, and those that gain from it."""

from __future__ import annotations

from tawa.dialects.arith import constant_int
from tawa.dialects.scf import LOOPS, ForOp
from tawa.dialects.tt import DOTS, LoadOp
from tawa.ir import shape_of


def can_unroll(loop: ForOp) -> bool:
    """Whether it has neither dots nor loops inside, and a number of iterations that is computed without overflow."""
    lower, step = constant_int(loop.lower), constant_int(loop.step)
    counted = not loop.unsigned and lower is not None and lower >= 0 and step is not None and step > 0
    return counted and not any(it.name in DOTS or it.name in LOOPS for op in loop.body.ops for it in op.walk())


def loads_tiles(loop: ForOp) -> bool:
    """Whether each iteration loads tiles through pointers."""
    return any(LoadOp.matches(op) and shape_of(op.result) for op in loop.body.ops)


__all__ = ["can_unroll", "loads_tiles"]
