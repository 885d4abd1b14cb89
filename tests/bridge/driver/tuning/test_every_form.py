"""The Plans worth a measurement: stock Triton, what automatic mode takes, and what differs from it."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.every_form import search_of
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.ir import Module, Value
from tawa.outside import read
from tawa.plan import LaunchPlan, OperandPlan, Plan, PlanOptions, RingPlan
from tawa.plan.search.candidate import Candidate
from tests.analysis.tile_programs import TileProgram

NOTHING = Request()
CHOSEN = Plan(
    form="as_written", groups=1, operands=(OperandPlan("a", 0, path="promoted"),), rings=(RingPlan("r0", depth=4),)
)


def kernel(tiles: bool = True, rows: int = 64) -> Module:
    program = TileProgram(a="!tt.ptr<f16>", x=f"tensor<{rows}x64xf16>", y="tensor<64x64xf16>", n="i32")

    def body(args: list[Value]) -> list[Value]:
        x = program.args["x"]
        if tiles:
            offsets = program.splat(program.args["a"], rows, 64)
            x = program.load(offsets)
        program.dot(x, program.args["y"])
        return []

    program.loop((program.number(0), program.args["n"], program.number(64)), [], body)
    return program.finish()


def words(
    request: Request = NOTHING,
    num_warps: int = 4,
    chosen: Plan | None = CHOSEN,
    tiles: bool = True,
    rows: int = 64,
) -> list[str]:
    with launched_by_us():
        return [it.words for it in measured(request, num_warps, chosen, kernel(tiles, rows))]


def measured(
    request: Request = NOTHING, num_warps: int = 8, chosen: Plan | None = CHOSEN, module: Module | None = None
) -> tuple[Candidate, ...]:
    search = search_of(module or kernel(), num_warps, 3, request)
    assert search is not None
    return search.measured(chosen)


def test_stock_triton_and_automatic_mode_come_first_then_the_best_of_each_form() -> None:
    first, second, *others = words()
    assert (first, second) == (
        "stock Triton",
        "as written, 1 group, TMA in place of pointers, D = 4, P = 0 (automatic)",
    )
    forms = [it.partition(", D =")[0] for it in others]
    different = list(dict.fromkeys(forms))
    assert forms[: len(different)] == different
    assert {"as written, 1 group, pointers", "persistent, 1 group, pointers"} <= set(different)


def test_the_plan_of_automatic_mode_is_complete_but_for_the_choice_of_launches() -> None:
    chosen = Plan(launches=LaunchPlan()).over(CHOSEN)
    assert measured(num_warps=4, chosen=chosen)[1].plan == CHOSEN


def test_eight_warps_can_be_two_groups_if_the_tile_has_their_rows() -> None:
    assert any("2 groups" in it for it in words(num_warps=8, rows=128))
    assert not any("2 groups" in it for it in words(num_warps=4, rows=128))
    assert not any("2 groups" in it for it in words(num_warps=8, rows=64))


def test_a_kernel_without_tiles_behind_pointers_has_one_path() -> None:
    assert not any("pointers" in it or "TMA" in it for it in words(tiles=False))


def test_a_pinned_kernel_is_never_stock_tritons() -> None:
    assert "stock Triton" not in words(Request(PlanOptions(enable_warp_specialization=True)))


@pytest.mark.parametrize(
    "request_", [Request(PlanOptions(persistent=False)), Request(plan=Plan(form="as_written"))], ids=["option", "plan"]
)
def test_what_the_user_decided_is_not_varied(request_: Request) -> None:
    found = measured(request_)
    assert found and all(it.plan.form in ("as_written", "stock") for it in found)


def test_a_kernel_that_automatic_mode_leaves_to_triton_has_plans_too() -> None:
    found = words(chosen=None)
    assert found[0] == "stock Triton" and len(found) > 3 and not any("automatic" in it for it in found)


def test_a_ranked_plan_survives_json() -> None:
    for it in measured():
        assert read(Candidate, it.to_dict()) == it
