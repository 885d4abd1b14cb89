"""`bench/gemm/plans.py` without a GPU: its Plans, its problems, its lines."""

from __future__ import annotations

import pytest

from bench.gemm import plans
from bench.harness import Row
from tawa.plan import Plan


@pytest.mark.parametrize("what", plans.PROBLEMS)
def test_every_candidate_is_a_plan_of_its_own(what: str) -> None:
    for problem in plans.PROBLEMS[what]:
        pinned = [Plan.of(it) for it in plans.plans_of(what, problem).values() if it]
        assert pinned and len(set(pinned)) == len(pinned)
    assert len({str(it) for it in plans.PROBLEMS[what]}) == len(plans.PROBLEMS[what])


def test_lines_have_the_times_or_the_reasons() -> None:
    rows = [Row({}, "launch", 0.5, tflops=700.0), Row({}, "hilbert", error="PlanError: no")]
    assert [line.split() for line in plans.line_of(plans.Problem(1, 2, 3), rows).splitlines()[1:]] == [
        ["launch", "500.0", "us", "700.0", "TFLOP/s"],
        ["hilbert", "PlanError:", "no"],
    ]
