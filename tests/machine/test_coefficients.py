"""The coefficients of the model of time, as they are shipped."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

from tawa.machine.coefficients import FILE, FORMAT, Coefficients, fitted
from tawa.plan.thresholds import DOUBT


def test_the_file_has_this_format_and_every_coefficient_is_positive() -> None:
    data = json.loads(FILE.read_text())
    assert data["format"] == FORMAT
    assert set(data["coefficients"]) == set(Coefficients.names())
    assert all(value > 0 and math.isfinite(value) for value in asdict(fitted().coefficients).values())


def test_every_regime_has_an_error_that_comes_from_measurements() -> None:
    errors = fitted().errors
    assert errors and all(it.deviation > 0 and it.points > 0 for it in errors.values())
    assert sum(it.points for it in errors.values()) < fitted().source["points"]  # the rest are stock Triton's kernels


def test_a_regime_without_measurements_is_less_sure_than_most() -> None:
    surer = sum(it.deviation < fitted().unknown.deviation for it in fitted().errors.values())
    assert surer > 0.8 * len(fitted().errors)
    assert math.exp(DOUBT * fitted().unknown.deviation) > 1
