"""Kernels whose programs share tiles: proved, deterministic, and right for any order of programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.launch.forecasts import Forecasts, forecasts_of
from tawa.bridge.triton.read_module import read_levels
from tawa.errors import PlanError
from tawa.plan import Plan, PlanOptions
from tests.cases.arrays import floats_of, make_arrays, simulate_case
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.cases import find as find_pointers
from tests.cases.simulated import simulated, unspecialised
from tests.matrix.compiling import report, signature
from tests.matrix.test_dynamic_tiles import compiled
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes


def small(case: Specimen, **sizes: int) -> Specimen:
    """The case with tiles of 64 rows and few of them."""
    tile = {"BM": 64, "BN": 128, "BK": 64}
    return replace(case, constexprs={**case.constexprs, **tile}, num_warps=4).with_sizes(**sizes)


FEW = {"M": 100, "N": 200, "K": 7 * 64 - 24}
CASES: dict[str, tuple[Specimen, int]] = {
    "descriptors, two axes": (small(find_gemm("plus_equals"), **FEW), 3),
    "descriptors, one axis": (small(find_gemm("tile_fp16_nn"), **FEW), 2),
    "more shares than trips": (small(find_gemm("tile_fp16_nn"), **{**FEW, "K": 100}), 4),
    "no trips": (small(find_gemm("tile_fp16_nn"), **{**FEW, "K": 0}), 2),
    "through pointers": (find_pointers("tutorial_fp16_nn").with_sizes(M=208, N=256, K=328), 3),
}


@simulated_once
@pytest.mark.parametrize("name", sample(CASES, 4))
def test_it_is_proved_and_any_order_of_programs_gives_the_same_bits(name: str) -> None:
    case, shares = CASES[name]
    made = compiled(case, Plan(split_k=shares), precision="relaxed")
    assert passes(made.metadata.tawa["verdict"])
    spec = launch_spec(made)
    assert spec.shared is not None and spec.shared.shares == shares
    assert Plan.of(made.metadata.tawa["plan"]).split_k == shares
    assert report(made).ptxas.spill_bytes == 0
    found: set[bytes] = set()
    for seed, order in enumerate(("eager", "late", "random", "random")):
        arrays = make_arrays(case)
        simulate_case(case, read_levels(made)[1], arrays, order, seed, None, spec, together=seed > 1)
        found.add(arrays["c"].tobytes())
        k = case.size("K")
        exact = arrays["a"][:, :k].astype(np.float64) @ arrays["b"][:k].astype(np.float64)
        allowed = 2.0**-10 * max(1.0, np.abs(exact).max())  # a rounding to fp16 of the largest, twice over
        assert np.isfinite(arrays["c"].astype(np.float64)).all()
        assert np.abs(arrays["c"].astype(np.float64) - exact).max() <= allowed
    assert len(found) == 1


def test_its_barriers_are_those_of_the_consumer_and_its_arrival_releases_and_acquires() -> None:
    case, shares = CASES["descriptors, two axes"]
    ptx = compiled(case, Plan(split_k=shares), precision="relaxed").asm["ptx"]
    lines = [line.strip() for line in ptx.splitlines()]
    (arrival,) = [at for at, line in enumerate(lines) if "atom.global.gpu.acq_rel.add" in line]
    before = [line for line in lines[:arrival] if line.startswith(("bar.sync", "st.global", "barrier.sync"))]
    # Triton 3.9 writes the barrier twice.
    while before[-1].split() == ["bar.sync", "0,", "128;"] == before[-2].split():
        before.pop()
    assert before[-1].split() == ["bar.sync", "0,", "128;"] and before[-2].startswith("st.global")


PLANS: dict[str, tuple[str, Plan, str]] = {
    "persistent": ("plus_equals", Plan(split_k=2, form="persistent"), "neither persistent"),
    "rows split": ("tile_8warps_nn", Plan(split_k=2, groups=2), "rows are not split|atomic"),
    "two loops over tiles": ("persistent", Plan(split_k=2), "programs cannot share"),
}


@pytest.mark.parametrize("name", list(PLANS))
def test_a_plan_that_cannot_be_carried_out_says_why(name: str) -> None:
    case, plan, reason = PLANS[name]
    with pytest.raises(PlanError, match=reason):
        compiled(find_gemm(case), plan)


@pytest.mark.usefixtures("without_ptx")
def test_a_whole_plan_that_is_passed_back_gives_the_same_kernel() -> None:
    case, shares = CASES["descriptors, one axis"]
    made = compiled(case, Plan(split_k=shares))
    again = compiled(case, Plan.of(made.metadata.tawa["plan"]))
    assert again.asm["barrier"] == made.asm["barrier"]


def forecasts(**options: Any) -> Forecasts | None:
    """What is predicted for the launches of a kernel in automatic mode."""
    case = small(find_gemm("plus_equals"))
    with launched_by_us():
        made = compile_kernel(case.kernel, signature(case), Request(PlanOptions(**options)), num_warps=4, num_stages=3)
    return forecasts_of(made, 132)


def chosen(found: Forecasts, grid: tuple[int, int, int], k: int) -> int:
    """The programs of a tile that a launch gets."""
    forecast = found.choose([k] * 40, grid)
    assert forecast is not None
    return (forecast.plan.split_k if forecast.plan is not None else None) or 1


@pytest.mark.usefixtures("without_ptx")
def test_launches_that_leave_sms_idle_share_tiles_if_sums_may_round_otherwise() -> None:
    relaxed = forecasts(precision="relaxed")
    assert relaxed is not None
    assert chosen(relaxed, (1, 32, 1), 4096) == 4  # 128 of 132 SMs
    assert chosen(relaxed, (1, 16, 1), 8192) == 8
    assert chosen(relaxed, (1, 32, 1), 128) == 1  # the loop is too short
    assert chosen(relaxed, (64, 32, 1), 4096) == 1  # every SM has tiles
    for options in ({}, {"precision": "exact"}):
        exact = forecasts(**options)
        assert exact is None or chosen(exact, (1, 32, 1), 4096) == 1


@pytest.mark.usefixtures("without_ptx")
def test_a_kernel_whose_loop_cannot_be_shared_has_no_such_form() -> None:
    case = find_gemm("persistent")
    with launched_by_us():
        request = Request(PlanOptions(precision="relaxed", only_if_faster=False))
        made = compile_kernel(case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=3)
    found = forecasts_of(made, 132)
    assert found is None or not any(it.get("split_k", 1) > 1 for it in found.about["forms"])


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("name", sample(["in_loop_scale", "gate_up", "epilogue_all", "epilogue_fp32_store"], 4))
def test_terms_may_be_scaled_sums_may_be_several_and_the_epilogue_may_be_anything(name: str) -> None:
    case = find_gemm(name)
    made = compiled(case, Plan(split_k=2), precision="relaxed")
    assert passes(made.metadata.tawa["verdict"])
    arrays, wanted = make_arrays(case), simulated(case, unspecialised(case, made))
    simulate_case(case, read_levels(made)[1], arrays, "late", 1, None, launch_spec(made), together=True)
    for key in wanted:
        found, exact = (floats_of(case, it)[key] for it in (arrays, wanted))
        largest = np.abs(exact).max()
        assert np.abs(found - exact).max() <= 2.0**-8 * largest  # two roundings to 16 bits, and some cancellation
