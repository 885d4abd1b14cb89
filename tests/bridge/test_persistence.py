"""Whether launches of more programs than SMs are offered a persistent form."""

from __future__ import annotations

from typing import Any

import pytest

from tawa import pipeline
from tawa.bridge import added_arguments
from tawa.bridge.added_arguments import launch_spec, launched_by_us
from tawa.bridge.attach import attached
from tawa.kernels.attention.cases import bench_case
from tawa.kernels.case import Case
from tawa.kernels.pointers.builders import gemm_case
from tawa.plan import PlanOptions
from tests.matrix.compiling import compile_case

ATTENTION = bench_case("two_loops", "bf16", 256, False, 1024, tile=(128, 64, 8))
PINNED = PlanOptions(enable_warp_specialization=True)
PERSISTENT = PlanOptions(enable_warp_specialization=True, persistent=True)


def gemm(columns: int) -> Case:
    """With a K block of 128, two slots of 96 KB fit; beside the tile that a persistent kernel stages, one does."""
    sizes = {"M": 512, "N": 512, "K": 512}
    return gemm_case("shallow", tile=(128, 256, columns), warps=8, stages=2, sizes=sizes, GROUP_M=8)


def compiled(case: Case, options: PlanOptions) -> Any:
    """As a launch compiles it."""
    with attached(), launched_by_us():
        return compile_case(case, options)


def depths(compiled: Any) -> list[int]:
    return [ring["depth"] for ring in compiled.metadata.tawa["plan"]["rings"]]


def notes(compiled: Any) -> list[str]:
    return [remark["reason"] for remark in compiled.metadata.tawa["remarks"]]


def test_a_persistent_form_with_one_slot_is_not_offered_in_place_of_two() -> None:
    """In attention of 256 columns, a slot for the next tile of Q takes the second slot of K and V."""
    written = compiled(ATTENTION, PlanOptions())
    assert depths(written) == [2, 2] and not launch_spec(written).offered
    reason = "its tiles leave a ring D = 1, where the form with one tile a program has D = 2"
    assert f"no persistent form for launches of more programs than SMs: {reason}" in notes(written)


def test_a_persistent_form_that_automatic_mode_declines_is_not_offered() -> None:
    written, persistent = compiled(gemm(128), PINNED), compiled(gemm(128), PERSISTENT)
    assert (depths(written), depths(persistent)) == ([2], [1])
    assert not launch_spec(written).offered
    reason = next(it for it in notes(written) if it.startswith("no persistent form"))
    assert "its ring has one slot only" in reason


def test_a_persistent_form_with_rings_as_deep_is_offered() -> None:
    written = compiled(gemm(64), PINNED)
    assert launch_spec(written).offered and min(depths(written)) > 1


def test_a_persistent_form_that_turns_out_shallower_than_planned_is_not_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Triton's allocator has the last word on D: the compiled form is compared, too."""
    monkeypatch.setattr("tawa.bridge.persistence.why_shallower", lambda *_: "")
    written = compiled(ATTENTION, PlanOptions())
    assert launch_spec(written).offered
    loaded: list[Any] = []
    monkeypatch.setattr(added_arguments, "_loaded", loaded.append)
    assert added_arguments._persistent(written, attached) is None and loaded == []


def test_the_persistent_form_is_planned_under_the_options_that_compile_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[PlanOptions] = []
    plan_only = pipeline.plan_only

    def seen(ttgir: str, options: PlanOptions, target: pipeline.Target) -> Any:
        planned.append(options)
        return plan_only(ttgir, options, target)

    monkeypatch.setattr(pipeline, "plan_only", seen)
    written = compiled(gemm(64), PINNED)
    compiles = added_arguments.options_of_persistent(PlanOptions(**written.metadata.tawa["launch"]["options"]))
    assert planned == [compiles] and compiles.persistent and not compiles.pinned
