"""Streams: loops of the producer that load one sequence of tiles, of which each consumer group reads a part.

    for %n in 0 … %full  (%full depends on the group)    { put r { load K[%n] } }
    for %n in %full … %end   (so does %end)              { put r { load K[%n] } }

Together the loops put K[0], K[64], … whatever the group is; only where the sequence ends depends on it. So the
producer can put the tiles of the group with the longest sequence, once for all groups. That holds if the first lower
bound is the same for all groups, each later loop starts where the one before it ended, and all have the same step and
the same puts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.analysis.dims.dependents import diverges
from tawa.dialects.aref import PutOp
from tawa.dialects.arith import constant_int
from tawa.dialects.scf import CONTROL, ForOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Trust
from tawa.symbolic.value_ranges import ValueRanges

PARALLEL = "the loops that a group-dependent bound separates do not load one sequence of tiles"


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """One sequence of tiles.

    loops: in a row, in the producer. step: of all. carried: for each later loop, the result of the loop before it that
    each of its carried values continues.
    """

    loops: tuple[ForOp, ...]
    step: int
    carried: tuple[tuple[int, ...], ...]

    @property
    def rings(self) -> list[Value]:
        """The rings that an iteration fills, in order."""
        return list(dict.fromkeys(PutOp(op).ring for op in self.loops[0].body.ops if PutOp.of(op)))


class NoStreamError(Exception):
    """The control flow at `op` depends on the group in another way than by the length of a stream."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op, self.reason = op, reason


def find_streams(producer: GroupOp, function: FuncOp, dependent: set[Value]) -> list[StreamInfo]:
    """The streams of a producer whose length depends on the group. Raises `NoStreamError`.

    dependent: the values that depend on the group index.
    """
    found: list[StreamInfo] = []
    ranges = ValueRanges(function, Affine())
    for loops in _in_rows(producer.body, dependent):
        found.append(_stream(loops, ranges, dependent))
    return found


def _in_rows(block: Block, dependent: set[Value]) -> Iterator[list[ForOp]]:
    """The loops that diverge, as rows without other control flow in between."""
    row: list[ForOp] = []
    for op in block.ops:
        if op.name not in CONTROL:
            continue
        loop = ForOp.of(op)
        if not diverges(op, dependent):
            yield from (row,) if row else ()
            row = []
            for region in op.regions:
                for nested in region.blocks:
                    yield from _in_rows(nested, dependent)
        elif loop is None or loop.unsigned:
            raise NoStreamError(op, "a branch of the producer depends on the group index")
        else:
            inside = next((nested for nested in loop.body.ops if nested.name in CONTROL), None)
            if inside is not None:
                raise NoStreamError(inside, "a loop around other loops depends on the group index")
            if row and loop.lower not in dependent:
                yield row
                row = []
            row.append(loop)
    yield from (row,) if row else ()


def _stream(loops: list[ForOp], ranges: ValueRanges, dependent: set[Value]) -> StreamInfo:
    first, step = loops[0], constant_int(loops[0].step)
    if first.lower in dependent or step is None or step <= 0:
        raise NoStreamError(first.op, "the start of a loop of the producer depends on the group index")
    for put in (op for op in first.body.ops if PutOp.of(op)):
        if any(operand in dependent for nested in put.walk() for operand in nested.operands):
            raise NoStreamError(put, "a tile of one group is loaded in a loop whose length depends on the group")
    carried: list[tuple[int, ...]] = []
    before = first
    for loop in loops[1:]:
        known = ranges.known(ranges.affine.poly(before.upper) - ranges.affine.poly(before.lower), Trust.NOTHING)
        if loop.lower is not before.upper or constant_int(loop.step) != step:
            raise NoStreamError(loop.op, f"{PARALLEL}: one does not start where the one before it ends")
        if known.multiple % step or known.low < 0:
            raise NoStreamError(loop.op, f"{PARALLEL}: the bound between them may be inside of an iteration")
        carried.append(_continued(first, before, loop))
        before = loop
    return StreamInfo(tuple(loops), step, tuple(carried))


def _continued(first: ForOp, before: ForOp, loop: ForOp) -> tuple[int, ...]:
    """For each carried value of a loop the result of the loop before it that it continues.

    Raises `NoStreamError` if the bodies do not do the same.
    """
    same: dict[Value, Value] = {loop.induction: first.induction}
    found: list[int] = []
    for init, argument in zip(loop.inits, loop.iter_args, strict=True):
        index = next((result.index for result in before.op.results if result is init), None)
        if index is None or index >= len(first.iter_args):
            raise NoStreamError(loop.op, f"{PARALLEL}: a carried value starts anew")
        same[argument] = first.iter_args[index]
        found.append(index)
    mine, theirs = loop.body.ops, first.body.ops
    equal = len(mine) == len(theirs) and all(_same(a, b, same) for a, b in zip(mine[:-1], theirs[:-1], strict=True))
    for index, value in zip(found, loop.yielded, strict=True):
        equal = equal and same.get(value, value) is first.yielded[index]
    if not equal:
        raise NoStreamError(loop.op, f"{PARALLEL}: their bodies differ")
    return tuple(found)


def _same(mine: Operation, theirs: Operation, same: dict[Value, Value]) -> bool:
    """Whether two operations do the same, given which values are the same; their results then are as well."""
    if mine.name != theirs.name or mine.properties != theirs.properties:
        return False
    if [same.get(it, it) for it in mine.operands] != theirs.operands or len(mine.regions) != len(theirs.regions):
        return False
    for one, other in zip(mine.regions, theirs.regions, strict=True):
        if len(one.block.ops) != len(other.block.ops):
            return False
        if not all(_same(a, b, same) for a, b in zip(one.block.ops, other.block.ops, strict=True)):
            return False
    same.update(zip(mine.results, theirs.results, strict=True))
    return True
