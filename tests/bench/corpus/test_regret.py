"""The candidates of an entry's kernels as the worker checks and times them, on the CPU. Needs PyTorch for most."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bench.corpus import modes, regret, running
from bench.corpus.entry import AllClose, Entry
from bench.corpus.regret import RUNNING, Compiled, candidates_of_kernels, measure_candidates
from bench.regret.candidates import Candidate, pinned_candidates
from tests.analysis.tile_programs import TileProgram

Run = Callable[[dict[str, Any]], dict[str, Any]]
KERNELS = ("gemm", "scan")


def compiled(name: str) -> Compiled:
    metadata = SimpleNamespace(name=f"{name}_0", num_warps=8, num_stages=3, tawa={"applied": True, "reason": "why"})
    return Compiled(SimpleNamespace(params=()), SimpleNamespace(asm={"ttir": name}, metadata=metadata))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, Any]]]:
    """Two kernels with two Plans each, and modes that compile nothing; the Plans of the modes that are added."""
    pytest.importorskip("torch")
    added: dict[str, dict[str, Any]] = {}
    names = ("stock", "automatic", "model 1: as written", "random 1: persistent")
    monkeypatch.setattr(regret, "compiled_kernels", lambda: {name: compiled(name) for name in KERNELS})
    monkeypatch.setattr(regret, "candidates_of_kernels", lambda launched, seed: {
        kernel: [Candidate(name, {"plan": f"{name} of {kernel}"}, 5.0) for name in names] for kernel in launched
    })  # fmt: skip
    monkeypatch.setattr(regret, "add_plan_mode", added.__setitem__)
    monkeypatch.setattr(regret, "switch_to", lambda mode: monkeypatch.setattr(modes, "_current", mode))
    monkeypatch.setattr(regret, "forget_compiled", lambda: None)
    monkeypatch.setattr(running, "forget_compiled", lambda: None)
    yield added


def product(it: dict[str, Any]) -> dict[str, Any]:
    return {"c": it["a"] @ it["a"]}


def entry(run: Run) -> Entry:
    import torch

    make = lambda device: {"a": torch.randn(4, 4, device=device)}  # noqa: E731
    return Entry("gemm", {}, make, run, lambda it: {"c": it["a"].double() @ it["a"].double()}, AllClose(1e-4, 1e-4), "")


def measure(run: Run = product, **more: Any) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What became of each candidate, by kernel and name; and what was told."""
    told: list[str] = []
    answer = measure_candidates(entry(run), [], told.append, **{"timed": False, **more}, device="cpu")
    return {kernel: {it["name"]: it for it in of} for kernel, of in answer["kernels"].items()}, told


def failing_in(names: tuple[str, ...], text: str) -> Run:
    def run(it: dict[str, Any]) -> dict[str, Any]:
        if modes._current in names:
            raise RuntimeError(text)
        return product(it)

    return run


def test_each_candidate_has_its_time_per_kernel(
    played: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_kernels(calls: dict[str, Any], names: list[str], run_ms: float) -> tuple[dict[str, Any], str]:
        ran: list[str] = []
        for call in calls.values():
            call()
            ran.append(modes._current)
        assert (ran, names) == (["stock", "tawa", "model 1", "random 1"], ["gemm_0", "scan_0"])
        return {place: {"gemm_0": [2.0, 1.0, 3.0]} for place in calls}, "kernels not timed: scan_0"

    monkeypatch.setattr(regret, "time_kernels", time_kernels)
    found, _ = measure(timed=True)
    assert all(it["us"] == [2.0, 1.0, 3.0] and not it["error"] for it in found["gemm"].values())
    assert all(it["us"] is None for it in found["scan"].values())
    assert found["gemm"]["automatic"]["about"] == {"applied": True, "reason": "why", "plan": None, "equal": True}
    assert played["model 1"] == {kernel: f"model 1: as written of {kernel}" for kernel in KERNELS}


def test_a_plan_that_cannot_be_carried_out_costs_no_other_kernel_its_own(played: dict[str, dict[str, Any]]) -> None:
    found, _ = measure(failing_in(("model 1 of scan",), "no such ring"))
    assert not found["scan"]["model 1: as written"]["error"]  # together they are right, nothing is run alone
    played.clear()

    def run(it: dict[str, Any]) -> dict[str, Any]:
        if "scan" in played.get(modes._current, {}) and modes._current.startswith("model 1"):
            raise RuntimeError("no such ring")
        return product(it)

    found, _ = measure(run)
    assert found["scan"]["model 1: as written"]["error"] == "RuntimeError: no such ring"
    assert not found["gemm"]["model 1: as written"]["error"]
    assert list(played["model 1"]) == ["gemm"]
    assert not found["scan"]["random 1: persistent"]["error"]


def test_a_wrong_output_is_told_as_a_difference(played: dict[str, dict[str, Any]]) -> None:
    found, _ = measure(lambda it: {"c": product(it)["c"] + (modes._current == "tawa")})
    assert "differs from the reference" in found["gemm"]["automatic"]["error"]
    assert not found["gemm"]["stock"]["error"] and not found["gemm"]["model 1: as written"]["error"]


def test_an_entry_that_stock_triton_gets_wrong_is_not_measured(played: dict[str, dict[str, Any]]) -> None:
    run = entry(lambda it: {"c": product(it)["c"] * float("inf")})
    answer = measure_candidates(run, [], lambda text: None, timed=False, device="cpu")
    assert (answer["kernels"], answer["note"]) == ({}, regret.STOCK_IS_WRONG)


def test_what_ended_a_process_is_not_run_again(played: dict[str, dict[str, Any]]) -> None:
    found, told = measure(lost={"gemm": {"model 1: as written": "hung"}}, apart=["random 1"])
    assert found["gemm"]["model 1: as written"]["error"] == "hung"
    ran = [json.loads(text.removeprefix(RUNNING)) for text in told if text.startswith(RUNNING)]
    assert [it["mode"] for it in ran] == [
        "stock", "automatic", "model 1", "random 1 of gemm", "random 1 of scan", "random 1"
    ]  # fmt: skip
    assert ran[2]["candidates"] == {"scan": "model 1: as written"}


def test_an_error_that_leaves_the_gpu_unusable_ends_the_job(played: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(RuntimeError):
        measure(failing_in(("random 1",), "CUDA error: an illegal memory access"))


def test_only_kernels_with_a_dot_are_ranked_stock_with_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(text: str, context: Any) -> Any:
        program = TileProgram(a="!tt.ptr<f16>", y="tensor<64x64xf16>")
        x = program.load(program.splat(program.args["a"], 64, 64))
        if text == "gemm":
            program.dot(x, program.args["y"])
        return program.finish()

    monkeypatch.setattr("tawa.bridge.triton.generic_print.read_ttir", module)
    found = candidates_of_kernels({name: compiled(name) for name in KERNELS}, "gemm M=64")
    assert list(found) == ["gemm"]
    stock, automatic, learned, *pinned = found["gemm"]
    assert (stock.name, automatic.name, learned.name) == ("stock", "automatic", "learned")
    assert stock.predicted_us and automatic.predicted_us is None
    assert [it.name.partition(":")[0] for it in pinned[:8]] == [f"model {place}" for place in range(1, 9)]
    assert all(it.options["plan"] and it.predicted_us for it in pinned)
    assert found == candidates_of_kernels({"gemm": compiled("gemm")}, "gemm M=64")


def test_a_kernel_without_plans_has_no_pinned_candidates() -> None:
    assert pinned_candidates("gemm", ()) == []
