"""Kernels with pointer loads are specialised, proved, and keep the bits of the unspecialised program."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.errors import ProtocolError
from tawa.ir import parse_module
from tawa.transforms.pipelining import pipeline_mma
from tests.cases.small.pointer_kernels import CASES, find, made, unspecialised
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

NAMES = [case.name for case in CASES]
DEPTH = 2


@pytest.mark.parametrize("name", NAMES)
def test_pointer_kernel_is_specialised_and_proved(name: str) -> None:
    outcome = made(name)
    assert outcome.applied, outcome.remarks
    assert passes(outcome.verdict), outcome.verdict
    assert outcome.plan is not None
    assert tuple(ring.fill for ring in outcome.plan.rings) == find(name).fills


@simulated_once
@pytest.mark.parametrize("trips", (0, 1, DEPTH, DEPTH + 1, 2 * DEPTH + 1))
@pytest.mark.parametrize("name", sample(NAMES, 6))
def test_specialised_pointer_kernel_gives_the_same_bits_in_every_order(name: str, trips: int) -> None:
    case, outcome = find(name), made(name, DEPTH)
    wanted = case.output(parse_module(unspecialised(name)), trips)
    for level in (outcome.aref, outcome.barrier):
        for order in ("eager", "late", "random"):
            found = case.output(parse_module(level), trips, order)
            assert np.array_equal(found, wanted), f"{order}, {trips} trips"


def test_one_buffer_for_a_computed_operand_with_dots_in_flight_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    rotate = pipeline_mma._rotate_buffers
    monkeypatch.setattr(pipeline_mma, "_rotate_buffers", lambda loop, buffers, count: rotate(loop, buffers, 1))
    with pytest.raises(ProtocolError, match="while a wgmma of default may still access it"):
        made("weight_only", DEPTH + 1)
