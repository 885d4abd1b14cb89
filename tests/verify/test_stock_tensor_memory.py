"""Verdicts on what stock Triton 3.6 makes of plain kernels for sm_100: its faults are found, and nothing else.

A nested persistent loop is not here: Triton 3.6 cannot specialise it. The flattened one is only checked in runs of
stated numbers, which takes half a minute.
"""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Checked, Refuted
from tests.support.sample import simulated_once
from tests.verify.tensor_memory.stock import stock_module

pytestmark = simulated_once

NO_FENCE = "wrote it through the generic proxy, without a fence_async_shared in between by a partition that waited"
STILL_USED = "[0] is invalidated while another partition may still use it"


@pytest.mark.parametrize("specialise", [False, True])
def test_a_dot_reads_what_cp_async_wrote_without_a_fence(specialise: bool) -> None:
    verdict = check_barriers(stock_module("pointer GEMM", specialise))
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "missing fence", verdict
    assert NO_FENCE in verdict.witness.message and "a cp.async of" in verdict.witness.message
    assert verdict.witness.inputs == {"K": 1}


@pytest.mark.parametrize("name", ["GEMM", "attention", "causal attention"])
def test_specialised_by_stock_a_barrier_is_invalidated_while_a_commit_may_arrive(name: str) -> None:
    verdict = check_barriers(stock_module(name, specialise=True))
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "barrier lifecycle", verdict
    assert "empty" in verdict.witness.message and verdict.witness.message.endswith(STILL_USED)


@pytest.mark.parametrize("name", ["GEMM", "causal attention"])
def test_pipelined_by_stock_no_run_has_a_fault(name: str) -> None:
    assert isinstance(check_barriers(stock_module(name, specialise=False)), Checked)


def test_without_a_key_pipelined_attention_loads_scores_that_no_dot_wrote() -> None:
    verdict = check_barriers(stock_module("attention", specialise=False))
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "read before write", verdict
    assert verdict.witness.message.startswith("ttng.tmem_load reads") and verdict.witness.inputs == {"S": 0}
