"""Forecasts for the launches of one compiled kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.attach import attached
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.launch.forecasts import Forecasts, forecast_facts, forecasts_of
from tawa.plan import Plan, PlanOptions
from tawa.plan.search.search import Search
from tawa.plan.search.space import Space
from tests.cases.pointers.builders import gemm_case
from tests.cases.programs.workloads import by_descriptors, workload
from tests.matrix.compiling import compile_case
from tests.support.forms import form_plan

SPACE = Space(8, 3, workload(by_descriptors(128, 256, 64)), persistent=True)
CASE = gemm_case("forecasts", tile=(128, 256, 64), warps=8, stages=3, sizes={"M": 512, "N": 512, "K": 512}, GROUP_M=8)


@pytest.fixture(scope="module")
def kernel() -> Any:
    with attached(), launched_by_us(function=CASE.kernel):
        return compile_case(CASE, PlanOptions(only_if_faster=False))


def values_of(forecasts: Forecasts, size: int) -> list[Any]:
    return [size] * (max(forecasts.arguments) + 1)


def test_they_are_read_from_the_kernel_and_depend_on_what_decides_the_amount_of_work(kernel: Any) -> None:
    found = forecasts_of(kernel, 132)
    assert found is not None and [name for _, name in found.sizes] == ["K"]
    forecast = found.choose(values_of(found, 512), (2048,))
    assert forecast is not None and forecast.expectation.own_us > 0


def test_launches_of_about_one_size_are_evaluated_once(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = forecasts_of(kernel, 132)
    assert found is not None and found.search is not None
    first = found.choose(values_of(found, 4100), (2048, 1, 1))
    monkeypatch.setattr("tawa.plan.cost.launches.launch_of", lambda *_: 1 / 0)
    assert found.choose(values_of(found, 4200), (2050, 1, 1)) is first
    with pytest.raises(ZeroDivisionError):
        found.choose(values_of(found, 8200), (2048, 1, 1))


def test_a_form_that_was_compiled_is_known_with_the_plan_that_it_got(kernel: Any) -> None:
    found = forecasts_of(kernel, 132)
    assert found is not None
    forecast = found.choose(values_of(found, 512), (2048, 1, 1))
    assert forecast is not None and forecast.plan is not None and forecast.plan.form == "persistent"
    found.note(forecast.plan, "no")
    again = found.choose(values_of(found, 512), (2048, 1, 1))
    assert again is not None and again.plan != forecast.plan
    assert found.choose(values_of(found, 512), (2048, 1, 1), at_hand=True).plan is None  # type: ignore[union-attr]


def test_a_kernel_without_another_form_has_none() -> None:
    alone = Search.of(replace(SPACE, num_warps=4, persistent=False))
    assert forecast_facts(alone.beside(form_plan(1), stock=False)) is None
    assert forecast_facts(alone.beside(form_plan(1), stock=True)) is not None
    about = forecast_facts(Search.of(SPACE).beside(form_plan(1), stock=False))
    assert about is not None and about["forms"] == [form_plan(1, persistent=True).to_dict()]


def test_a_kernel_that_cannot_be_read_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.bridge.triton.structured.read_kernel", lambda *_: None)
    monkeypatch.setattr("tawa.analysis.work.workload.find_workload", lambda *_: None)
    silent = Forecasts("", {}, Plan(), [], 132)
    assert silent.choose([], (1, 1, 1)) is None


@pytest.mark.parametrize(("spilled", "gains"), [(0, True), (20_000, False)])
def test_a_form_that_a_compile_declined_is_predicted_with_what_it_spilled(
    spilled: int, gains: bool, kernel: Any
) -> None:
    """No launch has to compile it again to learn that."""
    search = Search.of(replace(SPACE, persistent=False), options=PlanOptions(num_consumer_groups=1)).beside(None)
    about = forecast_facts(search, spilled, Plan.of(kernel.metadata.tawa["plan"]))
    assert about is not None
    found = Forecasts(kernel.asm["ttir"], about, None, [(5, "K")], 132)
    forecast = found.choose(values_of(found, 512), (2048, 1, 1))
    assert forecast is not None and (forecast.plan is not None) == gains, forecast
