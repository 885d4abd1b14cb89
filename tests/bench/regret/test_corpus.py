"""The corpus in the regret bench, with workers that play it: rows, processes that end, and a bench taken up again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench import harness
from bench.harness import Report, Row
from bench.regret import command
from bench.regret.corpus import entries_left, measure_corpus, rows_of
from bench.regret.measure import measured_cases
from bench.regret.report import first_by_model, groups_of_rows
from tests.bench.corpus.test_runner import FAKE, pairs

NAME = "model 1: two groups"


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    return tmp_path / "regret.json"


def run(*names: str, seconds: float = 60.0) -> list[Row]:
    report = Report("regret")
    measure_corpus(report, pairs(*names), "", time.monotonic() + seconds, 2, FAKE, lambda text: None)
    return report.rows


def test_a_candidate_that_ends_the_process_is_found_and_costs_no_other_its_time(without_a_gpu: Path) -> None:
    rows = {(row.case["case"], row.case["kernel"]): row for row in run("kills", "right", "dotless", "missing")}
    assert rows["pack: right M=64", "gemm"].median_ms == rows["pack: kills M=64", "gemm"].median_ms == 0.02
    assert str(rows["pack: kills M=64", "scan"].error).startswith("crashed: worker ended with status 7")
    assert rows["pack: dotless M=64", ""].error == "no kernel with a dot"
    assert not any("missing" in case for case, _ in rows)
    assert harness.read(without_a_gpu)[1]  # written meanwhile


def test_the_report_reads_the_rows_of_the_corpus_as_a_source_of_its_own() -> None:
    row = {
        "candidate": NAME,
        "median_ms": 0.02,
        "case": {"kernel": "gemm", "case": "pack: right", "predicted_us": 18.0},
    }
    stock = {"candidate": "stock", "median_ms": 0.03, "case": {"kernel": "scan", "case": "own"}}
    corpus, own = groups_of_rows("regret", [{**row, "case": {**row["case"], "source": "corpus"}}, stock])
    assert (corpus.source, corpus.kernel, corpus.problem, own.source) == (
        "corpus, then",
        "gemm",
        "pack: right",
        "regret",
    )
    assert (first_by_model(corpus), first_by_model(own)) == (NAME, "")
    command.print_report([own])  # nothing was predicted


def test_what_was_reached_is_kept_and_not_measured_again(without_a_gpu: Path) -> None:
    assert run("right", seconds=0.0) == []
    report = Report("regret", run("right"), {"device": "H200", "date": "2026-01-01"})
    report.add(Row({"kernel": "tile", "case": "tile_64"}, "stock", 1.0))
    begun = command.begun_report((), corpus=True)
    assert begun.rows == report.rows
    assert begun.about["earlier"][0]["date"] == "2026-01-01"
    every = pairs("right", "kills")
    assert entries_left(every, {row.case["case"] for row in begun.rows}) == every[1:]
    assert [row.candidate for row in command.begun_report([""], corpus=False).rows] == [NAME, NAME]
    assert [row.candidate for row in command.begun_report(["right"], corpus=True).rows] == ["stock"]


def test_a_case_that_was_only_checked_is_measured_again() -> None:
    late = [Row({"case": "a"}, "all", error="skipped: out of time"), Row({"case": "a"}, NAME, error="PlanError: no")]
    done = [Row({"case": "b"}, "all", error="hung: silent"), Row({"case": "c"}, "stock", 1.0)]
    assert measured_cases([*late, *done]) == {"b", "c"}


def test_an_entry_that_died_before_its_candidates_has_a_row() -> None:
    (row,) = rows_of("pack: gemm", {"status": "crashed", "message": "status 7"})
    assert (row.candidate, row.error) == ("all", "crashed: status 7")
