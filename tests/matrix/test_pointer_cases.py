"""Pointer kernels: the verdict of each, its accuracy against float64, and equal bits before and after specialisation.

One case of each kernel; `bench/pointers/correctness.py` runs every case on a GPU.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.versions import triton_version
from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.runtime.config import Config
from tawa.sim.errors import SharedMemoryRace
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.crossed_numbers import SAME_MEMORY
from tawa.verify.verdict import Proved, Refuted
from tests.cases.case import Specimen
from tests.cases.pointers.cases import CASES, find
from tests.cases.pointers.persistent import ANNOUNCED
from tests.cases.pointers.reference import numpy_reference
from tests.cases.simulated import errors, orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import Levels, attempted, compile_case, signature
from tests.support.fronts import front
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

SMALL = {"M": 140, "N": 144, "K": 112}


def one_of_each() -> list[Any]:
    """The first case of each kernel and verdict."""
    seen: set[tuple[str, str]] = set()
    found: list[Any] = []
    for case in CASES:
        key = (case.kernel.fn.__name__, case.expect.verdict)
        if key not in seen:
            seen.add(key)
            blocks = case.name.startswith("block_pointers") and triton_version()[:2] > (3, 6)
            marks = pytest.mark.skip(reason="later Tritons have no block pointers") if blocks else ()
            found.append(pytest.param(case, id=case.name, marks=marks))
    return found


def small(case: Specimen) -> Specimen:
    """Resizes a GEMM to a few tiles; returns other cases unchanged."""
    resizable = "stride_am" in case.arguments and not {"GROUP", "EVEN_K", "TOP_K", "ELEMENT"} & set(case.constexprs)
    return case.with_sizes(**SMALL) if resizable and {"M", "N"} <= set(case.sizes) else case


def result_of(case: Specimen) -> tuple[Any, Levels]:
    """The result for a case without the profitability check."""
    made = front(case.kernel, signature(case), **case.options())
    job = made.job(case.name)
    found = specialise(job, Request(PlanOptions(only_if_faster=False)))
    return found, Levels({"ttir": made.ttir, **job.texts})


def test_an_unknown_name_is_reported_with_similar_ones() -> None:
    with pytest.raises(KeyError, match="gate_up"):
        find("pointer_gate")


@pytest.mark.parametrize("case", one_of_each())
def test_case_gets_the_verdict_that_is_wanted(case: Specimen) -> None:
    found, _ = result_of(case)
    verdict = "specialised" if isinstance(found, Specialised) else "declined"
    reason = "" if isinstance(found, Specialised) else found.remarks[0].reason
    assert case.expect.verdict in (verdict, "either"), reason
    if case.expect.verdict == "declined":
        assert case.expect.reason.lower() in reason.lower()


@simulated_once
@pytest.mark.parametrize(
    "case", sample([pytest.param(*it.values, id=it.id) for it in one_of_each() if it.values[0].reference], 6)
)
def test_kernel_is_right_in_the_simulator(case: Specimen) -> None:
    case = small(case)
    made = front(case.kernel, signature(case), **case.options())
    assert errors(case, simulated(case, made.whole()), numpy_reference).share <= 1


SAME_BITS = (
    "tutorial_fp16_nn", "tutorial_odd", "experts_one_choice", "gram", "wraps_into_sums", "clamped",
    "shifted_base_4", "windows_step3", "fill_with_one", "mask_from_memory", "reads_on", "linear_attention",
    "linear_backwards_uneven", "grouped_lengths", "grouped_tma_lengths", "barrier_between", "barriers_in_loop",
    "tutorial_16_rows_fp16", "tutorial_16_rows_fp8e4nv", "return_in_branch", "experts_elsewhere_one_choice",
    "attention_lengths_4warps", "while_listed", "segments", "grouped_transposed", "grouped_edges", "array",
    "array_tiles", "states", "states_uneven",
)  # fmt: skip


@simulated_once
@pytest.mark.parametrize("name", sample(SAME_BITS, 6))
def test_specialised_kernel_has_the_bits_of_the_unspecialised_one(name: str) -> None:
    case = small(find(name))
    found, levels = result_of(case)
    assert isinstance(found, Specialised)
    assert orders_with_other_bits(case, levels, simulated(case, unspecialised(case, levels))) == []


@pytest.mark.parametrize("name", ["linear_backwards", "linear_backwards_uneven", "linear_backwards_bf16_8warps"])
def test_a_loop_that_counts_down_is_filled_by_tma(name: str) -> None:
    found, _ = attempted(find(name), PlanOptions(enable_warp_specialization=True))
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    assert {ring.fill for ring in found.outcome.plan.rings} == {"tma"}


@pytest.mark.parametrize("name", ["grouped_tma", "grouped"])
def test_automatic_mode_takes_the_grouped_gemm(name: str) -> None:
    found, _ = attempted(find(name), PlanOptions())
    assert isinstance(found, Specialised)
    assert any("taken for granted" in it.reason for it in found.outcome.remarks)


def test_a_persistent_kernel_over_groups_of_constant_sizes_is_proved_fast() -> None:
    """Eight numbers in memory and twenty constant trips per tile: too many runs to enumerate."""
    found, _ = attempted(find("segments"), PlanOptions(only_if_faster=False))
    assert isinstance(found, Specialised)
    assert found.outcome.verdict == Proved((SAME_MEMORY,))


def test_a_release_that_such_a_kernel_lacks_is_found() -> None:
    _, levels = attempted(find("segments"), PlanOptions(only_if_faster=False))
    module = parse_module(levels.asm["barrier"])
    release, *_ = (op for op in module.walk() if op.name == "ttng.arrive_barrier")
    release.erase()
    assert isinstance(check_barriers(module, effort="fast"), Refuted)
    aref = parse_module(levels.asm["aref"])
    next(op for op in aref.walk() if op.name == "aref.consumed").erase()
    assert isinstance(check_credits(aref, effort="fast"), Refuted)


@pytest.mark.parametrize("mma_depth", [0, 1])
def test_a_computed_operand_keeps_its_memory_until_its_wgmma_is_done(mma_depth: int) -> None:
    """Triton frees a buffer after its last use: without the release, the other operand may be allocated over it."""
    case = find("states")
    _, levels = attempted(case, PlanOptions(enable_warp_specialization=True, aref_depth=4, mma_depth=mma_depth))
    module = parse_module(levels.asm["barrier"])
    assert passes(check_barriers(module, effort="fast"))
    releases = [op for op in module.walk() if op.name == "ttg.local_dealloc"]
    assert len(releases) == 2
    if mma_depth == 0:  # otherwise nothing is allocated between the loop and the wait after it
        for release in releases:
            release.erase()
        verdict = check_barriers(module, effort="fast")
        assert isinstance(verdict, Refuted)
        assert "is freed while a wgmma" in verdict.witness.message
        with pytest.raises(SharedMemoryRace, match="is freed while the wgmma"):
            simulated(case, module)


def test_no_descriptor_is_hoisted_above_the_waits_for_uses_of_the_previous_one() -> None:
    compiled = compile_case(find("grouped_anew"), PlanOptions(enable_warp_specialization=True))
    marks = "scf.while|ttng.wait_barrier|ttng.async_tma_store_wait|ttng.tensormap_create"
    consumer, producer = (re.findall(marks, part) for part in compiled.asm["ttgir"].split("partition0(")[:2])
    assert consumer[:3] == ["scf.while", "ttng.async_tma_store_wait", "ttng.tensormap_create"]
    waits = producer.index("ttng.tensormap_create") - 1
    assert waits > 0 and producer[: 1 + waits] == ["scf.while", *["ttng.wait_barrier"] * waits]


def test_the_announced_configuration_is_specialised_as_pinned() -> None:
    config = Config({"enable_warp_specialization": True}, **ANNOUNCED)
    options = PlanOptions.from_mapping(config.kwargs)
    case = find("persistent_announced")
    made = front(case.kernel, signature(case), num_warps=config.num_warps, num_stages=config.num_stages)
    found = specialise(made.job(case.name), Request(options))
    assert isinstance(found, Specialised), found.remarks
    plan = found.outcome.plan
    assert plan is not None
    assert sum(part.role == "consumer" for part in plan.partitions) == 2
    assert {ring.depth for ring in plan.rings} == {3}
