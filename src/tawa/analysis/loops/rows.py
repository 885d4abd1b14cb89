"""Loops of rows, for which the form without partitions is.

for j:                           no dot
  k = load(row)                  Triton lays a row out for its load, another one for its use:
  s = sum(tile * k[None, :], 1)  each iteration converts both, unless all warps take them as they are used
  store(row of sums, s)

for t:                           dots
  g = load(row)                  Triton's pipeliner loads operands of dots ahead, but not what rescales their sum:
  h = h * exp(g)[:, None]        each iteration waits for it
  h = dot(k, v, h)
"""

from __future__ import annotations

from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS, ExpandDimsOp, LoadOp, ReduceOp, StoreOp
from tawa.ir import Module, Operation, Worklist, shape_of
from tawa.symbolic.dim_relations import has_rows


def may_have_loops_of_rows(ttir: str) -> bool:
    """Whether the text of a kernel has what such a loop is made of."""
    return ForOp.NAME in ttir and any(it in ttir for it in _CHANGES_RANK)


def has_loops_of_rows(module: Module) -> bool:
    """Whether a loop is one of rows."""
    return any(is_of_rows(loop) for op in module.walk() if (loop := ForOp.of(op)))


def is_of_rows(loop: ForOp) -> bool:
    """Whether a loop without dots loads or stores rows, and makes tiles from rows, or rows from tiles.

    If it has dots: whether the sum of one depends on a number or a row that is loaded in the same iteration.
    """
    dots = [op for op in loop.op.walk() if op.name in DOTS]
    if dots:
        return any(op.parent is loop.body and _rescales_by_row(loop, op) for op in dots)
    return any(map(_accesses_row, loop.body.ops)) and any(map(_changes_rank, loop.body.ops))


def _rescales_by_row(loop: ForOp, dot: Operation) -> bool:
    work = Worklist([dot.operands[2]])
    for value in work:
        op = value.defining_op
        if op is None or op.parent is not loop.body or op.name in DOTS:
            continue
        if LoadOp.matches(op) and not has_rows(op.result):
            return True
        work += op.operands
    return False


def _accesses_row(op: Operation) -> bool:
    store = StoreOp.of(op)
    value = op.result if LoadOp.matches(op) else store.source if store else None
    return value is not None and shape_of(value) != () and not has_rows(value)


def _changes_rank(op: Operation) -> bool:
    return op.name in _CHANGES_RANK and any(shape_of(it) for it in op.results)


_CHANGES_RANK = op_names(ExpandDimsOp, ReduceOp)
