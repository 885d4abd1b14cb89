"""Candidates of an explanation: the forms that are predicted, for usual sizes or one launch, and what was measured."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.bridge.driver.attach import attached
from tawa.bridge.launch.answer import answer_for
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.report.record import KEY
from tawa.plan import PlanOptions
from tawa.runtime.explain.candidates import Predicted, candidates_of
from tawa.runtime.explain.explaining import compile_with_options, explain_compiled
from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.tuning.store import user_store
from tawa.runtime.tuning.table import versions_here
from tests.bridge import kernels
from tests.cases.gemm.cases import TILES
from tests.matrix.compiling import compile_case
from tests.runtime.page.reading import Page
from tests.runtime.tuning.entries import entry

TILE = "tensordesc<fp16[128,64]>"
TEXT = f"a_desc={TILE}, b_desc=tensordesc<fp16[64,128]>, c_desc=tensordesc<fp16[128,128]>, K=i32:16"
BLOCKS = {"BM": 128, "BN": 128, "BK": 64}


@pytest.fixture(autouse=True)
def own_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@cache
def compiled() -> Any:
    with launched_by_us(function=kernels.gemm_descriptors):
        return compile_with_options(kernels.gemm_descriptors, TEXT, BLOCKS, num_warps=8)


def of_launch(k: int) -> Explanation:
    return explain_compiled(compiled(), arguments={"K": k}, grid=(64, 64))


def test_the_predicted_forms_are_stock_triton_the_compiled_one_and_the_others() -> None:
    found = candidates_of(compiled(), answer_for(compiled())).predicted
    assert found[0].words == "stock Triton" and sum(it.compiled for it in found) == 1
    assert len({it.words for it in found}) == len(found) > 2
    assert all(list(it.times_us) == list(found[0].times_us) and min(it.times_us.values()) > 0 for it in found)


def test_of_one_launch_the_times_are_those_of_its_sizes() -> None:
    found = of_launch(4096).candidates.predicted
    assert {tuple(it.times_us) for it in found} == {("K = 4096, grid (64, 64)",)}
    shorter = of_launch(1024).candidates.predicted
    assert next(iter(shorter[0].times_us.values())) < next(iter(found[0].times_us.values()))


def test_the_form_that_the_launch_gets_is_marked_on_the_page() -> None:
    seen = of_launch(4096)
    assert seen.plan is not None and seen.plan.form == "persistent"
    (mine,) = (it for it in seen.candidates.predicted if it.compiled)
    assert mine.words.startswith("persistent, 1 group") and mine.words in seen.to_dict()["resolved"]["found"]
    assert f"{mine.words} (this kernel)" in Page(seen.to_html()).sections["candidates"]


def test_stock_triton_is_predicted_alike_however_the_kernel_is_asked_for() -> None:
    """With A and B transposed, ptxas serialises the wgmmas of stock Triton's kernel, which only its compile shows."""
    case = next(it for it in TILES if it.name.endswith("tile_8warps_nt"))

    def stock(**options: Any) -> list[Predicted]:
        with attached(), launched_by_us(function=case.kernel):
            kernel = compile_case(case, PlanOptions(**options))
        return [it for it in explain_compiled(kernel).candidates.predicted if it.words == "stock Triton"]

    (asked,), (automatic,) = stock(only_if_faster=False), stock()
    assert asked.times_us == automatic.times_us


def test_the_remark_names_the_form_that_it_predicts() -> None:
    seen = explain_compiled(compiled())
    (told,) = (it for it in seen.remarks if it.startswith("expected to pay: "))
    times = {
        it.words: next(time for size, time in it.times_us.items() if size in told) for it in seen.candidates.predicted
    }
    assert times["persistent, 1 group"] < times["as written, 1 group"]
    assert seen.plan is not None and seen.plan.form != "persistent"
    assert (
        f": {times['persistent, 1 group']:.0f} us predicted for the specialised kernel (persistent, 1 group), " in told
    )


def test_what_was_measured_of_the_kernel_is_on_its_page() -> None:
    key = getattr(compiled().metadata, KEY)["tuning"]["key"]
    mine = entry(key=key, versions=versions_here(), kernel="gemm_descriptors")
    other = entry(key="0" * 32, versions=versions_here(), shape_class="of another kernel")
    user_store().put([mine, other])
    seen = explain_compiled(compiled())
    assert seen.candidates.measured == (mine,)
    assert seen.to_dict()["candidates"]["measured"] == [mine.to_dict()]
    page = Page(seen.to_html())
    text = page.sections["candidates"]
    assert mine.gpu in text and mine.shape_class in text and "of another kernel" not in text
    assert page.data["charts"]["measured0"]["series"][0]["values"] == [it.median_us for it in mine.times]


def test_a_pinned_kernel_has_no_prediction() -> None:
    seen = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, num_warps=8, plan='{"rings": [{"depth": 2}]}')
    assert seen.applied and seen.candidates.predicted == ()
