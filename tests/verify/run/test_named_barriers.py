"""Named barriers: proved where they are right, refuted where they are not."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.verify.barriers import check_barriers
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.verdict import FaultKind, Proved, Refuted, Verdict
from tawa.verify.witness import describe
from tests.verify.barriers.explore import goes_wrong, recorded
from tests.verify.barriers.named import handed_on
from tests.verify.run.test_happens_before import fault_of_one_run

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
    assert isinstance(verdict, Proved), describe(verdict)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("D", [1, 2])
def test_a_fault_is_refuted_with_its_kind(D: int, fault: str) -> None:
    verdict = check_barriers(handed_on(D, fault))
    assert refuted(verdict) in FAULTS[fault], describe(verdict)


def test_a_deadlock_says_who_is_missing() -> None:
    text = describe(check_barriers(handed_on(1, "the writer does not arrive")))
    assert "default waits at named barrier 7, which has 128 of 256 threads" in text
    assert "wait at named barrier[7]" in text


@pytest.mark.parametrize("fault", ["none", *FAULTS])
@pytest.mark.parametrize(("D", "n"), [(1, 1), (1, 3), (2, 3)])
def test_one_run_says_what_the_exploration_of_all_interleavings_says(D: int, n: int, fault: str) -> None:
    program = compile_barriers(handed_on(D, fault))
    segments = recorded(program, {"n": n})
    if any(event.kind == "reserved" for segment in segments for line in segment for event in line):
        return  # the rule is Triton's, not the hardware's
    found, wrong = fault_of_one_run(program, {"n": n}), goes_wrong(segments)
    assert bool(found) == bool(wrong), (found, wrong)
