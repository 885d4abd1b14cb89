"""Whether a Plan is expected to beat stock Triton's kernel, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tawa.machine.coefficients import ErrorInfo, fitted
from tawa.plan.cost.launches import launch_of
from tawa.plan.cost.programs import Program
from tawa.plan.cost.time_model import predict
from tawa.plan.search.prediction import Expectation, expect, regime_of
from tawa.plan.thresholds import DOUBT
from tests.cases.programs.workloads import by_descriptors, chained, workload
from tests.support.timed import changed, timed

GEMM = workload(by_descriptors())
LAUNCH = launch_of(GEMM, (None,) * 3 + (8192, 8192, 4096), (64, 32))
STOCK, OWN = timed(False, num_warps=8), timed(num_warps=8, in_flight=1)
FACTOR_OF_TWO = ErrorInfo(math.log(2) / DOUBT, 9)


@pytest.mark.parametrize(
    ("own_us", "verdict"),
    [(40.0, "faster"), (51.0, "unclear"), (100.0, "unclear"), (199.0, "unclear"), (201.0, "slower")],
)
def test_a_verdict_needs_more_than_the_error_of_the_model(own_us: float, verdict: str) -> None:
    expectation = Expectation(100.0, own_us, FACTOR_OF_TWO, "dots")
    assert expectation.factor == pytest.approx(2)
    assert expectation.verdict == verdict


def test_the_text_has_both_times_the_gain_and_its_factor() -> None:
    text = str(Expectation(212.4, 40.0, FACTOR_OF_TWO, "dots"))
    assert text == (
        "40.0 us predicted for the specialised kernel, 212 us for stock Triton's: 5.31 times as fast "
        "(the model is right within a factor of 2.00)"
    )


def test_the_text_says_what_slows_stock_down() -> None:
    found = expect(GEMM, LAUNCH, OWN, changed(STOCK, serialised=True))
    assert found.serialised and " us for stock Triton's (ptxas serialises its wgmmas): " in str(found)
    assert found.stock_us > expect(GEMM, LAUNCH, OWN, STOCK).stock_us


def test_a_launch_is_predicted_for_both_kernels_with_the_error_of_its_regime() -> None:
    found = expect(GEMM, LAUNCH, OWN, STOCK)
    assert found.own_us == predict(GEMM, LAUNCH, OWN) and found.stock_us == predict(GEMM, LAUNCH, STOCK)
    assert found.error == fitted().errors[found.regime]
    assert expect(GEMM, LAUNCH, changed(OWN, groups=2), changed(STOCK, ctas=3)).error != found.error


@pytest.mark.parametrize(
    ("way", "programs", "regime"),
    [
        (OWN, 1056, "dots of 16 bits, 8 warps, 1 to 1 at a time, waves"),
        (OWN, 100, "dots of 16 bits, 8 warps, 1 to 1 at a time, one wave"),
        (changed(OWN, persistent=True), 1056, "dots of 16 bits, 8 warps, 1 to 1 at a time, several tiles"),
        (changed(OWN, groups=2), 1056, "dots of 16 bits, 8 warps, 2 to 1 at a time, waves"),
    ],
)
def test_regimes_differ_in_consumers_and_waves(way: Program, programs: int, regime: str) -> None:
    assert regime_of(GEMM, replace(LAUNCH, programs=programs), way, STOCK) == regime


def test_regimes_differ_in_dots_and_their_bits() -> None:
    narrow, attention = workload(by_descriptors(element="f8E4M3FN")), workload(chained())
    assert regime_of(narrow, LAUNCH, OWN, STOCK).startswith("dots of 8 bits")
    assert regime_of(attention, LAUNCH, OWN, STOCK).startswith("chained dots of 16 bits")
