"""Small changes of right programs: fast, full and an exhaustive exploration say the same of each."""

from __future__ import annotations

from functools import cache

import pytest

from tawa.ir import parse_module
from tawa.verify.barriers.check import check_barriers
from tawa.verify.barriers.inputs.choices import choices, vectors
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.run.events import Segment
from tawa.verify.barriers.run.happens_before import BarrierRun
from tawa.verify.barriers.run.history import Fault
from tawa.verify.barriers.run.trace import unroll
from tawa.verify.verdict import Proved, Refuted
from tests.verify.barriers.explore import TooManyStates, goes_wrong
from tests.verify.barriers.test_check import made
from tests.verify.mutations_barrier import mutants
from tests.verify.mutations_edits import Mutant

SOURCES = ("tile", "persistent", "guarded", "while_listed")


@cache
def text(source: str) -> str:
    return made(source)[1]


@pytest.mark.parametrize("source", SOURCES)
def test_fast_refutes_the_mutants_that_full_refutes(source: str) -> None:
    refuted = 0
    for mutant in mutants(text(source)):
        fast, full = (check_barriers(mutant.module, effort=effort) for effort in ("fast", "full"))
        assert type(fast) is type(full), (str(mutant), fast, full)
        if isinstance(fast, Refuted):
            assert fast.witness.steps, str(mutant)
            refuted += 1
        else:
            assert isinstance(fast, Proved), (str(mutant), fast)
    assert refuted > 40


def wrong_by_order(program: BarrierProgram, segments: list[Segment]) -> str:
    try:
        BarrierRun(program, segments).execute()
    except Fault as fault:
        return fault.message
    return ""


@pytest.mark.parametrize(("source", "trips"), [("tile", 3), ("persistent", 1)])
def test_one_run_says_what_all_interleavings_say(source: str, trips: int) -> None:
    compared = 0
    cases: list[Mutant | None] = [None, *mutants(text(source))]
    for mutant in cases:
        program = BarrierProgram(mutant.module if mutant else parse_module(text(source)))
        for numbers in vectors(choices(program, {}, (), range(trips + 1))):
            segments = unroll(program, numbers, {}).segments
            try:
                explored = goes_wrong(segments, 20_000)
            except TooManyStates:
                continue
            assert bool(wrong_by_order(program, segments)) == bool(explored), (str(mutant), explored)
            compared += 1
    assert compared > 100
