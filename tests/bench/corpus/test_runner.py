"""The runner with workers that play a package: right, wrong, raising, dying, hanging, declined, missing."""

from __future__ import annotations

import functools
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bench import harness, workers
from bench.corpus import __main__ as command
from bench.corpus import runner
from bench.corpus.entry import AllClose, Entry, Package
from bench.corpus.packages import PACKAGES
from bench.corpus.report import page, result_file
from bench.corpus.report.kernels import applied
from bench.corpus.report.results import Microseconds, Result, Verdict
from bench.corpus.report.summary import summarise
from tests.bench.corpus.fake_worker import APPLIED

FAKE = "tests.bench.corpus.fake_worker"


def pairs(*names: str) -> list[runner.Pair]:
    entries = tuple(
        Entry(name, {"M": 64}, lambda device: {}, dict, dict, AllClose(1e-2, 0.0), "its tests") for name in names
    )
    package = Package("pack", "https://pack", "MIT", ("pack==1",), "pack", entries)
    return [(package, entry) for entry in entries]


def statuses(names: list[str], **options: object) -> dict[str, Result]:
    found = runner.run(pairs(*names), runner.Options(worker=FAKE, processes=2, **options), lambda text: None)  # type: ignore[arg-type]
    return {it.name: it for it in found}


@pytest.mark.timeout(200)
def test_each_way_to_end_has_its_status_and_costs_no_other_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {
        "right": "ok",
        "wrong": "wrong",
        "raises": "crashed",
        "dies_in_tawa": "crashed",
        "dies_in_stock": "skipped",
        "dies_in_reference": "skipped",
        "hangs_in_legal": "hung",
        "hangs_in_stock": "skipped",
        "declined": "ok",
        "missing": "skipped",
        "right_too": "ok",
    }
    be_impatient(monkeypatch)
    found = statuses(list(ends))
    assert {name: it.status for name, it in found.items()} == ends
    assert "illegal instruction" in found["raises"].message
    assert found["dies_in_tawa"].message.startswith("in tawa: ")
    assert "No module named 'pack'" in found["missing"].message


def be_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers wait 60 seconds for imports; the fake has none."""
    ask = workers._Worker.ask
    soon = lambda self, job, limit_s: ask(self, job, 2.5 if "hangs" in job["entry"] else limit_s)  # noqa: E731
    monkeypatch.setattr("bench.workers._Worker.ask", soon)


def is_alive(process: int) -> bool:
    """Whether a process runs; one that ended and that nobody has waited for does not."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] not in "ZX"


def ends(process: int) -> bool:
    """Whether a process that was killed ends within ten seconds: a signal takes its time on a busy machine."""
    until = time.monotonic() + 10
    while is_alive(process) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(process)


def test_what_a_hung_worker_started_ends_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    be_impatient(monkeypatch)
    assert statuses(["hangs_in_tawa"], packages=str(tmp_path))["hangs_in_tawa"].status == "hung"
    assert ends(int((tmp_path / "child").read_text()))


def test_a_job_that_takes_long_hangs_only_if_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    be_impatient(monkeypatch)
    found = statuses(["compiles_hangs", "hangs_in_tawa"])
    assert found["compiles_hangs"].status == "ok"
    assert found["hangs_in_tawa"].message == "in tawa: silent for 2 s"


def test_nothing_runs_on_when_a_run_is_interrupted(tmp_path: Path) -> None:
    def interrupt(text: str) -> None:
        while not (tmp_path / "child").exists():
            time.sleep(0.05)
        raise KeyboardInterrupt

    options = runner.Options(worker=FAKE, processes=2, packages=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        runner.run(pairs("right", "early-hangs_in_tawa"), options, interrupt)
    assert ends(int((tmp_path / "child").read_text()))


def test_a_crash_is_told_with_the_last_words_of_its_own_process() -> None:
    found = runner.run(
        pairs("screams_in_tawa", "dies_in_tawa"), runner.Options(worker=FAKE, processes=1), lambda text: None
    )
    assert found[0].status == found[1].status == "crashed"
    assert found[0].message == "in tawa: worker ended with status -6; ptxas died | Segmentation fault"
    assert found[1].message == "in tawa: worker ended with status 7; "


def test_only_entries_that_tawa_changes_are_timed() -> None:
    found = statuses(["right", "declined", "wrong"])
    assert found["right"].speedup() == pytest.approx(1.25)
    assert found["declined"].speedup() is None
    assert found["wrong"].speedup() is None
    assert summarise(list(found.values())).geomean == pytest.approx(1.25)


def test_what_dies_while_it_is_compiled_is_told_as_what_dies_in_a_check() -> None:
    found = statuses(["early-dies_in_tawa", "early-dies_in_stock", "right"])
    assert {name: it.status for name, it in found.items()} == {
        "early-dies_in_tawa": "crashed",
        "early-dies_in_stock": "skipped",
        "right": "ok",
    }
    assert found["early-dies_in_tawa"].message == "in tawa: worker ended with status 7; "


def test_a_check_begins_when_all_that_prepares_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str, int]] = []
    ask = workers._Worker.ask

    def noted(self: object, job: workers.Job, limit_s: float) -> workers.Answer:
        said.append((job["entry"], job["task"], job["part"]))
        return ask(self, job, limit_s)  # type: ignore[arg-type]

    monkeypatch.setattr("bench.workers._Worker.ask", noted)
    runner.run(pairs("right", "right_too"), runner.Options(worker=FAKE, processes=1, configs=6), lambda text: None)
    for name in ("right M=64", "right_too M=64"):
        of_it = [(task, part) for entry, task, part in said if entry == name]
        assert of_it == [*(("prepare", part) for part in (0, 0, 0, 1, 1, 1, 2, 2, 2)), ("check", 0), ("time", 0)]


def test_jobs_that_an_answer_calls_for_go_before_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    handled = threading.Semaphore(1)

    def ask(self: object, job: workers.Job, limit_s: float) -> workers.Answer:
        handled.acquire()  # the answer before is taken care of, though this job may have been chosen before that
        begun.append(job["number"])
        return {"status": "done"}

    def take(job: workers.Job, answer: workers.Answer) -> list[workers.Job]:
        threading.Timer(0.1, handled.release).start()  # by then what this returns is waiting
        return [{"number": 10}] if job["number"] == 0 else []

    monkeypatch.setattr("bench.workers._Worker.ask", ask)
    workers.run_jobs(FAKE, [{"number": at} for at in range(4)], take, 1, 5.0)
    assert sorted(begun) == [0, 1, 2, 3, 10]
    assert begun.index(10) <= 2


def test_first_shapes_come_before_second_ones() -> None:
    order = runner.varied(pairs("gemm", "gemm", "gemm", "attention", "attention", "scan"))
    assert order == [0, 3, 5, 1, 4, 2]


def test_each_kernel_has_its_time_in_each_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = statuses(["right"])["right"]
    (gemm,) = applied([found])
    assert (gemm.stock, gemm.mode) == (Microseconds(20.0, 19.0, 21.0), Microseconds(10.0, 9.0, 11.0))
    row = result_file.rows_of(found)[1]
    assert row.case["kernels"][0]["us"] == {"median": 10.0, "p10": 9.0, "p90": 11.0}


def test_a_profiler_that_kills_the_process_costs_the_times_of_kernels_only() -> None:
    found = statuses(["unprofiled", "right"])
    assert {it.status for it in found.values()} == {"ok"}
    assert all(it.speedup() == pytest.approx(1.25) for it in found.values())
    assert found["unprofiled"].message == "kernels not timed: crashed: worker ended with status 7; "
    assert summarise([found["unprofiled"]]).kernels.whole == 1


def test_a_configuration_that_is_wrong_only_when_it_is_timed_is_wrong() -> None:
    found = statuses(["apart", "apartstock"])
    assert found["apart"].status == "wrong"
    assert found["apart"].message == "while timed, the error of tawa is 2.3 of the tolerance, that of stock 0.3"
    assert found["apartstock"].status == "ok"  # stock Triton's choice is the one that is off
    assert found["apartstock"].message == "while timed, the error of tawa is 0.3 of the tolerance, that of stock 2.3"


def test_a_timing_that_dies_under_tawa_is_a_crash_and_keeps_the_check() -> None:
    checked = statuses(["right"], timing=False)["right"]
    died = runner.with_times(checked, {"status": "crashed", "message": "worker ended with status 7"}, "tawa")
    assert (died.status, died.errors) == ("crashed", checked.errors)
    assert runner.with_times(checked, {"status": "hung", "message": "no answer"}, "stock").status == "ok"


def test_what_a_run_finds_is_what_its_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    found = list(statuses(["right", "raises", "declined", "missing"]).values())
    path = result_file.write(found, result_file.about_run(4))
    assert result_file.read(path)[1] == found
    _, rows = harness.read(path)
    timed = [row for row in rows if row.median_ms]
    assert [(row.candidate, row.median_ms) for row in timed] == [("stock", 2.0), ("tawa", 1.6)]


def test_an_infinite_error_survives_the_file() -> None:
    result = Result("pack", "gemm", {"M": 1}, False, "wrong", "why", {"tawa": None}, {"tawa": False}, {"tawa": ()})
    assert result_file.from_rows(result_file.rows_of(result)) == [result]


def test_verdicts_of_a_compile_are_written_without_errors() -> None:
    answer = {"status": "done", "modes": {"tawa": {"kernels": [APPLIED]}, "legal": {"kernels": []}}}
    result = runner.compiled({"package": "pack", "name": "gemm", "shape": {}, "backward": False}, answer, "")
    assert (result.status, result.errors, list(result.kernels)) == ("compiled", {}, ["tawa", "legal"])
    assert result_file.from_rows(result_file.rows_of(result)) == [result]


def test_entries_are_listed_without_their_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["list"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert len(names) == len(set(names)) == sum(len(package.entries) for package in PACKAGES)
    assert command.main(["list", "--only", "chunk_gla"]) == 0
    assert all("chunk_gla" in name for name in capsys.readouterr().out.splitlines())


def test_a_run_cut_short_keeps_what_it_reached_and_the_next_does_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    every = pairs(*(f"right_{at}" for at in range(6)))
    states: list[list[str]] = []
    monkeypatch.setattr(runner, "KEEP_EVERY", 2)
    options = runner.Options(worker=FAKE, processes=1)
    found = runner.run(every, options, lambda text: None, lambda so_far: states.append([it.name for it in so_far]))
    assert [len(it) for it in states] == [2, 4, 6] + [
        6
    ] * 5  # while they are checked and after, then with more and more times
    assert command.missing(every, found[:4]) == every[4:]
    late = runner.run(every, runner.Options(worker=FAKE, seconds=0.0), lambda text: None)
    assert late == []


def test_what_was_skipped_or_not_timed_is_missing() -> None:
    found = statuses(["right", "missing"], timing=False)
    untimed = runner.with_times(found["right"], {"status": "skipped", "message": "out of time"}, "start")
    names = lambda results: [entry.name for _, entry in command.missing(pairs("right", "missing"), results)]  # noqa: E731
    assert names(list(found.values())) == ["missing"]
    assert names([untimed]) == ["right", "missing"]


@pytest.fixture
def fake_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A corpus of three entries, and a GPU, for the command; returns the file that it writes."""
    package = pairs("right", "declined", "wrong")[0][0]
    monkeypatch.setattr(command, "PACKAGES", (package,))
    monkeypatch.setattr(runner, "Options", functools.partial(runner.Options, worker=FAKE))
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: dict.fromkeys(fields, "NVIDIA H200"))
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "RESULTS", tmp_path / "corpus.json")
    return tmp_path / "corpus.json"


def test_a_run_of_some_entries_keeps_the_others_and_says_of_which_run_each_is(
    fake_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(["2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00"])
    about = result_file.environment
    monkeypatch.setattr(result_file, "environment", lambda: {**about(), "date": next(clock)})
    assert command.main(["run", "--processes", "1"]) == 1  # one is wrong
    first = result_file.read(fake_corpus)[1]
    assert [it.name for it in first] == ["right", "declined", "wrong"]
    assert command.main(["run", "--only", "declined", "--processes", "1"]) == 0
    said, second = result_file.read(fake_corpus)
    assert [it.date[:10] for it in second] == ["2026-01-01", "2026-01-02", "2026-01-01"]
    assert (said["date"][:10], [it["date"][:10] for it in said["earlier"]]) == ("2026-01-02", ["2026-01-01"])
    text = page.render_file(fake_corpus)
    assert "- 1 entries: NVIDIA H200" in text
    assert "- 2 entries: NVIDIA H200" in text
    assert command.main(["run", "--seconds", "0"]) == 0  # reaches nothing, loses nothing
    assert result_file.read(fake_corpus)[1] == second


def test_a_run_without_missing_entries_changes_nothing(fake_corpus: Path) -> None:
    command.main(["run", "--processes", "1"])
    before = fake_corpus.read_bytes()
    assert command.main(["run", "--missing"]) == 0
    assert fake_corpus.read_bytes() == before


def test_a_file_says_where_when_and_how_it_was_made(fake_corpus: Path) -> None:
    command.main(["run", "--only", "right"])
    said = json.loads(fake_corpus.read_text())
    assert said["device"] == "NVIDIA H200"
    assert "clocks.sm after work" in said["clocks"]
    assert {"clocks", "driver", "versions", "date", "command", "configs"} <= set(said)


def test_legal_is_timed_only_where_it_specialises_more() -> None:
    options = runner.Options(time_legal=True)
    ours, other = Verdict(**APPLIED), Verdict(**{**APPLIED, "kernel": "other"})
    modes = lambda **kernels: runner._timed_modes(Result("pack", "gemm", {}, False, "ok", kernels=kernels), options)  # noqa: E731
    assert modes(tawa=(ours,), legal=(ours,)) == ["stock", "tawa", "same"]
    assert modes(tawa=(ours,), legal=(ours, other)) == ["stock", "tawa", "same", "legal"]
    assert modes(tawa=(), legal=()) == ["stock"]
    tried = Result("pack", "gemm", {}, False, "ok", tried={"tawa": True})
    assert runner._timed_modes(tried, options) == ["stock", "tawa", "same"]


def test_a_timing_without_cuda_graphs_is_noted() -> None:
    assert statuses(["uncaptured"])["uncaptured"].message.startswith("timed without CUDA graphs")
    assert statuses(["right"])["right"].message == ""


def test_a_text_that_no_entry_has_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["list", "--only", "no such entry"]) == 2
    assert "no such entry" in capsys.readouterr().err


def test_what_fails_while_it_is_compiled_under_tawa_is_a_fault() -> None:
    about = {"package": "pack", "name": "gemm", "shape": {}, "backward": False}
    failed = {"status": "failed", "message": "InternalError: a pass broke"}
    assert runner.compiled(about, failed, "tawa").status == "crashed"
    assert runner.compiled(about, failed, "stock").status == "skipped"


def test_without_a_gpu_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("bench.harness._query_gpu", lambda *fields: {})
    assert command.main(["run"]) == 2
    assert "python -m bench.corpus compile" in capsys.readouterr().err


def test_results_are_in_the_order_of_the_packages() -> None:
    package = PACKAGES[1]
    made = [Result(package.name, it.name, it.shape, it.backward, "ok") for it in package.entries]
    other = Result("gone", "gemm", {}, False, "ok")
    assert command.in_order([other, *reversed(made)]) == [*made, other]


def test_a_result_that_was_not_timed_replaces_none_with_times() -> None:
    times = {"stock": (1.0, 1.0, 1.0)}

    def result(name: str, status: str = "ok", date: str = "", **more: Any) -> Result:
        return Result("pack", name, {}, False, status, date=date, **more)

    before = [result("timed", times=times), result("again", times=times), result("open"), result("wrong", times=times)]
    now = [
        result("timed", date="now"), result("again", times=times, date="now"), result("open", date="now"),
        result("wrong", "wrong", "now"), result("new", date="now"),
    ]  # fmt: skip
    found = {it.name: it.date for it in command.replaced(before, now)}
    assert found == {"timed": "", "again": "now", "open": "now", "wrong": "now", "new": "now"}
