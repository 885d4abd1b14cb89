"""One run with happens-before agrees with an exhaustive exploration of all interleavings."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.verify.barriers.inputs.choices import choices, vectors
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.run.events import Segment
from tawa.verify.barriers.run.happens_before import BarrierRun
from tawa.verify.barriers.run.history import Fault
from tawa.verify.barriers.run.trace import unroll
from tests.verify.barriers.explore import TooManyStates, goes_wrong
from tests.verify.barriers.test_check_mutants import text
from tests.verify.mutations_barrier import mutants
from tests.verify.mutations_edits import Mutant


def wrong_by_order(program: BarrierProgram, segments: list[Segment]) -> str:
    try:
        BarrierRun(program, segments).execute()
    except Fault as fault:
        return fault.message
    return ""


@pytest.mark.parametrize(("source", "trips"), [("tile", 3), ("persistent", 1)])
def test_one_run_finds_a_fault_exactly_if_some_interleaving_has_one(source: str, trips: int) -> None:
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
