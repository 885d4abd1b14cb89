"""The events of the barrier level that a run with numbers executes."""

from __future__ import annotations

import itertools

import pytest

from tawa.verify.run.machine import Machine
from tawa.verify.run.state import NeedError
from tawa.verify.skeleton.compiler import compile_barriers
from tests.verify.barriers.explore import Segment, recorded
from tests.verify.barriers.test_check import barrier


def events(name: str, **numbers: int) -> list[Segment]:
    return recorded(compile_barriers(barrier(name)), numbers)


def count(segments: list[Segment], kind: str) -> int:
    return sum(event.kind == kind for segment in segments for line in segment for event in line)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_gemm_of_n_trips_has_n_dots_and_two_copies_per_dot(trips: int) -> None:
    segments = events("tile", n=trips)
    assert count(segments, "dot") == trips and count(segments, "copy in") == 2 * trips
    assert [len(segment) for segment in segments] == [1, 2, 1]


def test_slots_and_parities_alternate_around_the_ring() -> None:
    producer = events("tile", n=5)[1][1]
    expects = [event.barrier.path[0] for event in producer if event.kind == "expect" and event.barrier]
    assert all(one != other for one, other in itertools.pairwise(expects)) and set(expects) == {0, 1}


def test_a_data_dependent_loop_needs_a_trip_count() -> None:
    program = compile_barriers(barrier("while_listed"))
    numbers = dict.fromkeys(program.arguments.values(), 1)
    with pytest.raises(NeedError):
        Machine(program, numbers, program.leader).run()
