"""`early_puts`: the first E slots are filled before the partitions start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.transforms.partition.early_puts import EarlyPuts
from tests.cases.programs import ttgir as programs
from tests.cases.small.pointer_kernels import made, ttgir
from tests.support.filecheck import brief, check
from tests.support.passes import after
from tests.support.pipeline import specialise
from tests.support.protocol import run, violations


def test_the_first_loop_is_split_after_e_iterations() -> None:
    module, _ = after(EarlyPuts, programs.tile_gemm(), depth=3, early_puts=2)
    check(
        brief(module),
        """
        CHECK:      [[S:%split_0]] = "arith.select"({{.*}}, %n_0)
        CHECK-NEXT: [[C:%\\w+]] = "scf.for"(%zero_0, [[S]], %one_0, {{.*}})
        CHECK:      "aref.put"({{.*}}) <{fresh = true}>
        CHECK:      partition = "producer"
        CHECK:      "scf.for"([[S]], %n_0, {{.*}}, [[C]])
        CHECK:      "aref.put"({{.*}}) ({
        CHECK:      partition = "consumer"
        CHECK-NOT:  [[S]]
        CHECK:      tt.return
        """,
    )


@pytest.mark.parametrize("early", [1, 2, 3, 9])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7])
def test_every_ring_sees_the_same_puts_in_the_same_order(early: int, trips: int) -> None:
    module, _ = after(EarlyPuts, programs.tile_gemm(), depth=3, early_puts=early)
    trace = run(module, {"n": trips})
    assert violations(trace, 3, 0, trips) == []


@pytest.mark.parametrize("text", [programs.persistent_gemm(), programs.while_gemm(), programs.branching_gemm()])
def test_a_kernel_whose_first_puts_are_nested_does_not_change(text: str) -> None:
    module, _ = after(EarlyPuts, text, early_puts=2)
    assert "fresh" not in brief(module)


def test_a_loop_with_an_unknown_step_does_not_change() -> None:
    text = programs.tile_gemm().replace('"scf.for"(%zero, %n, %one', '"scf.for"(%zero, %n, %m')
    module, _ = after(EarlyPuts, text, early_puts=2)
    assert "fresh" not in brief(module)


def test_an_unsigned_loop_does_not_change() -> None:
    text = programs.tile_gemm().replace(
        '"scf.for"(%zero, %n, %one, %zeros) ({', '"scf.for"(%zero, %n, %one, %zeros) <{unsignedCmp}> ({'
    )
    assert "unsignedCmp" in text
    module, _ = after(EarlyPuts, text, early_puts=2)
    assert "fresh" not in brief(module)


def test_e_never_exceeds_the_shallowest_ring() -> None:
    module, _ = after(EarlyPuts, programs.tile_gemm(), depth=2, early_puts=9)
    trace = run(module, {"n": 9})
    assert violations(trace, 2, 0, 9) == []


@pytest.mark.parametrize("mma_depth", [0, 1, 2])
def test_the_barrier_level_of_a_kernel_with_early_puts_keeps_slots_and_parities(mma_depth: int) -> None:
    made = specialise(programs.tile_gemm(), PlanOptions(aref_depth=3, mma_depth=mma_depth), Target(4, 3))
    assert made.plan is not None and made.plan.early_puts > 0
    for trips in (0, 1, 2, 3, 4, 6, 7):
        trace = run(parse_module(made.barrier), {"n": trips})
        assert violations(trace, 3, mma_depth, trips, "barrier") == []


def test_slots_that_producer_warps_fill_are_not_filled_early() -> None:
    outcome = made("wrapped")
    assert outcome.plan is not None and outcome.plan.early_puts == 0
    early = replace(outcome.plan, early_puts=2)
    again = specialise(ttgir("wrapped"), PlanOptions(), Target(4, 3), early)
    assert again.applied and "fresh" not in again.aref
