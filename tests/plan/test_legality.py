"""Whether what a Plan pins is there in the kernel: rings, names of loads, stores and loops, and what was made of it."""

from __future__ import annotations

import pytest

from tawa.analysis.names import name_module
from tawa.analysis.rings.channels import find_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import LaunchPlan, LoopPlan, OperandPlan, Plan, RingPlan, StorePlan
from tawa.plan.legality import check_met, check_names, check_rings, check_stores, operand_text
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import TILE_BYTES

LOADS = (("a_desc", 0, 0), ("b_desc", 0, 0))
STORES = (("c_desc", None, 0),)


def gemm() -> Module:
    module = programs.parse(programs.tile_gemm())
    name_module(module)
    return module


def rings(**pinned: object) -> None:
    """Checks a ring of such fields against the one of a GEMM."""
    module = gemm()
    ring = RingPlan("ring0", **pinned)  # type: ignore[arg-type]
    check_rings(Plan(rings=(ring,)), find_channels(find_dot_loads(module)), module)


def test_an_operand_is_told_by_argument_loop_and_line() -> None:
    module = gemm()
    assert [operand_text(module, info) for info in find_dot_loads(module)] == [
        "a_desc, loop 0 (kernel.py:10)", "b_desc, loop 0 (kernel.py:11)",
    ]  # fmt: skip


def test_a_ring_that_is_as_the_kernel_has_it_may_be_pinned() -> None:
    rings(depth=1, fill="tma", slot_bytes=2 * TILE_BYTES)


@pytest.mark.parametrize(
    ("pinned", "words"),
    [
        ({"depth": 0}, r"D = 0 in ring0: a_desc, loop 0 \(kernel.py:10\); .*cure: D of at least 1"),
        ({"fill": "cp.async"}, "fills ring0 by cp.async, but the kernel's loads use tma: .*cure: fill='tma'"),
        ({"slot_bytes": 99}, f"slots of 99 bytes in ring0, .*cure: slot_bytes={2 * TILE_BYTES}"),
        ({"payload": ("i32",)}, r"the Plan has rings \{'ring0': \('i32',\)\}.*cure: start from"),
    ],
)
def test_a_ring_that_the_kernel_does_not_have_is_refused(pinned: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        rings(**pinned)


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        (Plan(operands=(OperandPlan("q", 0),)), "a load that the kernel does not have: q, loop 0; cure: one of a_desc"),
        (Plan(operands=(OperandPlan("a_desc", 0, 1),)), "does not have: a_desc, loop 0, number 1"),
        (Plan(stores=(StorePlan("c_desc", 0),)), "a store that .*: c_desc, loop 0; cure: one of c_desc, outside of"),
        (Plan(loops=(LoopPlan(1),)), r"names loop 1; the kernel has loops with dots \[0\]"),
    ],
)
def test_a_name_of_nothing_is_refused(pins: Plan, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        check_names(pins, LOADS, STORES, (0,))


def test_names_of_what_is_there_and_entries_for_all_are_taken() -> None:
    loads = (OperandPlan(*LOADS[0]), OperandPlan(path="consumer"))
    check_names(
        Plan(operands=loads, stores=(StorePlan(*STORES[0]),), loops=(LoopPlan(), LoopPlan(0))), LOADS, STORES, (0,)
    )


def test_p_that_was_pinned_and_not_reached_is_refused() -> None:
    made = Plan(loops=(LoopPlan(0, 0, line="kernel.py:9"),))
    check_met(made, Plan(loops=(LoopPlan(0, 0),)))
    with pytest.raises(PlanError, match=r"P = 1 in loop 0 \(kernel.py:9\), but no wgmma .*cure: mma_depth=0"):
        check_met(made, Plan(loops=(LoopPlan(0, 1),)))


def test_launches_that_were_pinned_are_those_of_the_kernel_where_triton_launches_it() -> None:
    made, asked = (Plan(launches=LaunchPlan(choice=it)) for it in ("always", "predicted"))
    check_met(made, made)
    check_met(made, asked, launched=False)
    with pytest.raises(PlanError, match=r"choice='predicted' in launches: .*cure: choice='always'"):
        check_met(made, asked)


@pytest.mark.parametrize(
    ("store", "waits", "words"),
    [
        (StorePlan("c", staged=True), True, "staged stores .* may not be deferred.* cure: staged=false"),
        (StorePlan("c", staged=False, slices=4), False, "in 4 slices, but it is not staged; cure: slices=1"),
        (StorePlan("c", staged=True, slices=2, buffers=3), False, "3 buffers for 2 slices of c.*; cure: buffers=2"),
    ],
)
def test_a_store_that_cannot_be_made_so_is_refused(store: StorePlan, waits: bool, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        check_stores([store], waits)
