"""Every small change of a right program is refuted, or listed as one that changes nothing."""

from __future__ import annotations

from functools import cache

import pytest

from tawa.ir import parse_module
from tawa.verify.barrier_events import Segment
from tawa.verify.barrier_history import Fault
from tawa.verify.barrier_inputs import choices, vectors
from tawa.verify.barrier_program import BarrierProgram
from tawa.verify.barrier_run import BarrierRun
from tawa.verify.barrier_trace import unroll
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Proved, Refuted
from tests.verify.explore_barrier import TooManyStates, goes_wrong
from tests.verify.mutations_barrier import EQUIVALENT, Mutant, mutants
from tests.verify.test_barriers import DATA, made

SOURCES = ("tile", "persistent", "gluon_gemm.triton3_9")


@cache
def text(source: str) -> str:
    return (DATA / f"{source}.mlir").read_text() if source.startswith("gluon") else made(source)[1]


@pytest.mark.parametrize("source", SOURCES)
def test_every_mutant_is_refuted_or_listed(source: str) -> None:
    arguments = {"arg15": 128, "arg16": 512} if source.startswith("gluon") else {}
    refuted = 0
    for mutant in mutants(text(source)):
        verdict = check_barriers(mutant.module, arguments=arguments)
        if isinstance(verdict, Refuted):
            assert verdict.witness.steps, str(mutant)
            refuted += 1
        else:
            assert isinstance(verdict, Proved), (str(mutant), verdict)
            assert (mutant.kind, mutant.target) in EQUIVALENT, str(mutant)
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
