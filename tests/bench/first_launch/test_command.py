"""The first-launch bench with workers that play processes: their order, their caches, rows and tables."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bench import harness
from bench.first_launch import command
from bench.first_launch.command import jobs, main
from bench.first_launch.rows import OURS, STOCK, lines_of, rows_of
from bench.first_launch.workloads import workloads
from bench.harness import Row, read

GIVEN = argparse.Namespace(packages=None, ready=False, no_fork=False, repeat=2)
NAMES = ["fp8 GEMM", "MLP, max-autotune"]


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: dict.fromkeys(fields, "played"))
    monkeypatch.setattr(command, "WORKER", "tests.bench.first_launch.played_worker")
    return tmp_path / "first_launch.json"


def run(results: Path, *arguments: str) -> int:
    return main([*arguments, "--out", str(results)])


def rows_in(path: Path) -> dict[tuple[str, str, str], Row]:
    return {(row.case["workload"], row.candidate, row.case["process"]): row for row in read(path)[1]}


def test_the_modes_alternate_and_a_second_process_has_the_caches_of_the_first() -> None:
    ready, *found = jobs(NAMES, "root", GIVEN)
    assert (ready["until"], ready["template"], ready["compiled"]) == ("ready", "", True)
    assert all(it["template"] == ("" if it["again"] else ready["caches"]) for it in found)
    assert [(it["candidate"], it["until"]) for it in found[:8]] == [
        (STOCK, "steady"), (OURS, "steady"), (STOCK, "first"), (OURS, "second"),
        (OURS, "steady"), (STOCK, "steady"), (OURS, "second"), (STOCK, "first"),
    ]  # fmt: skip
    assert found[0]["caches"] == found[2]["caches"] != found[1]["caches"] == found[3]["caches"]
    fresh = [it["caches"] for it in found if not it["again"]]
    assert len(set(fresh)) == len(fresh) == 8 and [it["candidate"] for it in found[8:10]] == [OURS, STOCK]
    assert {it["candidate"]: it["start"] for it in found} == {STOCK: None, OURS: "stock"}
    assert list(jobs([], "root", GIVEN)) == []


def test_a_row_tells_what_a_workload_costs_and_brings(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(results, "--only", "fp8 GEMM", "--repeat", "3") == 0
    rows = rows_in(results)
    first, second = rows["fp8 GEMM", OURS, "first"], rows["fp8 GEMM", OURS, "second"]
    assert (first.median_ms, first.case["processes"], first.case["over_stock"]) == (1050.0, 3, 1.05)
    assert (first.case["ready_s"], first.case["meanwhile_calls"], first.case["learning_calls"]) == (2.0, 900, 40)
    assert (first.case["meanwhile_over_stock"], first.case["host_over_stock"]) == (1.5, 1.1)
    assert (first.case["gain"], first.case["summed_over_best"], first.case["is_stock"]) == (1.2, 1.02, False)
    assert (second.median_ms, second.case["over_stock"], second.case["begins_learned"]) == (100.0, 1.0, True)
    assert "gain" not in rows["fp8 GEMM", STOCK, "first"].case
    told = capsys.readouterr().out
    assert "first launch of the first process over stock Triton's: geometric mean 1.050, worst 1.050" in told


def test_a_part_of_the_table_leaves_the_rest_as_it_is(results: Path) -> None:
    run(results, "--only", "fp8 GEMM", "--repeat", "1")
    assert run(results, "--only", "softmax", "--repeat", "1") == 1
    rows = rows_in(results)
    assert rows["fp8 GEMM", OURS, "first"].median_ms == 1050.0
    assert rows["softmax", STOCK, "first"].error == "crashed: the process ended with status -11"
    assert len(read(results)[0]["earlier"]) == 1
    assert run(results, "--only", "fp8 GEMM", "softmax", "--missing") == 1  # all have rows: nothing is measured
    assert rows_in(results) == rows


def test_what_was_measured_in_part_is_measured_again(results: Path) -> None:
    run(results, "--only", "fp8 GEMM", "--repeat", "1")
    text = results.read_text()
    results.write_text(text.replace('"process": "second"', '"process": "first"'))
    assert run(results, "--only", "fp8 GEMM", "--repeat", "1", "--missing") == 0
    assert rows_in(results).keys() == {("fp8 GEMM", it, which) for it in (STOCK, OURS) for which in ("first", "second")}


def test_what_is_not_reached_has_no_rows(results: Path) -> None:
    assert run(results, "--only", "fp8 GEMM", "--seconds", "0") == 1
    assert rows_in(results) == {}


def test_without_a_gpu_nothing_is_launched(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    assert run(results) == 2 and not results.exists()
    assert capsys.readouterr().err == "there is no GPU here: nothing can be launched\n"


def test_a_second_process_that_runs_other_kernels_does_not_begin_learned() -> None:
    whole = {"status": "ok", "first_s": 1.0, "host": {"mean": 1.0}, "gpu_ms": 1.0, "kernels": [["gemm", 384]]}
    second = {"status": "ok", "first_s": 1.0, "kernels": [["gemm", 256]]}
    failed = {"status": "failed", "message": "RuntimeError: no"}
    answers = {
        ("a", STOCK, "first"): [{**whole}],
        ("a", OURS, "first"): [whole, failed],
        ("a", OURS, "second"): [second],
    }
    rows = {(row.candidate, row.case["process"]): row for row in rows_of(answers)}
    assert rows[OURS, "second"].case["begins_learned"] is False
    assert rows[OURS, "first"].error == "failed: RuntimeError: no" and rows[OURS, "first"].case["is_stock"]
    assert any(line.startswith("a  ") and line.endswith("RuntimeError: no") for line in lines_of(list(rows.values())))


def test_times_stay_where_no_profiler_is() -> None:
    whole = {"status": "ok", "first_s": 1.0, "host": {"mean": 1.0}, "gpu_ms": 1.0, "note": "not profiled: why"}
    found = rows_of({("a", STOCK, "first"): [{**whole}], ("a", OURS, "first"): [whole], ("a", OURS, "second"): [whole]})
    assert [row.case["note"] for row in found] == ["not profiled: why"] * 3
    assert found[1].case["gain"] == 1.0 and not {"is_stock", "begins_learned"} & {*found[1].case, *found[2].case}


def test_every_workload_of_the_tests_cases_can_be_made() -> None:
    from bench.first_launch.workloads import CASES

    for name, make in CASES.items():
        case = make()
        assert set(case.signature()) == set(case.kernel.arg_names), name
        assert all(count > 0 for count in case.launch_grid()), name
    assert len(workloads()) >= 27 and sum(it.compiled for it in workloads().values()) >= 5
    assert any(": " in name for name in workloads(corpus=True))
