"""The modules that ``python -m bench.stock_verdicts`` checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.stock_verdicts import (
    BEFORE,
    FINAL,
    ROOMS,
    Collector,
    Findings,
    cases,
    compile_case,
    handle,
    jobs,
    listen,
    plain,
)
from bench.workers import Answer

FENCE = "ttng.fence_async_shared"


@pytest.fixture(autouse=True)
def own_knobs() -> Iterator[None]:
    """The hook and the settings of the bench end with the test."""
    knobs = pytest.importorskip("triton").knobs
    with knobs.compilation.scope(), knobs.runtime.scope():
        yield


def compiled(source: str, name: str) -> list[tuple[str, str, str]]:

    collector = Collector()
    listen(collector)
    compile_case(cases(source)[name]())
    return collector.found


def test_a_kernel_gives_its_module_before_and_after_the_fences_are_inserted() -> None:
    (name, before, early), (again, final, late) = compiled("gemm", "tile_fp32_nn")
    assert (name, before, again, final) == ("gemm_tile", BEFORE, "gemm_tile", FINAL)
    assert (early.count(f'"{FENCE}"'), late.count(f'"{FENCE}"')) == (1, 2)  # one is a part of the TMA store
    assert all("ttng.warp_group_dot" in text for text in (early, late))


def test_an_answer_has_a_verdict_for_each_level() -> None:
    answer = handle({"source": "gemm", "name": "tile_fp16_nn", "configs": 1, "effort": "fast"})
    assert [(it["kernel"], it["level"]) for it in answer["judged"]] == [("gemm_tile", BEFORE), ("gemm_tile", FINAL)]
    assert answer["message"] == ""


def test_every_source_has_cases_and_every_case_is_a_job() -> None:
    sources = (*ROOMS, "bench.gemm", "bench.attention", "bench.pointers")
    names = {(it["source"], it["name"]) for it in jobs("", "", 1, "fast")}
    assert names == {(source, name) for source in sources for name in cases(source)}
    assert {source for source, _ in names} == set(sources)
    assert [it["name"] for it in jobs("gemm: tile_fp16_nn", "", 1, "fast")] == ["tile_fp16_nn"]


@pytest.mark.parametrize("source", ["bench.gemm", "bench.attention", "bench.pointers"])
def test_the_first_configuration_of_a_bench_compiles(source: str) -> None:
    assert [level for _, level, _ in compiled(source, next(iter(cases(source))))] == [BEFORE, FINAL]


def test_the_same_module_counts_once_in_a_source() -> None:
    findings = Findings()
    judged = {"kernel": "k", "level": FINAL, "same": "a", "verdict": "refuted", "why": "order: 3", "ms": 1.0}
    answer: Answer = {"judged": [judged, {**judged, "same": "b", "verdict": "unknown"}]}
    for source, name in (("gemm", "one"), ("gemm", "two"), ("corpus", "three")):
        findings.take({"source": source, "name": name}, answer)
    rows = list(findings.rows())
    counted = [row.case for row in rows if row.candidate == FINAL]
    assert [(it["source"], it["modules"], it["refuted"]) for it in counted] == [("gemm", 2, 1), ("corpus", 2, 1)]
    assert [row.case["of"] for row in rows if row.candidate == "false alarm"] == ["one", "three"]
    assert plain("order: 3 copies of b.0[1]") == "order: N copies of a slot"
