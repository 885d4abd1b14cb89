"""Loops without dots that access rows and compute with tiles of them: the form without partitions is for these.

for j:
  k = load(row)                  Triton lays a row out for its load, another one for its use:
  s = sum(tile * k[None, :], 1)  each iteration converts both, unless all warps take them as they are used
  store(row of sums, s)
"""

from __future__ import annotations

from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS, ExpandDimsOp, LoadOp, ReduceOp, StoreOp
from tawa.ir import Module, Operation, shape_of
from tawa.symbolic.dim_relations import has_rows


def may_have_loops_of_rows(ttir: str) -> bool:
    """Whether the text of a kernel has what such a loop is made of."""
    return ForOp.NAME in ttir and any(it in ttir for it in _CHANGES_RANK)


def has_loops_of_rows(module: Module) -> bool:
    """Whether a loop is one of rows."""
    return any(is_of_rows(loop) for op in module.walk() if (loop := ForOp.of(op)))


def is_of_rows(loop: ForOp) -> bool:
    """Whether a loop has no dot, loads or stores rows, and makes tiles from rows, or rows from tiles."""
    if any(op.name in DOTS for op in loop.op.walk()):
        return False
    return any(map(_accesses_row, loop.body.ops)) and any(map(_changes_rank, loop.body.ops))


def _accesses_row(op: Operation) -> bool:
    store = StoreOp.of(op)
    value = op.result if LoadOp.matches(op) else store.source if store else None
    return value is not None and shape_of(value) != () and not has_rows(value)


def _changes_rank(op: Operation) -> bool:
    return op.name in _CHANGES_RANK and any(shape_of(it) for it in op.results)


_CHANGES_RANK = op_names(ExpandDimsOp, ReduceOp)
