"""Exchanged operands: dots that sum over what consumer groups divide, though all other dots do not.

    s  = dot k, trans q        rows: keys, which the groups divide
    dk = dot ds, q, dk         rows: keys
    dq = dot trans ds, k       sums over keys: each group needs the ds of all groups, and computes a part of dq

Such a dot can be divided by its own rows, or by its columns if those are too few.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.analysis.dims.dim_classes import DimClasses
from tawa.dialects.tt import DotOp
from tawa.ir import Module, Operation, shape_of


def exchanged_dots(module: Module) -> list[DotOp]:
    """The dots that sum over the rows of the other dots, in program order; none if all of them do."""
    ops = list(module.walk())
    dots = [dot for op in ops if (dot := DotOp.of(op))]
    found = [dot for dot in dots if _sums_over_rows(ops, dot, [it for it in dots if it is not dot])]
    return found if len(found) < len(dots) else []


def _sums_over_rows(ops: Sequence[Operation], dot: DotOp, others: Sequence[DotOp]) -> bool:
    """Whether a dot sums over the dimension that is that of the rows of most other dots."""
    classes = DimClasses([op for op in ops if op is not dot.op])
    a, b = (len(shape_of(it)) - 1 for it in (dot.a, dot.b))
    summed = {classes.root((dot.a, a)), classes.root((dot.b, b - 1))}
    rows = [classes.root((it.op.result, len(shape_of(it.op.result)) - 2)) for it in others]
    return 2 * sum(it in summed for it in rows) > len(rows)
