"""The stock compile that a specialised one is compared with: made once, from what Triton hands down, and handed out."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.driver import spills, stock_run
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.stock_run import StockFailure, StockRun
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.stage_output import Stage
from tawa.bridge.triton.stages import StageSplit
from tawa.machine.coefficients import ErrorInfo
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.plan.search.prediction import Expectation
from tawa.plan.search.runs import keeps_dots_in_flight
from tawa.plan.search.space import Space
from tests.bridge.fakes import plan_of
from tests.cases.pointers.cases import find
from tests.cases.programs.ttgir import tile_gemm
from tests.matrix.compiling import signature
from tests.support.pipeline import specialise

GROUPED = find("grouped_tma_fp8_8warps")
CASE = replace(GROUPED, constexprs={**GROUPED.constexprs, "BK": 64})
"""Each dot of fp8 is added to the sum apart: two tiles of 128 x 256 are more than eight warps hold."""


def stages(calls: list[str], fails: str = "") -> dict[str, Stage]:
    def stage(name: str) -> Stage:
        def run(before: Any, metadata: dict[str, Any]) -> Any:
            calls.append(name)
            if name == fails:
                raise RuntimeError("the register file is full")
            metadata[name] = True
            return SimpleNamespace(name=name, context=None)

        return run

    return {name: stage(name) for name in ("ttgir", "llir", "ptx", "cubin")}


def test_nothing_runs_until_it_is_asked_and_then_once() -> None:
    calls: list[str] = []
    run = StockRun(None, {"num_warps": 4}, stages(calls), None)
    assert run.result("ttgir") is None and calls == []
    assert run.spilled() == run.spilled() == 0
    assert calls == ["ttgir", "llir", "ptx", "cubin"]
    made = run.result("llir")
    assert made is not None and made.metadata == {"num_warps": 4, "ttgir": True, "llir": True}


def test_what_stops_stock_triton_stops_the_stage_again() -> None:
    run = StockRun(None, {}, stages([], fails="llir"), None)
    with pytest.raises(StockFailure, match="register file"):
        run.spilled()
    assert run.result("ttgir") is not None
    with pytest.raises(RuntimeError, match="register file"):
        run.result("llir")


def test_the_front_half_runs_once_and_the_stage_runs_the_rest() -> None:
    calls: list[str] = []

    def part(name: str) -> Any:
        return lambda mod, metadata, options, capability: calls.append(name) or mod

    module = SimpleNamespace(context=None)
    run = StockRun(module, {}, stages(calls), None)
    split = StageSplit(part("front"), part("middle"), part("back"))
    assert run.stage("ttgir", module) is None
    assert run.front(split, 90) is run.front(split, 90) is module
    assert run.stage("ttgir", SimpleNamespace()) is None, "a module that was read again needs the whole stage"
    run.spilled()
    assert calls == ["front", "middle", "back", "llir", "ptx", "cubin"]


def test_a_compile_that_was_begun_runs_in_a_thread_and_leaves_mlir_before_it_ends() -> None:
    calls: list[str] = []
    went_on, given = threading.Event(), stages(calls)

    def llvm(before: Any, metadata: dict[str, Any]) -> str:
        return "define void @kernel()"

    def assembler(before: Any, metadata: dict[str, Any]) -> str:
        assert went_on.wait(10)
        calls.append(threading.current_thread().name)
        return ""

    run = StockRun(None, {}, {**given, "llir": llvm, "ptx": assembler}, None)
    run.lowered()  # nothing was begun: nothing to wait for
    run.begin()
    run.lowered()
    assert not run.unused and calls == ["ttgir"]
    went_on.set()
    assert run.spilled() == 0 and calls == ["ttgir", "tawa stock compile", "cubin"]
    run.finish()


def test_an_error_in_the_thread_is_that_of_the_compile() -> None:
    run = StockRun(None, {}, stages([], fails="ttgir"), None)
    run.begin()
    run.lowered()
    with pytest.raises(StockFailure, match="register file"):
        run.spilled()


def compiled(request: Request | None) -> Any:
    with launched_by_us():
        return compile_kernel(CASE.kernel, signature(CASE), request, num_warps=8, num_stages=3)


def slower(self: Space, plan: Plan, spilled: int = 0) -> Expectation | None:
    """Predicts that a Plan is slower once it is known that it spills."""
    return Expectation(10.0, 20.0 if spilled else 5.0, ErrorInfo(0.05, 9), "dots")


def test_a_kernel_that_is_declined_for_its_spills_is_the_stock_kernel_and_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []
    original = stock_run.StockRun._run  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(stock_run.StockRun, "_run", lambda self: runs.append(1) or original(self))
    monkeypatch.setattr(spills, "run_ptxas", lambda *_: pytest.fail("what ptxas said was kept"))
    monkeypatch.setattr(Space, "expected", slower)
    stock, made = compiled(None), compiled(Request(PlanOptions()))
    record = made.metadata.tawa
    assert not record["applied"] and "bytes of registers spill" in record["remarks"][0]["reason"]
    assert runs == [1]
    assert made.asm["cubin"] == stock.asm["cubin"]
    assert made.asm["ttgir"] == stock.asm["ttgir"]
    assert made.metadata.shared == stock.metadata.shared


@pytest.mark.parametrize(("mma_depth", "in_flight"), [(0, False), (1, True)])
def test_a_smaller_p_is_of_no_use_where_every_dot_is_waited_for(mma_depth: int, in_flight: bool) -> None:
    options = PlanOptions(aref_depth=3, mma_depth=mma_depth, only_if_faster=False)
    made = specialise(tile_gemm(), options, Target(4, 3))
    assert made.applied and made.module is not None
    assert keeps_dots_in_flight(plan_of(3, mma_depth=1), made.module) == in_flight
    assert keeps_dots_in_flight(plan_of(3, mma_depth=1), None), "unless that is known"
