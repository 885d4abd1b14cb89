"""Loops of which several iterations can become one, and those that gain from it."""

from __future__ import annotations

from tawa.dialects.arith import constant_int
from tawa.dialects.scf import LOOPS, ForOp
from tawa.dialects.tt import DOTS, LoadOp
from tawa.ir import shape_of


def can_unroll(loop: ForOp) -> bool:
    """Whether several iterations of a loop can become one.

    Such a loop has no dot and no loop inside, and its number of iterations is computed without overflow.
    """
    lower, step = constant_int(loop.lower), constant_int(loop.step)
    counted = not loop.unsigned and lower is not None and lower >= 0 and step is not None and step > 0
    return counted and not any(it.name in DOTS or it.name in LOOPS for op in loop.body.ops for it in op.walk())


def loads_tiles(loop: ForOp) -> bool:
    """Whether each iteration loads tiles through pointers."""
    return any(LoadOp.matches(op) and shape_of(op.result) for op in loop.body.ops)


__all__ = ["can_unroll", "loads_tiles"]
