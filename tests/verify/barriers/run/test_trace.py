"""Unrolling a program into protocol events."""

from __future__ import annotations

import itertools

import pytest

from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.run.events import NeedsNumber, TooLong
from tawa.verify.barriers.run.trace import Unrolled, unroll
from tests.verify.barriers.test_check import barrier


def unrolled(name: str, limit: int = 10_000, **numbers: int) -> Unrolled:
    program = BarrierProgram(barrier(name))
    given = {leaf: numbers.get(leaf.hint, 0) for leaf in program.leaves}
    return unroll(program, given, {}, limit=limit)


def count(run: Unrolled, kind: str) -> int:
    return sum(event.kind == kind for segment in run.segments for trace in segment for event in trace.events)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_gemm_of_n_trips_has_n_dots_and_two_copies_per_dot(trips: int) -> None:
    run = unrolled("tile", n=trips)
    assert count(run, "dot") == trips and count(run, "copy in") == 2 * trips
    assert [len(segment) for segment in run.segments] == [1, 2, 1]


def test_slots_and_parities_alternate_around_the_ring() -> None:
    run = unrolled("tile", n=5)
    producer = run.segments[1][1]
    expects = [event.barrier.path[0] for event in producer.events if event.kind == "expect" and event.barrier]
    assert all(one != other for one, other in itertools.pairwise(expects)) and set(expects) == {0, 1}


def test_a_data_dependent_loop_needs_a_trip_count() -> None:
    with pytest.raises(NeedsNumber):
        unrolled("while_listed", n=1, m=1)


def test_a_run_beyond_its_limit_is_too_long() -> None:
    with pytest.raises(TooLong):
        unrolled("tile", limit=20, n=100)
