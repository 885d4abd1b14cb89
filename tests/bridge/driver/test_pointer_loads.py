"""``pointer_loads="tma"``: TMA loads every tile of an operand, or the kernel is declined with the cure."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.errors import UnsupportedKernel
from tawa.flow import Outcome
from tawa.plan import OperandPlan, Plan, PlanOptions
from tests.cases.pointers.cases import find
from tests.matrix.compiling import attempted, signature

GATHERED, BOXES = "experts", "tutorial_fp16_tn"
"""In the first kernel, rows of one operand are gathered; in the second, all tiles are boxes."""
LEGAL = PlanOptions(only_if_faster=False, pointer_loads="tma")


def test_a_kernel_whose_tiles_are_boxes_gets_tma_for_all_of_them() -> None:
    with launched_by_us(function=find(BOXES).kernel):
        found, _ = attempted(find(BOXES), LEGAL)
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    assert {it.path for it in found.outcome.plan.operands if it.path is not None} == {"promoted"}


def test_a_kernel_with_a_gathered_tile_is_declined_with_the_reason_and_the_cure() -> None:
    found, _ = attempted(find(GATHERED), LEGAL)
    assert isinstance(found, Outcome) and found.plan is None
    remark = found.remarks[0]
    assert remark.kind == "declined" and remark.location is not None
    assert remark.reason.startswith("pointer_loads='tma': TMA cannot make a load: ")
    assert "leave pointer_loads out" in remark.cure


def test_a_pinned_kernel_with_a_gathered_tile_is_an_error() -> None:
    case = find(GATHERED)
    request = Request(PlanOptions(enable_warp_specialization=True, pointer_loads="tma"))
    with pytest.raises(UnsupportedKernel, match=r"TMA cannot make a load: .*\n(.|\n)*cure: (.|\n)*pointer_loads"):
        compile_kernel(case.kernel, signature(case), request, **case.options())


def test_a_tile_that_the_plan_leaves_to_pointers_is_no_obstacle() -> None:
    found, _ = attempted(find(GATHERED), PlanOptions(only_if_faster=False))
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    kept = [it for it in found.outcome.plan.operands if it.path in ("cp.async", "registers")]
    assert kept
    pins = Plan(operands=tuple(OperandPlan(*it.key, path="pointers") for it in kept))
    again, _ = attempted(find(GATHERED), LEGAL, pins)
    assert isinstance(again, Specialised)
