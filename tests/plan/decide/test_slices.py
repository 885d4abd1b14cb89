"""`slices`: stores that are staged in slices so that the rings keep their slots."""

from __future__ import annotations

import pytest

from tawa.analysis.rings.channels import find_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.ir import Module
from tawa.plan import Plan, StorePlan
from tawa.plan.decide import slices
from tawa.plan.decide.slices import sliced
from tests.cases.programs.ttgir import gemm_loop, kernel, parse, store


def gemm() -> Module:
    """A GEMM whose tile of 16 bits is stored by TMA."""
    return parse(kernel("\n".join((gemm_loop(), store()))))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    """A GEMM that stores by TMA; its tile counts as one of wide elements that any slices fit."""
    monkeypatch.setattr(slices, "_WIDE_BITS", 16)
    monkeypatch.setattr(slices, "why_no_slices", lambda store, count: "")
    return gemm()


def of(module: Module, plan: Plan, depths: dict[int | None, int]) -> list[int | None]:
    """The slices that are decided, where D of the rings follows from the slices."""
    channels = tuple(find_channels(find_dot_loads(module)))

    def deepest(plan: Plan) -> int:
        return depths[next((it.slices for it in plan.stores), None)]

    return [it.slices for it in sliced(module, plan, channels, deepest).stores]


def test_the_fewest_slices_that_leave_three_slots_are_taken(module: Module) -> None:
    assert of(module, Plan(), {None: 2, 2: 3, 4: 4}) == [2]
    assert of(module, Plan(), {None: 1, 2: 2, 4: 3}) == [4]


def test_a_tile_that_leaves_enough_or_that_slices_do_not_help_is_stored_whole(module: Module) -> None:
    assert of(module, Plan(), {None: 3}) == []
    assert of(module, Plan(), {None: 1, 2: 1, 4: 2}) == []


def test_what_a_plan_says_of_a_store_is_kept(module: Module) -> None:
    for pinned in (StorePlan(slices=1), StorePlan(buffers=1), StorePlan(staged=False)):
        plan = Plan(stores=(pinned,))
        assert of(module, plan, {1: 1, None: 1}) == [pinned.slices]


def test_narrow_elements_are_stored_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "why_no_slices", lambda store, count: "")
    assert of(gemm(), Plan(), {None: 1, 2: 3}) == []
