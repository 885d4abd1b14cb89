"""P of the Plan, of the reason and of the remarks is one number: that of the program."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.dialects.ttng import WarpGroupDotWaitOp
from tawa.plan import PlanOptions
from tests.cases.pointers.cases import find
from tests.matrix.compiling import attempted, signature
from tests.support.fronts import front

NAMES = ("linear_backwards", "assembly_in_loop_pure", "grouped_tma_lengths", "tutorial_fp16_nn")


@pytest.mark.parametrize("name", NAMES)
def test_p_is_that_of_the_program(name: str) -> None:
    found, _ = attempted(find(name), PlanOptions(only_if_faster=False, mma_depth=1, aref_depth=3))
    assert isinstance(found, Specialised)
    plan, module, said = found.outcome.plan, found.outcome.module, [it.reason for it in found.outcome.remarks]
    assert plan is not None and module is not None and not plan.schedules
    waits = [wait.pendings for op in module.walk() if (wait := WarpGroupDotWaitOp.of(op))]
    assert plan.mma_depth == int(any(waits))
    assert f"P = {plan.mma_depth}" in said[0]
    assert not [text for text in said[1:] if "P = " in text]
    if plan.mma_depth == 0:
        assert any("no wgmma of this loop stays in flight" in text for text in said)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_that_is_pinned_again_makes_the_same_program(name: str) -> None:
    case = find(name)
    made = front(case.kernel, signature(case), num_warps=case.num_warps, num_stages=case.num_stages)
    asked = PlanOptions(only_if_faster=False, mma_depth=1, aref_depth=3)
    first = specialise(made.job(name), Request(asked))
    assert isinstance(first, Specialised) and first.outcome.plan is not None
    request = Request(PlanOptions(only_if_faster=False), first.outcome.plan)
    again = specialise(made.job(name), request)
    assert isinstance(again, Specialised)
    assert (again.outcome.plan, again.outcome.aref) == (first.outcome.plan, first.outcome.aref)
