"""The driver: which forms of a kernel are laid out, and which launches are offered a persistent one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.data import Specialised, Worksheet
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.added_arguments import launch_spec, launched_by_us
from tawa.bridge.triton.generic_print import parse_module
from tawa.pipeline import Outcome, plan_only
from tawa.plan import PlanOptions
from tests.cases.attention.cases import bench_case
from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.pointers.builders import gemm_case
from tests.cases.pointers.cases import find as find_pointers
from tests.matrix.compiling import compile_case, signature
from tests.support.fronts import front

ATTENTION = bench_case("two_loops", "bf16", 256, False, 1024, tile=(128, 64, 8))
PINNED = PlanOptions(enable_warp_specialization=True)
PERSISTENT = PlanOptions(enable_warp_specialization=True, persistent=True)


def gemm(columns: int) -> Specimen:
    """With a K block of 128, two slots of 96 KB fit; beside the tile that a persistent kernel stages, one does."""
    sizes = {"M": 512, "N": 512, "K": 512}
    return gemm_case("shallow", tile=(128, 256, columns), warps=8, stages=2, sizes=sizes, GROUP_M=8)


def compiled(case: Specimen, options: PlanOptions) -> Any:
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
    reason = "shared memory allows D = 1 for a ring that has D = 2 with one tile per program"
    assert f"no persistent form for launches of more programs than SMs: {reason}" in notes(written)


def test_a_persistent_form_that_automatic_mode_declines_is_not_offered() -> None:
    written, persistent = compiled(gemm(128), PINNED), compiled(gemm(128), PERSISTENT)
    assert (depths(written), depths(persistent)) == ([2], [1])
    assert not launch_spec(written).offered
    assert written.metadata.tawa["plan"]["launches"]["many"] == "as_written"
    reason = next(it for it in notes(written) if it.startswith("no persistent form"))
    assert "its ring has one slot only" in reason


def test_a_persistent_form_with_rings_as_deep_is_offered() -> None:
    written = compiled(gemm(64), PINNED)
    assert launch_spec(written).offered and min(depths(written)) > 1
    assert written.metadata.tawa["plan"]["launches"]["many"] == "persistent"


def test_a_persistent_form_that_turns_out_shallower_than_planned_is_not_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Triton's allocator has the last word on D: the compiled form is compared, too."""
    monkeypatch.setattr("tawa.bridge.driver.driver.why_shallower", lambda *_: "")
    written = compiled(ATTENTION, PlanOptions())
    assert launch_spec(written).offered
    loaded: list[Any] = []
    monkeypatch.setattr(added_arguments, "_loaded", loaded.append)
    assert added_arguments._persistent(written, attached) is None and loaded == []


def test_the_persistent_form_is_planned_under_the_options_that_compile_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[PlanOptions] = []

    def seen(ttgir: str, options: PlanOptions, *rest: Any) -> Any:
        planned.append(options)
        return plan_only(ttgir, options, *rest)

    monkeypatch.setattr("tawa.bridge.driver.driver.plan_only", seen)
    written = compiled(gemm(64), PINNED)
    compiles = added_arguments.options_of_persistent(PlanOptions(**written.metadata.tawa["launch"]["options"]))
    assert planned == [compiles] and compiles.persistent and not compiles.pinned


# -- forms -------------------------------------------------------------------------------------------------------------


def fronts(case: Specimen, options: PlanOptions) -> tuple[Specialised | Outcome, list[bool], list[int]]:
    """What becomes of a kernel; whether Triton's front half was given it as it was, and with how many warps."""
    made = front(case.kernel, signature(case), num_warps=case.num_warps, num_stages=case.num_stages)
    texts, warps = list[str](), list[int]()

    def stage(mod: Any, metadata: dict[str, Any], given: Any, capability: int) -> Any:
        texts.append(mod.str())
        warps.append(given.num_warps)
        return made.tools.split.front(mod, metadata, given, capability)

    tools = replace(made.tools, split=replace(made.tools.split, front=stage))
    found = specialise(tools, made.source(case.name), Request(options), Worksheet())
    own = parse_module(made.ttir, made.context).str()
    return found, [text == own for text in texts], warps


def test_a_kernel_that_nothing_changes_is_laid_out_as_it_was() -> None:
    """Byte by byte: no jumps, no TMA in place of pointers."""
    found, same, warps = fronts(find_pointers("clamped"), PlanOptions(pointer_loads="cp.async", only_if_faster=False))
    assert isinstance(found, Specialised)
    assert same == [True] and warps == [4]
    found, same, _ = fronts(find_pointers("return_in_branch"), PlanOptions(only_if_faster=False))
    assert isinstance(found, Specialised) and same == [False]


def test_only_forms_that_are_tried_are_laid_out() -> None:
    found, _, warps = fronts(find_attention("two_loops_fp16_d128_full"), PlanOptions(num_consumer_groups=2))
    assert isinstance(found, Specialised) and warps == [4]
