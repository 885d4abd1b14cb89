"""Uniform trip counts: whether the loops around dots have the same trip count in all programs of a grid.

    for k in range(0, K, 64)                              uniform
    for n in range(0, load(%counts + pid // 8388608))     uniform: the quotient is 0 in every program of a real grid
    for n in range(0, (pid + 1) * 128, 64)                not uniform

This is a scheduling heuristic, not a correctness condition: it ignores the branches around a loop, and it assumes that
memory does not change.
"""

from __future__ import annotations

from tawa.analysis.rings.loads import find_dots
from tawa.dialects.arith import DivSIOp, constant_int
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import GetProgramIdOp
from tawa.ir import Module, Operation, Value
from tawa.symbolic.origins import origins_of

_PROGRAM = GetProgramIdOp.NAME
MOST_PROGRAMS = 1 << 20
"""Assumed limit along one axis. FlexAttention without a mask divides a program id by 2^23."""


def trip_counts_are_uniform(module: Module) -> bool:
    """Whether no loop around a dot has a trip count that depends on the program id; False if unknown."""
    loops = dict.fromkeys(loop for dot in find_dots(module) for loop in enclosing_loops(dot))
    counted = [ForOp.of(loop) for loop in loops]
    return all(loop is not None and _uniform(loop.bounds) for loop in counted)


def _uniform(values: list[Value]) -> bool:
    """Whether values are uniform over the grid."""
    sources = origins_of(values, decisions=True, follow=lambda op: not _is_zero_everywhere(op))
    return all(_keeps_uniform(op) for op in sources.operations)


def _keeps_uniform(op: Operation) -> bool:
    """Whether the result of an operation is uniform if its operands are."""
    if _is_zero_everywhere(op):
        return True
    return not op.regions and op.name != _PROGRAM and (is_pure(op) or is_plain_load(op))


def _is_zero_everywhere(op: Operation) -> bool:
    """Whether `op` divides a program id by at least `MOST_PROGRAMS`, so that the quotient is always 0."""
    if not DivSIOp.matches(op) or (constant_int(op.operands[1]) or 0) < MOST_PROGRAMS:
        return False
    program = op.operands[0].defining_op
    return program is not None and program.name == _PROGRAM


__all__ = ["MOST_PROGRAMS", "trip_counts_are_uniform"]
