"""Trip counts of the skeleton's loops in a run with numbers, and the unknown of a loop that is chosen next.

    for t in range(pid, T, programs)     pid, then programs, then T: the values above pid that give 0, 1, 2, … trips
    for t in range(pid, 8, 2)            pid: the values below 8 that give 0, 1, 2, … trips
    for t in range(0, 8, S)              S: 1, 2, and the steps that give 3, 4, … trips

Bounds and steps are chosen, never trip counts: other conditions are computed from the same values, as in
``lower + step < upper``, which says whether there are two trips or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tawa.dialects.arith import AddIOp, ExtSIOp, ExtUIOp, IndexCastOp, MaxSIOp, MinSIOp, MulIOp
from tawa.dialects.scf import ForOp, trips_of
from tawa.dialects.tt import GetNumProgramsOp
from tawa.ir import Operation
from tawa.verify.assumptions import is_grid_size
from tawa.verify.run.state import ImpossibleError, NeedError
from tawa.verify.skeleton.program import Term


def trip_count(lower: Any, upper: Any, step: Any, op: Operation | None) -> int:
    """The trip count. Raises `NeedError` for an unknown operand, `ImpossibleError` if the step is 0 or less."""
    if isinstance(lower, Term) and not isinstance(upper, Term):
        if isinstance(step, Term):
            raise NeedError(_factor(step), role="step")
        raise NeedError(lower, lower=upper, step=-step)
    if isinstance(lower, Term):
        raise NeedError(lower, role="start")
    if isinstance(step, Term):
        distance = 0 if isinstance(upper, Term) else max(upper - lower, 0)
        raise NeedError(_factor(step), lower=distance, role="step")
    if isinstance(upper, Term):
        raise NeedError(upper, lower=lower, step=max(step, 1))
    trips = trips_of(lower, upper, step) if op is None else ForOp(op).trips(lower, upper, step)
    if trips is None:
        raise ImpossibleError(op, step=True)
    return trips


def steps_to_try(distance: int, trips: int) -> Iterator[int]:
    """The steps 1 and 2, and for a known distance of the bounds the steps that give 1, 2, … trips."""
    yield from sorted({1, 2, *(-(-distance // count) for count in range(1, trips + 1) if distance)})


def is_positive(number: Any) -> bool:
    """Whether a number is provably 1 or more."""
    if isinstance(number, int):
        return number > 0
    match number.key[0]:
        case GetNumProgramsOp.NAME:
            return True
        case "argument":
            return is_grid_size(number.name)
        case ExtSIOp.NAME | ExtUIOp.NAME | IndexCastOp.NAME:
            return is_positive(number.key[-1])
        case AddIOp.NAME | MulIOp.NAME | MinSIOp.NAME:
            return all(map(is_positive, number.key[-2:]))
        case MaxSIOp.NAME:
            return any(map(is_positive, number.key[-2:]))
        case _:
            return False


def _factor(step: Term) -> Term:
    """The number to choose for a computed step: the first leaf of its arithmetic."""
    while step.key[0].startswith("arith.") and step.parts:
        step = step.parts[0]
    return step
