"""Running sums: values that a loop carries and to which each iteration adds the sums of rows of a dot's result.

    for …, iter_args(%l):
      %r = reduce(%p, axis 1, addf)        the sum of a row crosses the threads that share the row
      %m = mulf %l, %alpha                 factors may differ from row to row
      %n = addf %m, %r
      yield %n

Because multiplication by a factor distributes over a sum, each thread may carry the sum of its own columns, and the
threads may be summed once, after the loop. That is another order of the same sum: it rounds differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.dialects.arith import AddFOp, MulFOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.math import FmaOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS, ReduceOp
from tawa.ir import Block, Module, Operation, TensorType, Value, Worklist, parse_type
from tawa.machine.machines import ACCUMULATOR_COLUMNS
from tawa.symbolic.dim_relations import ELEMENTWISE

_STEPS = {AddFOp.NAME: ((0, 1),), MulFOp.NAME: ((0,), (1,)), FmaOp.NAME: ((0, 2), (1, 2))}
"""By operation: which operands may be terms of a sum. A product of two sums is none."""


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A sum that loop `loop` carries as number `index`.

    reduces: the reductions that each iteration adds. steps: the additions and multiplications of an iteration, each
    with the numbers of the operands that are terms of the sum; the others are factors.
    """

    loop: Operation
    index: int
    reduces: tuple[Operation, ...]
    steps: tuple[tuple[Operation, tuple[int, ...]], ...]


def running_sums(module: Module) -> tuple[RunningSum, ...]:
    """The running sums of a kernel without layouts, in program order."""
    return tuple(it for op in module.walk() if (loop := ForOp.of(op)) for it in _of_loop(loop))


def _of_loop(loop: ForOp) -> Iterator[RunningSum]:
    for index, (carried, yielded) in enumerate(zip(loop.iter_args, loop.yielded, strict=True)):
        type = parse_type(carried.type)
        if not isinstance(type, TensorType) or len(type.shape) != 1 or type.element != "f32":
            continue
        found = _terms(yielded, carried, loop.body)
        if found is not None and found.carried and found.reduces:
            yield RunningSum(loop.op, index, found.reduces, found.steps)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a part of a sum consists of. carried: whether the value that the loop carries is in it."""

    carried: bool = False
    reduces: tuple[Operation, ...] = ()
    steps: tuple[tuple[Operation, tuple[int, ...]], ...] = ()


def _terms(value: Value, argument: Value, body: Block) -> _Terms | None:
    """The terms of `value` if it consists of the carried value, sums of columns and factors, and has one use."""
    op = value.defining_op
    if len(value.uses) != 1:
        return None
    if value is argument:
        return _Terms(carried=True)
    if op is None or op.parent is not body:
        return None
    if sums_columns(op) and _from_dot(ReduceOp(op).sources[0]):
        return _Terms(reduces=(op,))
    of = [_terms(it, argument, body) for it in op.operands] if op.name in _STEPS else []
    summed = tuple(number for number, it in enumerate(of) if it is not None)
    if summed not in _STEPS.get(op.name, ()):
        return None
    parts = [it for it in of if it is not None]
    return _Terms(
        any(it.carried for it in parts),
        tuple(reduce for it in parts for reduce in it.reduces),
        (*(step for it in parts for step in it.steps), (op, summed)),
    )


def sums_columns(op: Operation) -> bool:
    """Whether `op` adds the columns of one f32 tile with more columns than the threads of a row have together."""
    reduce = ReduceOp.of(op)
    if reduce is None or len(reduce.sources) != 1:
        return False
    type, inside = parse_type(reduce.sources[0].type), op.regions[0].block.ops
    return (
        isinstance(type, TensorType)
        and type.element == "f32"
        and len(type.shape) == 2
        and reduce.axis == 1
        and type.shape[1] > ACCUMULATOR_COLUMNS
        and type.shape[1] % ACCUMULATOR_COLUMNS == 0
        and len(inside) == 2
        and AddFOp.matches(inside[0])
    )


def _from_dot(value: Value) -> bool:
    """Whether a tile is computed from the result of a dot, element by element."""
    todo = Worklist([value])
    for value in todo:
        op = value.defining_op
        if op is not None and op.name in DOTS:
            return True
        if op is not None and op.name in ELEMENTWISE:
            todo += op.operands
        else:
            todo += [use.op.operands[use.index] for use in incoming(value)]
    return False
