"""Named barriers: proved where they are right, refuted where they are not."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.verify.barriers import check_barriers
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.run.happens_before import BarrierRun
from tawa.verify.barriers.run.history import Fault
from tawa.verify.barriers.run.trace import unroll
from tawa.verify.verdict import Checked, FaultKind, Refuted, Verdict
from tawa.verify.witness import describe
from tests.support.verdicts import passes
from tests.verify.barriers.explore import goes_wrong
from tests.verify.barriers.named import handed_on

FAULTS: dict[str, tuple[FaultKind, ...]] = {
    "the reader does not wait": ("read before write",),
    "the writer does not wait": ("write-write race", "write before release", "arrive count"),
    "the writer does not arrive": ("deadlock",),
    "the reader does not arrive": ("deadlock",),
    "the writer arrives before it writes": ("read before write",),
    "the reader arrives before it reads": ("write before release",),
    "the writer arrives twice": ("arrive count",),
    "more threads than there are": ("deadlock",),
    "counts that differ": ("arrive count",),
    "another number": ("deadlock", "read before write", "arrive count"),
    "no slot is empty at first": ("deadlock",),
    "all threads of the program": ("deadlock",),
    "the barrier that starts the partitions": ("reserved barrier",),
}


def refuted(verdict: Verdict) -> FaultKind:
    assert isinstance(verdict, Refuted), describe(verdict)
    return verdict.witness.kind


@pytest.mark.parametrize("D", [1, 2, 3])
def test_partitions_that_meet_at_named_barriers_are_proved(D: int) -> None:
    verdict = check_barriers(handed_on(D))
    assert passes(verdict), describe(verdict)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("D", [1, 2])
def test_a_fault_is_refuted_with_its_kind(D: int, fault: str) -> None:
    verdict = check_barriers(handed_on(D, fault))
    assert refuted(verdict) in FAULTS[fault], describe(verdict)


def test_a_deadlock_says_who_is_missing() -> None:
    text = describe(check_barriers(handed_on(1, "the writer does not arrive")))
    assert "default waits at named barrier 7, which has 128 of 256 threads" in text
    assert "wait at named barrier[7]" in text


def test_as_many_trips_are_tried_as_go_through_all_slots_twice() -> None:
    verdict = check_barriers(handed_on(3))
    assert isinstance(verdict, Checked), describe(verdict)
    assert "n in 0, 1, …, 7" in verdict.bound


@pytest.mark.parametrize("fault", ["none", *FAULTS])
@pytest.mark.parametrize(("D", "n"), [(1, 1), (1, 3), (2, 3)])
def test_one_run_says_what_the_exploration_of_all_interleavings_says(D: int, n: int, fault: str) -> None:
    module = handed_on(D, fault)
    program = BarrierProgram(module)
    unrolled = unroll(program, dict.fromkeys(program.leaves, n), {})
    reserved = any(event.kind == "reserved" for segment in unrolled.segments for it in segment for event in it.events)
    if reserved:
        return  # the rule is Triton's, not the hardware's
    try:
        BarrierRun(program, unrolled.segments).execute()
        found = ""
    except Fault as fault_found:
        found = fault_found.message
    wrong = goes_wrong(unrolled.segments)
    assert bool(found) == bool(wrong), (found, wrong)
