"""The driver: which forms of a kernel are laid out, and which launches are offered a persistent one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.generic_print import parse_module
from tawa.flow import Outcome
from tawa.plan import PlanOptions
from tests.cases.attention.cases import bench_case
from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.builders import gemm_case
from tests.cases.pointers.cases import find as find_pointers
from tests.matrix.compiling import compile_case, signature
from tests.support.fronts import front

pytestmark = pytest.mark.usefixtures("without_ptx")

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


def forecast(compiled: Any) -> dict[str, Any] | None:
    return (compiled.metadata.tawa.get("launch") or {}).get("forecast")


def test_launches_choose_among_all_forms_of_a_kernel_that_nobody_pinned() -> None:
    about = forecast(compiled(ATTENTION, PlanOptions()))
    assert about is not None and about["stock"]
    others = [(it["groups"], it["form"]) for it in about["forms"]]
    own = about["own"]["groups"], about["own"]["form"]
    assert sorted([*others, own]) == [
        (1, "as_written"), (1, "persistent"), (2, "as_written"), (2, "persistent"),
    ]  # fmt: skip


def test_launches_of_a_kernel_that_was_asked_for_choose_the_order_of_its_tiles_only() -> None:
    about = forecast(compiled(gemm(64), PINNED))
    assert about is not None and not about["stock"]
    assert about["forms"] == [{**about["own"], "form": "persistent"}]


@pytest.mark.parametrize("options", [PERSISTENT, replace(PINNED, persistent=False)], ids=["persistent", "as written"])
def test_nothing_is_chosen_where_the_form_was_asked_for(options: PlanOptions) -> None:
    written = compiled(gemm(64), options)
    assert written.metadata.tawa["applied"] and forecast(written) is None
    assert written.metadata.tawa["plan"]["launches"]["choice"] == "always"


def test_launches_of_a_kernel_that_is_left_to_stock_may_still_gain() -> None:
    left = compiled(find_gemm("tile_bk32"), PlanOptions())
    assert not left.metadata.tawa["applied"]
    about = forecast(left)
    assert about is not None and about["own"] is None and about["forms"]


# -- forms -------------------------------------------------------------------------------------------------------------


def fronts(case: Specimen, options: PlanOptions) -> tuple[Specialised | Outcome, list[bool], list[int]]:
    """What becomes of a kernel; whether Triton's front half was given it as it was, and with how many warps."""
    made = front(case.kernel, signature(case), num_warps=case.num_warps, num_stages=case.num_stages)
    texts, warps = list[str](), list[int]()

    def stage(mod: Any, metadata: dict[str, Any], given: Any, capability: int) -> Any:
        texts.append(mod.str())
        warps.append(given.num_warps)
        return made.stages.front(mod, metadata, given, capability)

    found = specialise(replace(made, stages=replace(made.stages, front=stage)).job(case.name), Request(options))
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
