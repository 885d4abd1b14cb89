"""Fingerprints of choices: equal ones mean equal runs."""

from __future__ import annotations

import pytest

from tawa.verify.barriers.inputs.choices import choices, vectors
from tawa.verify.barriers.inputs.fingerprint import Fingerprints
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.run.trace import unroll
from tests.verify.barriers.test_check import FORESEEN, barrier


@pytest.mark.parametrize("program", FORESEEN)
def test_equal_fingerprints_mean_equal_runs(program: str) -> None:
    made_of = BarrierProgram(barrier(program))
    prints, runs = Fingerprints(made_of), dict[object, object]()
    compared = 0
    for numbers in vectors(choices(made_of, {}, (), range(6))):
        known = prints.of(numbers, {})
        assert known is not None
        events = [
            (trace.partition, event.kind, event.op, event.memory, event.barrier, event.parity)
            for segment in unroll(made_of, numbers, {}).segments
            for trace in segment
            for event in trace.events
        ]
        assert runs.setdefault(known, events) == events
        compared += 1
    assert compared > 5


def test_different_trip_counts_have_different_fingerprints() -> None:
    program = BarrierProgram(barrier("tile"))
    prints = Fingerprints(program)
    seen = [prints.of(numbers, {}) for numbers in vectors(choices(program, {}, (), range(6)))]
    assert len(set(seen)) == len(seen) == 6
