"""Dependents: the values that depend on others, and the control flow that they decide.

%g = group; %m = addi %row, %g        →  %g, %m, %p, and the result of the loop that carries %p
for … iter %p = %m { … }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tawa.dialects.aref import PutOp
from tawa.dialects.control_flow import deciding, incoming, loop_carried
from tawa.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp
from tawa.ir import Block, Operation, Value


def dependent_values(block: Block, is_source: Callable[[Operation], bool]) -> set[Value]:
    """The values outside of puts that depend on the results of sources, also through loop-carried values."""
    ops = [op for op in _walk(block) if not any(PutOp.of(outer) for outer in (op, *op.ancestors()))]
    found: set[Value] = set()
    before = -1
    while len(found) != before:
        before = len(found)
        for op in ops:
            found.update(op.results if is_source(op) else _newly_dependent(op, found))
    return found


def divergent_control_flow(block: Block, dependent: set[Value]) -> Operation | None:
    """The first loop or branch whose decision is one of the dependent values."""
    return next((op for op in _walk(block) if diverges(op, dependent)), None)


def diverges(op: Operation, dependent: set[Value]) -> bool:
    """Whether an operation is a loop or a branch whose decision is one of the dependent values."""
    decisive: Iterable[Value] = [use.value for use in deciding(op)]
    if WhileOp.of(op) or ConditionOp.matches(op):
        decisive = [*op.operands, *op.results]
    return any(value in dependent for value in decisive)


def _walk(block: Block) -> list[Operation]:
    return [nested for op in block.ops for nested in op.walk()]


def _newly_dependent(op: Operation, known: set[Value]) -> list[Value]:
    """The values that an operation makes dependent, given those known to be."""
    if ForOp.of(op) or IfOp.of(op):
        results = [result for result in op.results if any(use.value in known for use in incoming(result))]
        return [*results, *(carried.argument for result in results if (carried := loop_carried(result)))]
    return list(op.results) if any(operand in known for operand in op.operands) else []
