"""The truth about a program: faulty if a launch deadlocks or overruns, right by construction or on all its launches."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bench.predicates.programs import ARGUMENTS, IN_MEMORY, LOADED, PROGRAM, PROGRAMS, Program
from bench.predicates.runs import Vector, faulty, run_of, stuck

Truth = Literal["faulty", "right"]
MOST = 500
"""The number of launches that are tried."""
STEPPED = 4_000
"""The largest number of iterations of a run that is made step by step."""
_PLACES = ((0, 1), (0, 2), (1, 2), (2, 3), (5, 8), (0, 132), (100, 132), (131, 132), (1500, 2000), (70000, 70001))
_INNER = (7, 12, 13, 64, 65, 127, 128, 129, 191, 192, 256, 300, 448, 577, 640, 1000, 1200, 4096, 19200, 76800)
_TILES = (0, 1, 2, 3, 4, 5, 9, 17, 33, 40, 136, 264, 1000)
_ODD = (-1, -2, -7, -64, -(1 << 31))


@dataclass(frozen=True, slots=True)
class Known:
    """The truth, and the launch that is faulty: its numbers, and what is wrong in it."""

    truth: Truth
    launch: Vector
    wrong: str = ""


def truth_of(program: Program) -> Known | None:
    """The truth about a program; None if it is not decided.

    Raises AssertionError if a program that is right by construction has a faulty run.
    """
    variables = program.variables()
    some = False
    for vector in launches(program, variables):
        run = run_of(program, vector)
        if run is None:
            continue
        some |= run.total > 2 * program.depth
        if not faulty(program, run):
            if program.right and run.total <= 100:
                assert not stuck(program, vector), f"right by construction, but not in a run: {program}, {vector}"
            continue
        assert not program.right, f"right by construction, but not in a run: {program}, {vector}"
        wrong = stuck(program, vector) if run.total <= STEPPED else ""
        if wrong:
            return Known("faulty", vector, wrong)
    if some and (program.right or not variables & {*ARGUMENTS, PROGRAM, PROGRAMS, LOADED}):
        return Known("right", {})
    return None


def launches(program: Program, variables: set[str]) -> Iterator[Vector]:
    """Launches that are likely to tell: small ones first, then those around the program's constants, up to `MOST`."""
    near = sorted({c + d for it in program.terms for c in it.constants() for d in (-1, 0, 1, program.depth, 64)})
    steps = {int(it.inner.step.of) for it in (program,) if it.inner.step.op == "constant"}
    scaled = [c * step for step in sorted(steps) if step > 1 for c in near if abs(c) <= 2000]
    few = [*range(2 * program.depth + 3)]
    inner = [*few, *(it * step for step in sorted(steps) if step > 1 for it in few)]
    lists: dict[str, list[int]] = {
        "K": [*inner, *_ODD, *near, *_INNER, *scaled],
        "T": [*_TILES, *_ODD, *near],
        IN_MEMORY: [0, 1, 2, 3, 5, *_ODD, 40, *near],
    }
    names = [name for name in lists if name in variables or (name == IN_MEMORY and LOADED in variables)]
    places = _PLACES if variables & {PROGRAM, PROGRAMS} else _PLACES[:1]
    choices = [list(dict.fromkeys(_fitting(lists[name]))) for name in names]
    axes = [*choices, list(range(len(places)))]
    every = math.prod(map(len, axes)) <= MOST
    for *values, place in itertools.product(*axes) if every else _some(axes):
        vector = dict.fromkeys((*ARGUMENTS, IN_MEMORY), 0)
        program_id, programs = places[place]
        yield {**vector, **dict(zip(names, values, strict=True)), PROGRAM: program_id, PROGRAMS: programs}


def _fitting(values: list[int]) -> Iterator[int]:
    return (it for it in values if -(1 << 31) <= it < 1 << 31)


def _some(axes: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Launches at random, always the same: numbers early in their lists are more likely."""
    dice = random.Random(0)
    seen = set[tuple[int, ...]]()
    while len(seen) < MOST:
        found = tuple(values[int(len(values) * dice.random() ** 1.5)] for values in axes)
        if found not in seen:
            seen.add(found)
            yield found
