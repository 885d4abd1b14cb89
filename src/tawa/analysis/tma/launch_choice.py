"""Launch choice: whether a launch can get the specialised kernel.

The launcher evaluates `why_not_launchable` at each launch. `clauses_of` states the same in advance, as clauses over the
kernel's arguments, followed by the number of programs and the second and third size of the grid.

    row stride of A, fp16     →     stride_am * 2 is a multiple of 16
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tawa.symbolic.host.conditions import Clause
from tawa.symbolic.host.expr import Apply, Argument, HostValue, Number
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.symbolic.host.ranges import Domain
from tawa.symbolic.range import Range

MOST_TILES = 1 << 30
"""Limit for a persistent kernel: the sum of a tile index and the number of programs fits 32 bits."""
MOST_WORKSPACE_BYTES = 1 << 30
"""Limit for the partial sums of programs that share tiles. Then the number of programs fits 31 bits, too."""

_MOST_PROGRAMS = 2**31 - 1
_MOST_OF_AXIS = 65535


def why_not_launchable(spec: LaunchSpec, values: Sequence[int], grid: Sequence[int]) -> str:
    """Why the specialised kernel cannot be launched with these arguments and this grid; empty if it can.

    values: of the arguments of the kernel's function, pointers as addresses. grid: its sizes.
    """
    broken = spec.broken(values)
    if broken is not None:
        return f"the arguments do not satisfy {broken}"
    if spec.axes and not fits(spec.grouped.ctas(grid) if spec.grouped else grid, spec.axes):
        return "the grid has more sizes or more programs than the persistent kernel supports"
    if spec.counter and not spec.axes and prod(grid[1:]) != 1:
        return "the grid has more than one axis, and all of its programs would take tiles from one counter"
    if spec.shared is not None and spec.shared.workspace_bytes(grid) > MOST_WORKSPACE_BYTES:
        return "the grid has so many tiles that their partial sums would take more than 1 GiB"
    try:
        for descriptor in spec.descriptors:
            descriptor.evaluate(values)
    except ZeroDivisionError:
        return "a size or stride of a tensor cannot be computed: a divisor is zero"
    return ""


def fits(grid: Sequence[int], axes: int) -> bool:
    """Whether a persistent kernel that receives the first `axes` sizes of the grid can cover it."""
    return prod(grid[axes:]) == 1 and prod(grid) <= MOST_TILES


def clauses_of(spec: LaunchSpec, count: int) -> tuple[Clause, ...]:
    """The clauses under which the specialised kernel can be launched. count: arguments of the kernel's function."""
    programs, rows, layers = grid_arguments(count)
    found = [Clause.of(condition) for condition in spec.conditions]
    for descriptor in spec.descriptors:
        for value in (descriptor.offset, *descriptor.shape, *descriptor.strides):
            found += [Clause(divisor, nonzero=True) for divisor in _divisors(value)]
    if spec.axes:
        found.append(Clause(programs, most=MOST_TILES))
        found += [Clause(size, most=1) for size in (rows, layers)[spec.axes - 1 :]]
    elif spec.counter:
        found += [Clause(size, most=1) for size in (rows, layers)]
    if spec.shared is not None:
        found.append(Clause(programs, most=MOST_WORKSPACE_BYTES // spec.shared.workspace_bytes((1,))))
    return tuple(dict.fromkeys(found))


def grid_arguments(count: int) -> tuple[Argument, Argument, Argument]:
    """The number of programs, and the second and third size of the grid, as arguments after the kernel's own."""
    return Argument(count, "programs"), Argument(count + 1, "grid y"), Argument(count + 2, "grid z")


def grid_values(grid: Sequence[int]) -> tuple[int, int, int]:
    """The values of `grid_arguments` for a grid."""
    sizes = (*grid, 1, 1)
    return prod(grid), sizes[1], sizes[2]


def grid_domain(count: int) -> Domain:
    """The values that `grid_arguments` can take: an empty grid launches nothing."""
    most = _MOST_PROGRAMS * _MOST_OF_AXIS**2
    return {
        count: Range(1, most),
        count + 1: Range(1, _MOST_OF_AXIS),
        count + 2: Range(1, _MOST_OF_AXIS),
    }


def _divisors(value: HostValue) -> Iterator[HostValue]:
    if not isinstance(value, Apply):
        return
    if value.divisor is not None and not isinstance(value.divisor, Number):
        yield value.divisor
    for operand in value.operands:
        yield from _divisors(operand)
