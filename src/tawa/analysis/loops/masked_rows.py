"""Loops over the rows of a chunk that add terms to a tile, of which a mask keeps some rows.

    for %j in 0 to min(16, %n):
      %m = select (range >= %j), f(row %j of memory, %tile), 0
      %s = addf %s, %m

If each thread has whole columns of the tile, or rows at one distance of each other, the row of a register is known, and
so is its mask in an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tawa.analysis.layout.layouts import BlockedLayout
from tawa.analysis.loops.loads_around import WrittenInfo
from tawa.dialects import tt
from tawa.dialects.arith import (
    CmpIOp,
    ConstantOp,
    ExtSIOp,
    ExtUIOp,
    MinSIOp,
    MinUIOp,
    SelectOp,
    constant_int,
)
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Module, TensorType, Value, parse_type, shape_of
from tawa.machine.nvidia import WARP
from tawa.symbolic.dim_relations import FREE, SOURCES

_MOST_ELEMENTS = 512
"""The most elements of the masked tile that a thread computes in all iterations: some 3000 instructions."""
_BODY = FREE | SOURCES | op_names(tt.BroadcastOp, tt.ExpandDimsOp, ConvertLayoutOp)
_OF_RANGE = op_names(tt.MakeRangeOp, ConstantOp, tt.ExpandDimsOp, tt.BroadcastOp, ExtSIOp, ExtUIOp, ConvertLayoutOp)
_MINIMA = op_names(MinSIOp, MinUIOp)


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """Of a loop. trips: the most iterations. encoding: of the masked tile. layout: one in which masks can be known.

    whole: whether a thread then has whole columns.
    """

    trips: int
    encoding: str
    layout: BlockedLayout

    @property
    def columns(self) -> int:
        """The dimension of the columns."""
        return self.layout.order[0]

    @property
    def whole(self) -> bool:
        """Whether a thread has whole columns."""
        return self.layout.warps[self.layout.order[1]] == 1


def find_masked_rows(loop: ForOp, written: WrittenInfo, num_warps: int) -> MaskedRows | None:
    """The rows of a loop; None if it is not one over rows that a mask keeps, or if straight code would be too long.

    Such a loop has no effects, and loads only what the kernel does not write.
    """
    trips = _most_trips(loop)
    if trips is None or not _is_plain(loop, written):
        return None
    for op in loop.body.ops:
        select = SelectOp.of(op)
        kind = parse_type(op.result.type) if select is not None else None
        if select is None or not isinstance(kind, TensorType) or len(kind.shape) != 2:
            continue
        rows = _compared_dim(select.condition, loop)
        layout = _layout(kind.shape, rows, num_warps) if rows is not None else None
        if layout is not None and prod(kind.shape) // (WARP * num_warps) * trips <= _MOST_ELEMENTS:
            return MaskedRows(trips, kind.encoding, layout)
    return None


def has_masked_rows(module: Module, num_warps: int) -> bool:
    """Whether a kernel has such a loop."""
    written = WrittenInfo.of(module)
    loops = (loop for op in module.walk() if (loop := ForOp.of(op)))
    return any(find_masked_rows(it, written, num_warps) is not None for it in loops)


def _layout(shape: tuple[int, ...], rows: int, num_warps: int) -> BlockedLayout | None:
    """Lanes side by side along the columns, and as many warps as these have room for; the others take turns in rows."""
    columns = 1 - rows
    if shape[columns] % WARP:
        return None
    across = min(num_warps, shape[columns] // WARP)
    turns = num_warps // across
    if shape[columns] % (WARP * across) or shape[rows] % turns:
        return None
    size, lanes, warps = [1, 1], [1, 1], [1, 1]
    lanes[columns], warps[columns], warps[rows] = WARP, across, turns
    size[columns], size[rows] = shape[columns] // (WARP * across), shape[rows] if turns == 1 else 1
    return BlockedLayout(tuple(size), tuple(lanes), tuple(warps), (columns, rows))


def _most_trips(loop: ForOp) -> int | None:
    """The most iterations of a loop that counts from 0 by ones; None if no constant bounds them."""
    if loop.unsigned or constant_int(loop.lower) != 0 or constant_int(loop.step) != 1:
        return None
    op = loop.upper.defining_op
    bounds = [loop.upper] if op is None or op.name not in _MINIMA else [loop.upper, *op.operands]
    return next((it for bound in bounds if (it := constant_int(bound)) is not None), None)


def _is_plain(loop: ForOp, written: WrittenInfo) -> bool:
    """Whether a body only computes, and loads what nothing changes."""
    for op in loop.body.ops[:-1]:
        load = tt.LoadOp.of(op)
        if load is not None:
            if not is_plain_load(op) or not written.may_move(load):
                return False
        elif not RoundedProductOp.matches(op) and (op.name not in _BODY or not is_pure(op)):
            return False
    return True


def _compared_dim(condition: Value, loop: ForOp) -> int | None:
    """The dimension whose indices a condition compares with the induction variable."""
    while (spread := tt.BroadcastOp.of(condition.defining_op)) is not None:
        condition = spread.op.operands[0]
    compare = CmpIOp.of(condition.defining_op)
    long = [dim for dim, size in enumerate(shape_of(condition)) if size > 1]
    if compare is None or len(long) != 1:
        return None
    counts = [_counts(it, loop) for it in compare.op.operands]
    ranges = [_is_range(it) for it in compare.op.operands]
    return long[0] if (counts, ranges) in (([True, False], [False, True]), ([False, True], [True, False])) else None


def _counts(value: Value, loop: ForOp) -> bool:
    """Whether a value is the induction variable, in each element."""
    op = value.defining_op
    return value is loop.induction or (op is not None and tt.SplatOp.matches(op) and _counts(op.operands[0], loop))


def _is_range(value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.name in _OF_RANGE and all(map(_is_range, op.operands))
