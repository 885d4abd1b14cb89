"""What launches have learned, among the choices that the report judges."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench import harness
from bench.harness import Report
from bench.regret import command
from bench.regret.measure import measure
from bench.regret.report import groups_of_rows


def test_a_choice_that_is_slower_than_stock_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"a": (1.0, 1.05), "b": (1.0, 0.8), "c": (1.0, 1.0)}
    rows = [
        {"candidate": name, "median_ms": ms, "case": {"kernel": kernel, "case": kernel}}
        for kernel, (stock, learned) in times.items()
        for name, ms in (("stock", stock), ("learned", learned), ("model 1: best", 0.8))
    ]
    command.print_report(groups_of_rows("own", rows))
    told = capsys.readouterr().out
    assert "learned: 1 of 3 below 0.98 of stock Triton, the worst at 0.952" in told
    own = next(line for line in told.splitlines() if line.startswith("own"))
    assert own.split()[-3:-1] == ["1.179", "1.312"]  # the geometric mean of 1.3125, 1 and 1.25, and the worst


def test_candidates_are_checked_first_and_what_is_right_is_measured_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    report = Report("regret")
    measure(report, ["tile_bk32"], time.monotonic() + 60, 2, "tests.bench.regret.played_candidates")
    rows = {(row.case["case"], row.candidate): row for row in report.rows}
    assert len({case for case, _ in rows}) == 4  # in two batches
    assert rows["tile_bk32_8192x8192x512", "all"].error == "crashed: worker ended with status 7; "
    right = "tile_bk32_4096x4096x2048"
    assert [name for case, name in rows if case == right] == ["model 1: no", "stock", "learned", "measured"]
    learned = rows[right, "learned"]
    assert (learned.median_ms, learned.case["reason"]) == (1.0, "3 waves: persistent")
    assert rows[right, "model 1: no"].error == "PlanError: no"
