"""Plans whose bits differ: what is told of them, and of what is not compared."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bench import harness
from bench.harness import Report, Row
from bench.regret import bits, command
from bench.regret.bits import blamed, differences, rows_of, rows_of_entry, summary_of
from tests.bench.corpus.test_runner import FAKE, pairs


def plan(depth: int, mma_depth: int, groups: int = 1, **more: Any) -> dict[str, Any]:
    rings = [{"name": "a", "depth": depth}]
    return {"form": "as_written", "groups": groups, "rings": rings, "loops": [{"loop": 0, "mma_depth": mma_depth}],
            "operands": [], **more}  # fmt: skip


def answer(**found: tuple[dict[str, Any], bool]) -> dict[str, Any]:
    told = {name: {"plan": plan, "equal": equal, "moves": False} for name, (plan, equal) in found.items()}
    return {"status": "ok", "found": told, "errors": {}, "refused": 2}


def test_plans_are_compared_decision_by_decision() -> None:
    assert differences(plan(3, 1, version=7), plan(2, 1, 2)) == ["groups: 1, not 2", "rings[a].depth: 3, not 2"]
    assert differences(plan(3, 1), plan(3, 1, sums="in_order")) == ["sums: None, not in_order"]
    (long,) = differences(plan(3, 1, early_puts="x" * 100), plan(3, 1))
    assert long == f"early_puts: {'x' * bits.SHOWN}…, not None"


def test_the_most_similar_plan_with_the_bits_shows_what_is_to_blame() -> None:
    found = answer(far=(plan(2, 0, 2), True), near=(plan(3, 0), True), bad=(plan(3, 1), False))["found"]
    assert blamed(found) == {"bad": ("near", ["loops[0].mma_depth: 1, not 0"])}
    assert blamed({"bad": found["bad"]}) == {"bad": ("", [])}


def test_a_plan_that_changes_the_order_of_sums_may_have_other_bits() -> None:
    rows = rows_of("gemm: a", answer(good=(plan(3, 1), True), split=(plan(3, 1, split_k=2), False)))
    assert [(row.candidate, row.error) for row in rows] == [("all", None)]
    assert rows[0].case == {"case": "gemm: a", "plans": 1, "other bits": 0, "refused": 2}


def test_a_plan_with_other_bits_has_a_row() -> None:
    whole, bad = rows_of("gemm: a", answer(good=(plan(3, 1), True), bad=(plan(3, 0), False)))
    assert (whole.case["other bits"], bad.candidate, bad.error) == (1, "bad", "other bits than stock Triton's")
    assert (bad.case["nearest"], bad.case["decisions"]) == ("good", ["loops[0].mma_depth: 0, not 1"])
    assert summary_of([whole, bad]) == "2 Plans of 1 kernels, 1 with other bits\n  mma_depth: 1"
    (failed,) = rows_of("gemm: a", {"status": "hung", "message": "silent"})
    assert (failed.candidate, failed.error) == ("all", "hung: silent")


def test_the_kernels_of_an_entry_are_told_one_by_one() -> None:
    about = {"applied": True, "plan": plan(3, 1), "equal": True}
    other = {**about, "plan": plan(3, 0), "equal": False}
    candidates = [
        {"name": "stock", "about": {"applied": False}, "error": None},
        {"name": "model 1", "about": about, "error": None},
        {"name": "model 2", "about": other, "error": None},
        {"name": "model 3", "about": {}, "error": "PlanError: no"},
    ]
    rows = rows_of_entry("pack: mm", {"status": "done", "kernels": {"gemm": candidates}})
    assert [(row.case["case"], row.candidate) for row in rows] == [
        ("pack: mm: gemm", "all"), ("pack: mm: gemm", "model 2")
    ]  # fmt: skip
    assert rows[0].case["refused"] == 1 and rows[0].case["entry"] == "pack: mm" and rows[0].case["source"] == "corpus"
    assert rows_of_entry("pack: mm", {"status": "skipped", "message": "not installed"}) == []
    (none,) = rows_of_entry("pack: mm", {"status": "done", "kernels": {}, "note": "no kernel with a dot"})
    assert none.error == "no kernel with a dot"


def test_a_case_that_dies_costs_no_other_and_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    report, names = Report("bits"), ["gemm: a", "gemm: differs", "gemm: dies"]

    def measure(seconds: float) -> dict[tuple[str, str], Row]:
        bits.measure(report, names, time.monotonic() + seconds, 1, 5, "tests.bench.regret.played_bits")
        return {(row.case["case"], row.candidate): row for row in report.rows}

    assert measure(0.0) == {}
    rows = measure(60.0)
    assert rows.keys() == {*((name, "all") for name in names), ("gemm: differs", "2")}
    assert rows["gemm: a", "all"].case["refused"] == 5  # the seed of the inputs reaches the worker
    assert rows["gemm: differs", "2"].case["decisions"] == ["groups: 2, not 1"]
    assert str(rows["gemm: dies", "all"].error).startswith("crashed: worker ended with status 7")
    assert "gemm: differs, 2: other bits than stock Triton's\n    groups: 2, not 1" in capsys.readouterr().out
    assert measure(60.0) == rows


def test_entries_are_only_checked_for_their_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from bench.regret.corpus import measure_corpus

    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    report, seen = Report("bits"), list[dict[str, Any]]()

    def rows(case: str, told: dict[str, Any]) -> list[Row]:
        seen.append(told)
        return [Row({"case": case}, "all")]

    measure_corpus(report, pairs("right", "dotless"), "", time.monotonic() + 60, 2, FAKE, lambda text: None, rows)
    assert len(report.rows) == 2
    assert [it["us"] for told in seen for of in told["kernels"].values() for it in of] == [None, None]


def test_without_a_gpu_there_are_no_bits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    for what in ("bits", "measure"):
        monkeypatch.setattr("sys.argv", ["bench.regret", what])
        assert command.main() == 2
        assert capsys.readouterr().err == f"there is no GPU here: python -m bench.regret {what} needs one\n"
