"""Timelines of an explanation: what is guessed, what is assumed, and what is missing."""

from __future__ import annotations

import json
from functools import cache
from math import prod
from typing import Any

import pytest

import tawa
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.errors import CompileError
from tawa.runtime.explain.explaining import compile_with_options, explain_compiled
from tawa.runtime.explain.timelines import USUAL_SIZE, SimulatedLaunch, timelines_of
from tawa.sim.time.timeline import TENSOR_CORES
from tests.bridge import kernels
from tests.cases.pointers.gemm import gemm_masked

pytestmark = pytest.mark.usefixtures("without_ptx")

TILE = "tensordesc<fp16[64,64]>"
TEXT = f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, K=i32:16"
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
POINTERS = (
    "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32:16, N=i32:16, K=i32:16, stride_am=i32:16, stride_ak=1, "
    "stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
)


@cache
def compiled(**options: Any) -> Any:
    wanted = options if "plan" in options else {"only_if_faster": False, **options}
    with launched_by_us(function=kernels.gemm_descriptors):
        return compile_with_options(kernels.gemm_descriptors, TEXT, BLOCKS, **wanted)


def test_stock_triton_that_is_refused_is_left_out_with_the_reason() -> None:
    def refused() -> Any:
        raise CompileError("out of resource: shared memory")

    panels, note = timelines_of(compiled(), SimulatedLaunch({"K": 256}, grid=(2, 2), stock=refused))
    assert [title for title, _ in panels] == ["Tawa"]
    assert note.endswith(
        "the timeline lacks stock Triton, which does not compile the kernel: out of resource: shared memory"
    )


def test_numbers_that_are_known_are_not_guessed() -> None:
    panels, note = timelines_of(compiled(), SimulatedLaunch({"K": 256}, grid=(2, 2)))
    assert note == "guessed: 2048 for each size and number that is not given (a_desc, b_desc, c_desc)"
    for _, timeline in panels:
        assert len([it for it in timeline.of(TENSOR_CORES) if it.kind == "wgmma"]) == 256 // 64


def test_beside_a_persistent_program_stand_as_many_programs_of_stock_triton() -> None:
    panels, _ = timelines_of(compiled(persistent=True), SimulatedLaunch({"K": 256}, grid=(132, 2)))
    assert [title for title, _ in panels] == ["stock Triton, 2 programs in a row", "Tawa, persistent, 2 tiles"]
    dots = [len([it for it in timeline.of(TENSOR_CORES) if it.kind == "wgmma"]) for _, timeline in panels]
    assert dots == [2 * 256 // 64] * 2
    one, _ = timelines_of(compiled(persistent=True), SimulatedLaunch({"K": 256}, grid=(1, 1)))
    assert [title for title, _ in one] == ["stock Triton", "Tawa"]
    assert panels[0][1].cycles == 2 * one[0][1].cycles and panels[1][1].cycles < 2 * one[1][1].cycles


@pytest.mark.parametrize("grid", [(10_000, 10_000), (1, 1_000_000), (500, 500, 1)])
def test_of_a_large_grid_a_persistent_program_gets_few_tiles(grid: tuple[int, ...]) -> None:
    panels, note = timelines_of(compiled(persistent=True), SimulatedLaunch({"K": 64}, grid=grid))
    dots = [len([it for it in timeline.of(TENSOR_CORES) if it.kind == "wgmma"]) for _, timeline in panels]
    assert 0 < dots[0] == dots[1] <= 4
    assert f"not {prod(grid)}" in note


def test_a_program_that_takes_tiles_from_a_counter_gets_its_share() -> None:
    plan = {"version": 7, "form": "persistent", "tiles": "dynamic"}
    panels, _ = timelines_of(compiled(plan=json.dumps(plan)), SimulatedLaunch({"K": 256}, grid=(132, 3)))
    dots = [len([it for it in timeline.of(TENSOR_CORES) if it.kind == "wgmma"]) for _, timeline in panels]
    assert dots == [3 * 256 // 64] * 2


def test_stock_triton_without_a_fence_has_a_timeline_that_says_what_it_assumes() -> None:
    blocks = {"BM": 128, "BN": 128, "BK": 64, "GROUP_M": 8}
    seen = tawa.explain(gemm_masked, POINTERS, blocks, num_warps=8, timeline=True, only_if_faster=False)
    assert [title for title, _ in seen.timelines] == ["stock Triton", "Tawa"]
    assert seen.timeline_note.endswith(
        "stock Triton's timeline assumes that wgmma sees what cp.async wrote without a fence, as Triton does"
    )


def test_a_launch_that_violates_a_condition_has_no_timeline_but_the_reason() -> None:
    blocks = {"BM": 128, "BN": 128, "BK": 64, "GROUP_M": 8}
    sizes = {"M": 256, "N": 256, "K": 256, "stride_am": -256, "stride_bk": 256, "stride_cm": 256}
    with launched_by_us(function=gemm_masked):
        made = compile_with_options(gemm_masked, POINTERS, blocks, num_warps=8, only_if_faster=False)
    panels, note = timelines_of(made, SimulatedLaunch(sizes, grid=(4,)))
    assert panels == () and note.startswith("no timeline: the simulator cannot run the program") and "stride_am" in note


def test_a_declined_kernel_of_stock_triton_without_a_fence_has_a_timeline_too() -> None:
    """It is the only one: what stock Triton takes for granted of its own program holds for it as well."""
    blocks = {"BM": 128, "BN": 128, "BK": 64, "GROUP_M": 8}
    seen = tawa.explain(gemm_masked, POINTERS, blocks, num_warps=8, timeline=True, enable_warp_specialization=False)
    assert not seen.applied and [title for title, _ in seen.timelines] == ["stock Triton"]
    assert seen.timeline_note.endswith("assumes that wgmma sees what cp.async wrote without a fence, as Triton does")


def test_sizes_are_guessed_as_the_prediction_guesses_them() -> None:
    seen = explain_compiled(compiled(), simulated=SimulatedLaunch())
    assert (
        seen.timeline_note
        == "guessed: 2048 for each size and number that is not given (a_desc, b_desc, c_desc, K), 1056 programs"
    )
    assert "arguments of 2048, 1056 programs" in seen.candidates.predicted[0].times_us


@pytest.mark.parametrize("known", [{}, {"K": 4096}])
def test_tensors_are_guessed_as_large_as_the_largest_number(known: dict[str, int]) -> None:
    from tawa.bridge.triton.read_module import read_final

    arguments, guessed = SimulatedLaunch(known).arguments(read_final(compiled()), ["a_desc", "b_desc", "c_desc", "K"])
    assert arguments["a_desc"].array.shape == (known.get("K", USUAL_SIZE),) * 2
    assert ("K" in guessed) == (not known)
