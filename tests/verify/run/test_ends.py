"""Messages for runs that deadlock or end with full or borrowed slots."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.verify.run.ends import check_end, deadlock
from tawa.verify.run.state import Channel, FaultError, Thread
from tawa.verify.skeleton.program import Part, Program, Ring, Terms
from tests.cases.programs import ttgir as programs


def program(depth: int) -> Program:
    rings = [Ring("ring0", depth, ["consumer"], ["producer"])]
    return Program(parse_module(programs.tile_gemm()), [], rings, [], {}, Terms())


def waiting(name: str, action: str, count: int) -> Thread:
    thread = Thread(Part(name))
    thread.waits = (action, 0, count)
    return thread


def test_a_ring_that_is_too_shallow_names_the_depth_that_is_needed() -> None:
    channel = Channel(1, 1, puts=1, gets=[1], released=[set()], borrowed=[[0]])
    message = deadlock(program(1), [channel], [waiting("producer", "put", 1), waiting("consumer", "get", 1)])
    assert "producer waits for the release of 0 of ring0 (consumer holds 0)" in message
    assert "D ≥ 2 is needed" in message


@pytest.mark.parametrize(
    ("gets", "borrowed", "text"), [([1], [[]], "2 puts but 1 gets by consumer"), ([2], [[1]], "never releases 1")]
)
def test_a_slot_that_is_full_or_borrowed_at_the_end_is_a_fault(
    gets: list[int], borrowed: list[list[int]], text: str
) -> None:
    with pytest.raises(FaultError, match=text):
        check_end(program(2), [Channel(2, 1, puts=2, gets=gets, released=[set()], borrowed=borrowed)])


def test_balanced_rings_have_no_fault() -> None:
    check_end(program(2), [Channel(2, 1, puts=2, gets=[2], released=[{0, 1}], borrowed=[[]])])
