"""Launches that the model of time is asked about: a known one, or a usual one if the arguments are not known yet."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.loops.deciding_arguments import deciding_axes
from tawa.analysis.work.visits import USUAL_TRIPS, Visits, count_visits
from tawa.analysis.work.workload import Workload
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import LOOPS
from tawa.dialects.tt import GetProgramIdOp
from tawa.ir.attributes import read_int
from tawa.machine.machines import SM_90
from tawa.plan.defaults import USUAL_SIZES, USUAL_WAVES
from tawa.symbolic.origins import origins_of

_SAMPLES = 12
"""Programs of a launch that are evaluated."""
_ROW = 32
"""Programs along the first axis of a grid of several: the tiles of the rows of a usual size."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_MOST_EVALUATED = 256
"""Programs with different amounts of work that are evaluated to see how the work is spread over the SMs."""
_MOST_SPREAD = 1 << 14
"""Programs of a launch that has so many that their work evens out."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch. programs: of the grid. visits: of a mean program. processors: SMs.

    in_order, longest_first, strided: the programs' worth of work of the busiest SM, if each SM takes the next program
    when it is free, also if the longest programs are the first, and if SM number s takes the programs s,
    s + processors, … (the persistent form); None if all programs do the same, or if memory decides how much they do
    (`Visits.guessed`). size: what all integer arguments are taken to be; None if arguments and grid are known.
    """

    programs: int
    visits: Visits = field(default_factory=Visits)
    processors: int = SM_90.processors
    in_order: float | None = None
    strided: float | None = None
    longest_first: float | None = None
    size: int | None = None

    @property
    def on_one(self) -> int:
        """Programs on the busiest SM."""
        return math.ceil(self.programs / self.processors)

    @property
    def guesses(self) -> str:
        """The sizes that are guessed, in words; empty if all are known."""
        found = [f"arguments of {self.size}", f"{self.programs} programs"] if self.size is not None else []
        found += [f"{USUAL_TRIPS} iterations where memory decides"] * self.visits.guessed
        return ", ".join(found)


def launch_of(
    workload: Workload, arguments: Sequence[int | None], grid: Sequence[int], processors: int = SM_90.processors
) -> Launch:
    """A launch with these arguments (by index of the function's parameters; None is unknown) and this grid."""
    sizes = (*grid, 1, 1)[:3]
    programs, axes = math.prod(sizes), deciding_axes(workload.function)
    known: dict[tuple[int, ...], Visits] = {}

    def visits_of(number: int) -> Visits:
        program = _program(number, sizes)
        key = tuple(program[axis] for axis in axes)  # other programs with these numbers execute the same
        if key not in known:
            known[key] = count_visits(workload.function, arguments, program, sizes)
        return known[key]

    chosen = sorted({int((number + 0.5) * _GOLDEN % 1 * programs) for number in range(_SAMPLES)})
    mean = Visits()
    for number in chosen:
        mean.add(visits_of(number), 1 / len(chosen))
    spreads = bool(axes) and programs > processors and math.prod(sizes[axis] for axis in axes) <= _MOST_EVALUATED
    spread = _spread(workload, visits_of, programs, processors) if spreads else (None, None, None)
    return Launch(programs, mean, processors, *spread)


def programs_differ(workload: Workload) -> bool:
    """Whether programs of one launch may have different amounts of work: by their numbers, or as memory decides."""
    if deciding_axes(workload.function):
        return True
    arguments = [USUAL_SIZES[0] if width_of(it.type) is not None else None for it in workload.function.body.args]
    return count_visits(workload.function, arguments, (0,), (1,)).guessed


def _program(number: int, sizes: Sequence[int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


def _spread(
    workload: Workload, visits_of: Callable[[int], Visits], programs: int, processors: int
) -> tuple[float | None, float | None, float | None]:
    """`Launch.in_order`, `Launch.strided` and `Launch.longest_first`."""
    products: dict[int, float] = {}  # one entry for programs that execute the same

    def work(number: int) -> float:
        visits = visits_of(number)
        if id(visits) not in products:
            products[id(visits)] = _products(workload, visits)
        return products[id(visits)]

    every = [work(number) for number in range(min(programs, _MOST_SPREAD))]
    mean = sum(every) / len(every)
    if max(every) <= min(every) or not mean:
        return None, None, None
    scale = programs / len(every) / mean
    in_order = _when_free(every, processors)
    strided = max(sum(every[first::processors]) for first in range(processors))
    longest_first = _when_free(sorted(every, reverse=True), processors)
    return in_order * scale, strided * scale, longest_first * scale


def _when_free(every: Sequence[float], processors: int) -> float:
    """The work of the busiest SM, if each takes the next program when it is free."""
    free = [0.0] * processors
    for it in every:
        heapq.heapreplace(free, free[0] + it)
    return max(free)


def _products(workload: Workload, visits: Visits) -> float:
    """The multiplications of all dots of a program."""
    every = ((sum(it.rows * it.columns * it.inner * it.batch for it in work.dots), block)
             for block, work in workload.blocks.items() if work.dots)  # fmt: skip
    return sum(products * visits.blocks.get(block, 0.0) for products, block in every)


def usual_launches(workload: Workload, processors: int = SM_90.processors) -> tuple[Launch, ...]:
    """Launches for arguments that are not known: all integers are one of `USUAL_SIZES`, and SMs have `USUAL_WAVES`.

    Integers are sizes and strides. A stride does not change how often a loop iterates. A kernel whose programs iterate
    over tiles themselves has one program for each SM.
    """
    programs = USUAL_WAVES * processors
    grid: tuple[int, ...] = (programs,)
    if _iterates_over_tiles(workload):
        grid = (processors,)
    elif len({read_int(op.properties["axis"]) for op in workload.function.op.walk() if GetProgramIdOp.of(op)}) > 1:
        grid = (_ROW, max(1, programs // _ROW))
    integers = [width_of(it.type) not in (None, 1) for it in workload.function.body.args]
    every = {size: [size if integer else None for integer in integers] for size in USUAL_SIZES}
    found = {size: launch_of(workload, arguments, grid, processors) for size, arguments in every.items()}
    return tuple(replace(launch, size=size) for size, launch in found.items())


def _iterates_over_tiles(workload: Workload) -> bool:
    """Whether a loop around the loop of a dot counts tiles from the program's own number, or carries such a number."""
    for block, work in workload.blocks.items():
        loop = workload.loops[block]
        outer = [it for it in loop.ancestors() if it.name in LOOPS] if work.dots and loop is not None else []
        begins = [value for it in outer for value in it.operands if width_of(value.type) is not None]
        if any(GetProgramIdOp.NAME in {op.name for op in origins_of([value]).operations} for value in begins):
            return True
    return False
