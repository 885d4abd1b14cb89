"""Launches that the model of time is asked about: a known one, or a usual one if the arguments are not known yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.work.visits import Visits, count_visits
from tawa.analysis.work.workload import Workload
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import GetProgramIdOp
from tawa.ir.attributes import read_int
from tawa.machine.hopper import PROCESSORS, USUAL_SIZES, USUAL_WAVES
from tawa.symbolic.origins import origins_of

_SAMPLES = 12
"""Programs of a launch that are evaluated."""
_ROW = 32
"""Programs along the first axis of a grid of several: the tiles of the rows of a usual size."""
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch. programs: of the grid. visits: of a mean program. processors: SMs."""

    programs: int
    visits: Visits
    processors: int = PROCESSORS


def launch_of(
    workload: Workload, arguments: Sequence[int | None], grid: Sequence[int], processors: int = PROCESSORS
) -> Launch:
    """A launch with these arguments (by index of the function's parameters; None is unknown) and this grid."""
    sizes = (*grid, 1, 1)[:3]
    programs = math.prod(sizes)
    chosen = sorted({int((number + 0.5) * _GOLDEN % 1 * programs) for number in range(_SAMPLES)})
    mean = Visits()
    for number in chosen:
        program = number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])
        found = count_visits(workload.function, arguments, program, sizes)
        mean.add(found, 1 / len(chosen))
    return Launch(programs, mean, processors)


def usual_launches(workload: Workload, processors: int = PROCESSORS) -> tuple[Launch, ...]:
    """Launches for arguments that are not known: all integers are one of `USUAL_SIZES`, and SMs have `USUAL_WAVES`.

    Integers are sizes and strides. A stride does not change how often a loop iterates. A kernel whose programs iterate
    over tiles themselves has one program for each SM.
    """
    programs = USUAL_WAVES * processors
    grid: tuple[int, ...] = (programs,)
    if _iterates_over_tiles(workload):
        grid = (processors,)
    elif len({read_int(op.properties["axis"]) for op in workload.function.op.walk() if GetProgramIdOp.of(op)}) > 1:
        grid = (_ROW, programs // _ROW)
    integers = [width_of(it.type) not in (None, 1) for it in workload.function.body.args]
    every = ([size if integer else None for integer in integers] for size in USUAL_SIZES)
    return tuple(launch_of(workload, arguments, grid, processors) for arguments in every)


def _iterates_over_tiles(workload: Workload) -> bool:
    """Whether a loop around the loop of a dot starts at the program's own number."""
    for block, work in workload.blocks.items():
        loop = workload.loops[block]
        outer = [ForOp(it) for it in loop.ancestors() if ForOp.of(it)] if work.dots and loop is not None else []
        lower = [it.lower for it in outer]
        if any(GetProgramIdOp.NAME in {op.name for op in origins_of([value]).operations} for value in lower):
            return True
    return False


__all__ = ["Launch", "launch_of", "usual_launches"]
