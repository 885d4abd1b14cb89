"""Longer programs: the axis of the grid along which programs get longer, as the tiles of a causal attention do.

    for %n in 0 … %full      (%full = pid x · 128)        together 0 … (pid x + 1) · 128: the programs get longer
    for %n in %full … %end   (%end = %full + 128)         with the id along x

    for %m in pid x · 64 … M                              they get shorter
    for %k in 0 … K                                       all are equally long

This serves the order in which tiles are started, and nothing depends on its being right. So arguments count as
positive, and a bound that is not monotonic in the id as unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tawa.analysis.loops.deciding_arguments import deciding_axes
from tawa.dialects import arith
from tawa.dialects.arith import constant_int
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tt import DOTS, FuncOp, GetProgramIdOp
from tawa.ir import Block, Operation, Value

Slope = int
"""1: a number grows with the program id, or is constant; -1: it falls, or is constant; 0: it is constant."""

_SAME = op_names(arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp)
_MONOTONIC = op_names(arith.AddIOp, arith.MinSIOp, arith.MaxSIOp, arith.MulIOp)


@dataclass(frozen=True, slots=True)
class LongerInfo:
    """axis: of the grid. grows: whether programs get longer with their id along it; else they get shorter."""

    axis: int
    grows: bool


def find_longer_programs(function: FuncOp) -> LongerInfo | None:
    """Finds the grid axis along which the trip counts of the loops with dots grow, or fall, with the program id.

    Returns None if no axis does that, if more than one does, or if a trip count is not known to be monotonic.
    function: structured TTIR of a program of one tile.
    """
    loops = [loop for op in function.op.walk() if (loop := ForOp.of(op)) and any(it.name in DOTS for it in op.walk())]
    found: list[LongerInfo] = []
    for axis in deciding_axes(function):
        slope = _length(loops, axis)
        if slope is None:
            return None
        if slope:
            found.append(LongerInfo(axis, slope > 0))
    return found[0] if len(found) == 1 else None


def _length(loops: Iterable[ForOp], axis: int) -> Slope | None:
    """How the trips of all loops together depend on the id along an axis; None if unknown."""
    slopes: list[Slope | None] = []
    for row in _rows(loops):
        ends, starts = Counter(loop.upper for loop in row), Counter(loop.lower for loop in row)
        slopes += [_slope(value, axis) for value in (ends - starts)]
        slopes += [_negated(_slope(value, axis)) for value in (starts - ends)]
    return _together(slopes)


def _rows(loops: Iterable[ForOp]) -> list[list[ForOp]]:
    """The loops of one block with the same step: where one starts as another ends, only the outer bounds count."""
    rows: dict[tuple[Block | None, int | None], list[ForOp]] = {}
    for loop in loops:
        rows.setdefault((_place(loop.op), constant_int(loop.step)), []).append(loop)
    return list(rows.values())


def _place(loop: Operation) -> Block | None:
    """The block around a loop, or around the branches that hold it."""
    while (holder := loop.parent_op) is not None and IfOp.of(holder):
        loop = holder
    return loop.parent


def _together(slopes: Iterable[Slope | None]) -> Slope | None:
    """The slope of a sum; None if it may be of either kind."""
    kinds = set(slopes) - {0}
    return 0 if not kinds else kinds.pop() if len(kinds) == 1 else None


def _negated(slope: Slope | None) -> Slope | None:
    return None if slope is None else -slope


def _slope(value: Value, axis: int) -> Slope | None:
    op = value.defining_op
    if op is None:
        return 0 if FuncOp.of(value.owner.parent_op) else None  # type: ignore[union-attr]
    program = GetProgramIdOp.of(op)
    if program is not None:
        return int(program.axis == axis)
    slopes = [_slope(operand, axis) for operand in op.operands] if not op.regions else []
    if op.regions:
        return _together(_slope(use.value, axis) for use in incoming(value)) if IfOp.of(op) else None
    if op.name in _SAME:
        return slopes[0]
    if op.name in _MONOTONIC:
        if arith.MulIOp.matches(op) and any((constant_int(it) or 0) < 0 for it in op.operands):
            return _negated(_together(slopes))
        return _together(slopes)
    if arith.SubIOp.matches(op):
        return _together((slopes[0], _negated(slopes[1])))
    if arith.DivSIOp.matches(op):
        return slopes[0] if slopes[1] == 0 else None
    if arith.SelectOp.matches(op):
        return _together(slopes[1:])
    return 0 if not any(slopes) and None not in slopes else None
