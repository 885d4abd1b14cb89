"""A check as the worker makes it, of operations without kernels, on the CPU. Needs PyTorch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench.corpus import modes, running, timing, worker
from bench.corpus.entry import AllClose, Entry

torch: Any = pytest.importorskip("torch")
WAYS = ["stock", "tawa", "legal"]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(modes, "_current", "")
    monkeypatch.setattr(running, "forget_compiled", lambda: None)
    yield
    import tawa

    tawa.uninstall()


def entry(run: Any, backward: bool = True, **more: Any) -> Entry:
    def make(device: str) -> dict[str, Any]:
        return {"a": torch.randn(8, 8, device=device).requires_grad_(), "b": torch.randn(8, 8, device=device)}

    reference = lambda it: {"c": it["a"].double() @ it["b"].double()}  # noqa: E731
    return Entry("gemm", {}, make, run, reference, AllClose(1e-4, 1e-4), "", backward=backward, **more)


def product(it: dict[str, Any]) -> dict[str, Any]:
    return {"c": it["a"] @ it["b"]}


def only_in(way: str, broken: Any) -> Any:
    return lambda it: broken(it) if modes._current == way else product(it)


def check(run: Any, **more: Any) -> tuple[dict[str, Any], list[str]]:
    told: list[str] = []
    return worker.check(entry(run, **more), WAYS, told.append, "cpu"), told


def test_outputs_and_gradients_are_compared_in_every_way() -> None:
    answer, told = check(product)
    assert set(answer["modes"]["legal"]["errors"]) == {"c", "da"}
    assert all(found["worst"] < 1 and found["equal_bits"] for found in answer["modes"].values())
    assert told == ["reference", *WAYS, "reference", *WAYS[:2]]  # legal on one set of inputs


def test_a_wrong_gradient_is_found_though_the_output_is_right() -> None:
    answer, _ = check(only_in("legal", lambda it: {"c": product(it)["c"].detach() + 0 * it["a"]}))
    assert answer["modes"]["tawa"]["worst"] < 1
    assert answer["modes"]["legal"]["worst"] > 1
    assert answer["modes"]["legal"]["errors"]["c"] < 1
    assert not answer["modes"]["legal"]["equal_bits"]


def test_a_failure_under_tawa_is_told_apart_from_one_of_stock() -> None:
    def fail(it: Any) -> Any:
        raise RuntimeError("misaligned address")

    answer, told = check(only_in("tawa", fail))
    assert answer["modes"]["tawa"] == {"failed": "RuntimeError: misaligned address"}
    assert "legal" not in told  # the GPU is gone
    assert check(only_in("stock", fail))[0]["status"] == "skipped"


def test_one_wrong_element_shows_in_the_peak() -> None:
    def one_off(it: dict[str, Any]) -> dict[str, Any]:
        c = product(it)["c"].clone()
        c[3, 5] += 0.5
        return {"c": c}

    answer, _ = check(only_in("legal", one_off), backward=False)
    assert answer["modes"]["tawa"]["peak"] == 0.0
    assert answer["modes"]["legal"]["peak"] > 4


@pytest.mark.parametrize(("broken", "last"), [(("tawa",), "tawa"), (("stock", "tawa"), "stock")])
def test_a_compile_that_fails_is_blamed_on_tawa_only_if_stock_can(broken: tuple[str, ...], last: str) -> None:
    def run(it: dict[str, Any]) -> dict[str, Any]:
        if modes._current in broken:
            raise RuntimeError("a pass broke")
        return product(it)

    told: list[str] = []
    with pytest.raises(RuntimeError):
        worker.compile_only(entry(run), ["tawa", "legal"], told.append)
    assert told[-1] == last


def test_memory_that_runs_out_is_no_fault_of_tawa() -> None:
    def fail(it: Any) -> Any:
        raise torch.OutOfMemoryError("3 GiB")

    answer, _ = check(only_in("tawa", fail))
    assert answer["status"] == "skipped"
    assert "--processes" in answer["message"]


def test_what_an_operation_does_not_write_shows() -> None:
    kept = torch.zeros(8, 8)

    def run(it: dict[str, Any]) -> dict[str, Any]:
        if modes._current != "legal":
            kept.copy_((it["a"] @ it["b"]).detach())
        return {"c": kept}

    answer, _ = check(run, backward=False, reset=lambda it: kept.fill_(float("nan")))
    assert answer["modes"]["tawa"]["worst"] < 1
    assert answer["modes"]["legal"]["worst"] is None
    assert answer["modes"]["tawa"]["equal_bits"]  # and stock's outputs are not overwritten by the next way


def time_it(run: Any, monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[dict[str, Any], list[str]]:
    """A timing with a clock and a profiler that are played."""
    from bench import harness

    def time_round_robin(candidates: dict[str, Any], rounds: int) -> tuple[dict[str, Any], dict[str, str]]:
        for candidate in candidates.values():
            candidate()
        return {name: harness.Timing.of([2.0]) for name in candidates}, {}

    def time_kernels(candidates: Any, names: list[str], run_ms: float) -> tuple[dict[str, Any], str]:
        return {name: {key: [2000.0, 1.0, 3.0] for key in names} for name in candidates}, ""

    recorded = timing.run_recorded
    gemm = {"kernel": "gemm", "applied": True, "reason": "", "location": None, "launches": 1, "versions": 1}

    def with_a_kernel(entry: Entry, inputs: Any, device: str) -> Any:
        found = recorded(entry, inputs, device)
        return running.Recorded(found.outputs, [gemm] if modes._current == "tawa" else [], True)

    monkeypatch.setattr(timing, "run_recorded", with_a_kernel)
    monkeypatch.setattr(timing, "time_kernels", time_kernels)
    monkeypatch.setattr(harness, "time_round_robin", time_round_robin)
    told: list[str] = []
    return timing.measure(entry(run), ["stock", "tawa"], told.append, device="cpu", **more), told


def test_a_timing_has_times_of_the_operation_and_of_each_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, told = time_it(product, monkeypatch)
    assert answer["timings"]["tawa"] == [2.0, 2.0, 2.0]
    assert answer["us"]["stock"] == {"gemm": [2000.0, 1.0, 3.0]}
    assert answer["apart"] == {"tawa": 0.0}
    assert [it.split(" ")[0] for it in told] == ["stock", "tawa", "stock", "tawa", "timing", "kernels"]
    known = json.loads(told[-1].removeprefix("kernels "))  # should the profiler kill the process
    assert {**known, "us": answer["us"], "note": ""} == answer


def test_what_is_timed_is_compared_with_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _ = time_it(only_in("tawa", lambda it: {"c": product(it)["c"] + 1}), monkeypatch, kernels=False)
    assert answer["apart"]["tawa"] > 100
    assert answer["off"]["tawa"] > 100 and answer["off"]["stock"] < 1
    assert "us" not in answer


def test_preparing_compares_nothing_and_runs_each_mode_once() -> None:
    seen: list[str] = []

    def run(it: dict[str, Any]) -> dict[str, Any]:
        seen.append(modes._current)
        return product(it)

    assert worker.prepare(entry(run), ["tawa"], lambda reached: None, "cpu") == {"status": "done"}
    assert seen == ["tawa"]
