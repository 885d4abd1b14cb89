"""What is known of stock Triton's kernel once it is compiled, and what launches get then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.attach import attached
from tawa.bridge.launch import stock_facts
from tawa.bridge.launch.added_arguments import compiled_by_stock
from tawa.bridge.launch.answer import answer_for
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.launch.forecasts import forecasts_of
from tawa.bridge.launch.stock_facts import KEY, facts_of, recorded_facts
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.versions import triton_version
from tawa.plan import PlanOptions
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.option_conflicts import STOCK
from tawa.plan.search.space import Space
from tests.cases.case import Specimen
from tests.cases.gemm.cases import TILES
from tests.matrix.compiling import compile_case

SERIALISES = triton_version() < (3, 7)
"""Whether the ptxas of this Triton serialises the wgmmas of the tile with B transposed."""
GRID = (8 * 4,)
SIZES = {"M": 1024, "N": 1024, "K": 4096}


def case_of(order: str) -> Specimen:
    return next(it for it in TILES if it.name.endswith(f"tile_8warps_{order}"))


def compiled(order: str) -> Any:
    case = case_of(order)
    with attached(), launched_by_us(function=case.kernel):
        return compile_case(case, PlanOptions())


@pytest.fixture
def unexpected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No form is expected to gain."""
    original = Space._expect  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Space, "_expect", lambda self, program: replace(original(self, program), stock_us=1.0))


@pytest.mark.parametrize(("order", "serialised"), [("nt", SERIALISES), ("nn", False)])
def test_a_launch_that_would_get_stock_gains_where_ptxas_serialises_its_wgmmas(order: str, serialised: bool) -> None:
    kernel = compiled(order)
    forecasts = forecasts_of(kernel, 132)
    assert forecasts is not None and not forecasts.learned
    values = [SIZES["K"]] * (max(forecasts.arguments) + 1)
    with kept_log() as log:
        stock = compiled_by_stock(kernel, attached)
    facts = facts_of(stock, log.text)
    assert facts is not None and facts.serialised == serialised
    assert facts.registers > 128 and facts.spilled == 0 and facts.shared == stock.metadata.shared
    before = forecasts.choose(values, GRID)
    forecasts.learn(facts)
    after = forecasts.choose(values, GRID)
    assert before is not None and after is not None
    assert after.expectation.serialised == serialised
    if serialised:
        assert before.plan == STOCK and after.plan != STOCK
        assert "(ptxas serialises its wgmmas)" in str(after) and after.expectation.gain > 1.1
    else:
        assert (before.plan, before.expectation) == (after.plan, after.expectation)


@pytest.mark.parametrize(
    ("order", "decision"), [("nt", "specialised" if SERIALISES else "declined"), ("nn", "declined")]
)
def test_an_explanation_knows_what_the_launcher_learns(order: str, decision: str) -> None:
    assert answer_for(compiled(order), SIZES, GRID, processors=132).decision == decision


@pytest.mark.contract
@pytest.mark.parametrize(("order", "serialised"), [("nt", SERIALISES), ("nn", False)])
@pytest.mark.usefixtures("unexpected")
def test_a_compile_that_leaves_a_kernel_to_stock_records_the_facts(order: str, serialised: bool) -> None:
    """Launches choose with them, from the cache on disk as well."""
    for _ in range(2):
        kernel = compiled(order)
        record = kernel.metadata.tawa
        assert not record["applied"] and not record["back_end_runs"]
        facts = recorded_facts(record)
        assert facts is not None and facts.serialised == serialised
        forecasts = forecasts_of(kernel, 132)
        assert forecasts is not None and forecasts.learned and forecasts.facts == facts
        told = any("ptxas serialises the wgmmas" in it["reason"] for it in record["remarks"])
        assert told == serialised
        decision = answer_for(kernel, SIZES, GRID, processors=132)
        assert decision.decision == ("specialised" if serialised else "declined"), decision


def test_a_stock_kernel_from_the_cache_has_the_same_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of("nt")
    stock = compile_case(case, None)
    first = facts_of(stock)
    monkeypatch.setattr(stock_facts, "run_ptxas", lambda *_: pytest.fail("the facts were kept"))
    assert facts_of(stock) == first == recorded_facts({KEY: {"serialised": SERIALISES, "registers": 154, "spilled": 0,
                                                             "shared": stock.metadata.shared}})  # fmt: skip


def test_a_kernel_of_which_nothing_can_be_known_has_none() -> None:
    assert facts_of(object()) is None
    assert recorded_facts({}) is None
    assert recorded_facts({KEY: {"serialised": False, "registers": 32, "spilled": 4, "shared": 0}}) == ProgramFacts(
        False, 32, 4, 0
    )
