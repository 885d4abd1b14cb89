"""`bench.blackwell_matrix`: a sample of its cases on every Triton, and what it takes for wrong."""

from __future__ import annotations

from typing import Any

import pytest

from bench import blackwell_matrix
from bench.blackwell_matrix import CASES, DEPTH, checked
from tests.cases.case import Specimen
from tests.support.sample import sample, simulated_once


@pytest.mark.contract
@pytest.mark.parametrize("case", sample(CASES, 22), ids=lambda it: it.name)
def test_a_case_becomes_a_cubin_is_proved_and_keeps_its_bits_at_every_trip_count(case: Specimen) -> None:
    known, error = checked(case)
    assert error is None
    assert known["cubin_bytes"] > 0 and known["verdict"] == "proved"
    assert known["runs"] >= 3 * (2 * DEPTH + 2)


@simulated_once
def test_other_bits_in_one_order_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    run = blackwell_matrix.simulated

    def late_is_wrong(case: Specimen, module: Any, order: str = "eager") -> dict[str, Any]:
        found = run(case, module, order)
        if order == "late":
            found["c"].reshape(-1)[-1] += 1
        return found

    monkeypatch.setattr(blackwell_matrix, "simulated", late_is_wrong)
    _, error = checked(next(it for it in CASES if it.name == "tile_64x64"))
    assert error is not None and error.startswith("other bits: ") and error.endswith(", late")
