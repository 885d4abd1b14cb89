"""Recorded events and their signature."""

from __future__ import annotations

import pytest

from tawa.verify.barriers.program.kernel import BarrierProgram, NotUnderstood
from tawa.verify.barriers.run.events import MAX_EVENTS, Event, Recorder, TooLong, Trace, signature
from tests.verify.barriers.test_check import barrier


def test_runs_with_equal_events_have_equal_signatures() -> None:
    op = BarrierProgram(barrier("tile")).ops[0]
    runs = [[[Trace("default", [Event("wait", op, parity=parity)])]] for parity in (0, 0, 1)]
    assert signature(runs[0]) == signature(runs[1]) != signature(runs[2])


def test_past_its_limit_a_run_is_too_long_and_past_every_limit_not_understood() -> None:
    program = BarrierProgram(barrier("tile"))
    for limit, error in ((3, TooLong), (MAX_EVENTS, NotUnderstood)):
        recorder = Recorder(program, limit)
        recorder.count = limit
        with pytest.raises(error):
            recorder.tick(program.ops[0])
