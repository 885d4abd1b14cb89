"""Kernels timed one by one: runs told apart among launches, modes alternately, and what the numbers say."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from bench.corpus import kernel_times
from bench.corpus.kernel_times import MOST_S, ROUNDS, Launch, runs_in, runs_of_a_round, time_kernels
from bench.corpus.report.kernels import WHOLE, applied, declined, summarise_kernels, untimed
from bench.corpus.report.page import declined_table, kernels_table, summary_table
from bench.corpus.report.results import Microseconds, Result, Verdict
from bench.corpus.report.summary import summarise


def launches(*kernels: tuple[str, float]) -> list[Launch]:
    return [Launch(name, 100.0 * at, us) for at, (name, us) in enumerate(kernels)]


def test_launches_of_one_name_are_added_in_each_run() -> None:
    run = lambda us: [("h", us), ("o", 1.0), ("h", 2 * us), ("fill", 9.0)]  # noqa: E731
    seen = launches(*run(50.0), *run(10.0), *run(11.0))  # the first does not count
    assert runs_in(list(reversed(seen)), ["h", "o"], 2) == [{"h": 30.0, "o": 1.0}, {"h": 33.0, "o": 1.0}]


def test_a_session_may_lack_launches_of_the_run_that_does_not_count() -> None:
    seen = launches(("h", 2.0), ("h", 10.0), ("h", 20.0), ("h", 11.0), ("h", 21.0))  # the very first is lost
    assert runs_in(seen, ["h"], 2) == [{"h": 30.0}, {"h": 32.0}]


@pytest.mark.parametrize("count", [0, 1, 4, 6, 13])
def test_a_kernel_that_lacks_more_is_left_out(count: int) -> None:
    assert any(runs_in(launches(*[("h", 1.0)] * count), ["h"], 5)) is (count == 6)


@pytest.mark.parametrize(("run_ms", "modes"), [(0.001, 2), (1.0, 3), (20.0, 2), (60.0, 3)])
def test_profiling_stays_within_its_time_on_the_gpu(run_ms: float, modes: int) -> None:
    runs = runs_of_a_round(run_ms, modes)
    assert 2 <= runs <= 10
    assert runs == 2 or (runs + 1) * run_ms * modes * ROUNDS <= 1000 * MOST_S


def a_gpu(us: dict[str, float], order: list[str]) -> tuple[dict[str, Callable[[], object]], Any]:
    """Operations of one kernel, launched twice, and a profiler that sees them."""
    now: list[str] = []

    def play(operation: Callable[[], object], runs: int) -> list[Launch]:
        now.clear()
        for _ in range(runs + 1):
            operation()
        order.append(now[0])
        return launches(*((kernel, us[mode]) for mode in now for kernel in ("gemm", "gemm")))

    return {mode: lambda mode=mode: now.append(mode) for mode in us}, play


def test_modes_are_profiled_alternately_and_the_first_session_does_not_count() -> None:
    order: list[str] = []
    candidates, play = a_gpu({"stock": 10.0, "tawa": 8.0}, order)
    found, note = time_kernels(candidates, ["gemm"], 0.1, play)
    assert found == {"stock": {"gemm": [20.0, 20.0, 20.0]}, "tawa": {"gemm": [16.0, 16.0, 16.0]}}
    assert note == ""
    assert order == ["stock", "stock", "tawa", "tawa", "stock", "stock", "tawa", "tawa", "stock", "stock", "tawa"]


def test_what_the_profiler_does_not_see_is_said() -> None:
    candidates, play = a_gpu({"stock": 10.0, "tawa": 8.0}, [])
    found, note = time_kernels(candidates, ["gemm", "scan"], 0.1, play)
    assert "scan" not in found["tawa"]
    assert note == "kernels not timed: scan in stock, scan in tawa"
    assert time_kernels(candidates, ["scan"], 0.1, play) == ({}, "kernels not timed: the profiler saw none of them")

    def refuse(operation: object, runs: int) -> list[Launch]:
        raise RuntimeError("CUPTI_ERROR_NOT_INITIALIZED")

    assert time_kernels(candidates, ["gemm"], 0.1, refuse) == (
        {},
        "kernels not timed: RuntimeError: CUPTI_ERROR_NOT_INITIALIZED",
    )


def test_pytorchs_profiler_gives_what_ran_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the CPU's events in place of the GPU's: how they are asked for and read is the same."""
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.profiler")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.profiler.ProfilerActivity, "CUDA", torch.profiler.ProfilerActivity.CPU, raising=False)
    cpu = torch.autograd.DeviceType.CPU
    monkeypatch.setattr(torch.autograd, "DeviceType", type("DeviceType", (), {"CUDA": cpu}))
    a = torch.ones(8, 8)
    seen = kernel_times.profiled_launches(lambda: a @ a, 3)
    assert sum(it.kernel == "aten::mm" for it in seen) == 4
    assert all(it.us >= 0 for it in seen)
    assert all(run["aten::mm"] > 0 for run in runs_in(seen, ["aten::mm"], 3))


def verdict(kernel: str, applied: bool, us: float | None, reason: str = "", spread: float = 0.0) -> Verdict:
    times = None if us is None else Microseconds(us, us * (1 - spread), us * (1 + spread))
    return Verdict(kernel, applied, reason, None, 1, 1, times)


def result(name: str, **kernels: tuple[Verdict, ...]) -> Result:
    times = {"stock": (0.2, 0.2, 0.2), "tawa": (0.16, 0.16, 0.16)}
    return Result("pack", name, {"M": 64}, False, "ok", kernels=kernels, times=times)


def test_each_kernel_counts_by_itself_and_only_where_it_is_specialised() -> None:
    found = applied([
        result("two", stock=(verdict("a", False, 20.0), verdict("b", False, 30.0), verdict("c", False, 5.0)),
               tawa=(verdict("a", True, 10.0), verdict("b", True, 15.0), verdict("c", False, 9.0, "no tl.dot"))),
    ])  # fmt: skip
    assert [(it.kernel, it.ratio) for it in found] == [("a", 2.0), ("b", 2.0)]
    assert summarise_kernels(found).geomean == pytest.approx(2.0)


def test_the_mean_of_usual_speed_ups_leaves_out_what_stock_compiles_badly() -> None:
    found = applied([
        result("two", stock=(verdict("a", False, 20.0), verdict("b", False, 320.0)),
               tawa=(verdict("a", True, 10.0), verdict("b", True, 10.0))),
    ])  # fmt: skip
    assert summarise_kernels(found).geomean == pytest.approx(8.0)
    assert summarise_kernels(found).usual == pytest.approx(2.0)


def test_kernels_are_compared_in_the_configurations_of_stock_where_that_was_timed() -> None:
    own, same = verdict("a", True, 5.0), (verdict("a", True, 8.0), verdict("b", False, 3.0, "no tl.dot"))
    one = result("one", stock=(verdict("a", False, 10.0), verdict("b", False, 3.0)), tawa=(own,), same=same)
    (found,) = applied([one])
    assert (found.kernel, found.ratio) == ("a", 1.25)
    (tuned,) = applied([one], own_choice=True)
    assert (tuned.kernel, tuned.ratio) == ("a", 2.0)
    text = summary_table(summarise([one]))
    assert "in the configurations that stock chose | 1 |" in text and "each mode tuned by itself | 1 |" in text
    assert "their speed-ups | 1.25 |" in text and "their speed-ups | 2.00 |" in text
    assert untimed([one]) == 0


def test_a_kernel_with_verdicts_of_both_kinds_counts_once() -> None:
    both = (verdict("a", True, 10.0), verdict("a", False, 10.0, "odd shape"))
    assert len(applied([result("h", stock=(verdict("a", False, 20.0),), tawa=both)])) == 1


def test_an_entry_whose_kernels_were_not_timed_counts_as_a_whole_and_is_called_so() -> None:
    untold = result("whole", stock=(), tawa=(verdict("a", True, None),))
    (found,) = applied([untold])
    assert (found.kernel, found.stock.median, found.mode.median) == (WHOLE, 200.0, 160.0)
    assert summarise_kernels([found]).whole == 1
    assert untimed([untold]) == 0
    assert "1, 1 of them whole entries" in summary_table(summarise([untold]))


def test_a_kernel_that_was_not_timed_beside_one_that_was_is_counted() -> None:
    half = result("half", stock=(verdict("a", False, 2.0),), tawa=(verdict("a", True, 1.0), verdict("b", True, None)))
    assert untimed([half]) == 1
    assert "in the configurations that stock chose | 1; 1 not timed |" in summary_table(summarise([half]))


@pytest.mark.parametrize(("spread", "surely", "shown"), [(0.0, True, "**0.95**"), (0.1, False, "0.95 (noise?)")])
def test_a_kernel_that_is_slower_is_told_with_its_spread(spread: float, surely: bool, shown: str) -> None:
    stock, tawa = verdict("a", False, 1.9, spread=spread), verdict("a", True, 2.0, spread=spread)
    slow = result("slow", stock=(stock,), tawa=(tawa,))
    (found,) = applied([slow])
    assert (found.slower, found.surely_slower) == (True, surely)
    assert f"| {shown} |" in kernels_table([found])
    assert not summarise([slow]).met()
    assert f"| 1; {int(surely)} |" in summary_table(summarise([slow]))


def test_what_automatic_mode_leaves_is_shown_with_what_it_would_gain() -> None:
    stock = (verdict("a", False, 20.0), verdict("b", False, 20.0))
    tawa = (verdict("a", True, 10.0), verdict("b", False, 20.0, "not expected to pay: the load at /x/b.py:7"))
    found = declined(
        [result("left", stock=stock, tawa=tawa, legal=(verdict("a", True, 10.0), verdict("b", True, 16.0)))]
    )
    assert [(it.kernel, it.ratio) for it in found] == [("b", 1.25)]
    assert "| 20.0 | 16.0 | 1.25 | [1.25, 1.25] | not expected to pay: the load at … |" in declined_table(found)
