"""Runs of the back end: which Plans go through Triton's back end, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace

from tawa.plan import LoopPlan, OperandPlan, Plan
from tawa.plan.search.runs import BackEndRun, BackEndRuns, described
from tawa.plan.thresholds import FEWER_REGISTERS, HEAVY_SPILL_BYTES, MOST_RUNS

GROUPS, ALONE, FLAT = Plan(groups=2), Plan(groups=1), Plan(groups=2, loops=(LoopPlan(None, stages=0, mma_depth=0),))


def after(*made: BackEndRun, budget_s: float | None = None) -> BackEndRuns:
    return replace(BackEndRuns.within(budget_s), made=list(made))


def test_two_plans_are_tried_without_a_budget() -> None:
    assert MOST_RUNS == 2
    assert after().why_not(GROUPS, 200) is None
    assert after(BackEndRun("a", 900.0, 200, 100)).why_not(GROUPS, 200) is None
    runs = after(BackEndRun("a", 900.0, 200, 100), BackEndRun("b", 900.0, 200, 80))
    remark = runs.why_not(ALONE, 100)
    assert remark is not None and remark.reason == "not tried: 2 Plans went through the back end already"


def test_a_plan_that_does_not_fit_is_no_run_since_a_smaller_d_must_follow() -> None:
    assert after(*[BackEndRun("a", 500.0, 200, complete=False)] * 5).why_not(GROUPS, 200) is None


def test_a_budget_allows_as_many_as_it_has_time_for_and_always_the_first() -> None:
    assert after(budget_s=0.0).why_not(GROUPS, 200) is None
    spent = [BackEndRun("a", 1000.0, 200, 100), BackEndRun("b", 1500.0, 200, 100)]
    assert after(*spent, budget_s=4.0).why_not(ALONE, 200) is None
    remark = after(*spent, budget_s=3.9).why_not(ALONE, 200)
    assert remark is not None and "compile_budget_s=3.9 would be exceeded" in remark.reason


def test_after_a_heavy_spill_only_a_plan_with_clearly_fewer_registers_is_tried() -> None:
    heavy = BackEndRun("a", 900.0, 208, HEAVY_SPILL_BYTES)
    remark = after(heavy, budget_s=1e6).why_not(ALONE, 208)
    assert remark is not None and "about as many registers as a Plan that spills 1024 bytes" in remark.reason
    assert after(heavy).why_not(ALONE, 208 - FEWER_REGISTERS) is None
    assert after(BackEndRun("a", 900.0, 208, HEAVY_SPILL_BYTES - 1)).why_not(ALONE, 208) is None


def test_what_was_left_out_is_said_once_for_each_reason_with_a_cure() -> None:
    runs = after(BackEndRun("a", 9.0, 20, 100), BackEndRun("b", 9.0, 20, 80))
    for plan in (FLAT, ALONE, ALONE):
        runs.why_not(plan, 20)
    (note,) = runs.notes()
    assert note.reason == (
        "not tried: 2 consumer groups, no stages, P = 0; one consumer: 2 Plans went through the back end already"
    )
    assert "compile_budget_s=60" in note.cure
    assert after().notes() == ()


def test_a_candidate_is_described_by_what_it_decides() -> None:
    by_pointers = Plan(groups=1, operands=(OperandPlan(path="pointers"),), form="persistent")
    assert described(by_pointers) == "one consumer, operands through pointers, persistent"
    assert described(Plan(loops=(LoopPlan(kept=(), stages=1),))) == "one consumer, nothing kept in registers, 1 stages"


def test_a_run_is_plain_data_in_the_record() -> None:
    assert BackEndRun("a", 12.34, 208, 96).to_dict() == {
        "plan": "a", "ms": 12.3, "live_registers": 208, "spill_bytes": 96
    }  # fmt: skip
    assert "shared memory" in BackEndRun("a", 1.0, 20, complete=False).to_dict()["result"]
    assert BackEndRun("a", 0.0, 20, 96, known=True).to_dict()["known"] is True
