"""Given numbers: scalars of the producer that are computed once, before the partitions start.

    %n = tt.reduce %mask                        %n = tt.reduce %mask                    all consumer warps compute it
    loop to %n { load; dot }              →     group producer { loop to %n { put } }
                                                group consumer { loop to %n { get; dot } }

A producer of one warp has no tiles, so it cannot compute the sum of a mask or the maximum of a row. If the number does
not change in a loop, it is computed before the partitions start, and each of them gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawa.analysis.rings.guards import GuardInfo, may_stay
from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.dialects.scf import CONTROL
from tawa.ir import Operation, Value, is_scalar

_FLOATS = ("f", "bf")


def given_numbers(
    found: GuardInfo, roots: Sequence[Operation], same: Mapping[Value, Value] | None = None
) -> tuple[Value, ...]:
    """The numbers that `roots`, the operations of the producer, need and that can be computed before the partitions.

    found: the guards around the roots. same: as of `slice_from`.
    """
    part = slice_from(roots, found.function.op, found.guards, same=same)
    held = {op for root in roots for op in (root, *root.ancestors())}
    return tuple(
        value
        for block in found.way
        for op in block.ops[:-1]
        if op in part and op not in held and _leaves_tiles(op, part)
        for value in _numbers(op, part)
        if _may_be_given(value, found, held)
    )


def _leaves_tiles(op: Operation, part: SliceInfo) -> bool:
    """Whether `op` computes integers from tiles or from floats, itself or in a branch or loop."""
    if op.name in CONTROL:
        return any(_leaves_tiles(inner, part) for inner in op.walk() if inner is not op and inner in part)
    inexact = any(not is_scalar(operand.type) or operand.type.startswith(_FLOATS) for operand in op.operands)
    return inexact and any(_is_integer(result) for result in op.results)


def _numbers(op: Operation, part: SliceInfo) -> list[Value]:
    results = [op.results[at] for at in part.kept_indices(op)] if op.name in CONTROL else op.results
    return [result for result in results if _is_integer(result)]


def _is_integer(value: Value) -> bool:
    return is_scalar(value.type) and not value.type.startswith(_FLOATS)


def _may_be_given(value: Value, found: GuardInfo, held: set[Operation]) -> bool:
    needed = slice_from((), found.function.op, found.guards, (value,))
    return all(may_stay(op) and op not in held for op in needed.ops)
