"""Who transposes a tile, and in which order of the summed dimension: what a Plan may ask for, and what is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.analysis.names import name_module
from tawa.analysis.rings.loads import DotLoadInfo, find_dot_loads
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.errors import PlanError
from tawa.ir import Builder, Module
from tawa.plan import OperandPlan, Plan, PlanOptions
from tawa.plan.decide.transposed import transposed_entry, transposed_loads
from tests.cases.programs import transposed
from tests.cases.programs import ttgir as programs


def program(text: str) -> tuple[Module, list[DotLoadInfo]]:
    module = programs.parse(text)
    name_module(module)
    return module, find_dot_loads(module)


def decided(text: str, entry: OperandPlan, groups: int = 1, **options: Any) -> list[OperandPlan]:
    """The entries of A and B."""
    module, loads = program(text)
    found = transposed_loads(module, loads, Plan(operands=(entry,)), PlanOptions(**options), groups)
    return [transposed_entry(module, info) for info in found]


def fields(entries: list[OperandPlan]) -> list[tuple[str | None, bool | None]]:
    return [(it.transposed, it.reordered) for it in entries]


ALL = OperandPlan(transposed="converter")


def test_without_a_plan_the_consumers_transpose_a_tile() -> None:
    assert fields(decided(transposed.gemm(), OperandPlan())) == [(None, None), ("registers", None)]


def test_an_entry_for_all_loads_concerns_those_that_can_be_transposed() -> None:
    assert fields(decided(transposed.gemm(), ALL)) == [(None, None), ("converter", False)]
    assert fields(decided(programs.tile_gemm(), ALL)) == [(None, None)] * 2


def test_a_transposed_load_replaces_its_allocations_behind_the_converter() -> None:
    module, loads = program(transposed.gemm())
    found = transposed_loads(module, loads, Plan(operands=(ALL,)), PlanOptions(), 1)
    assert found[1].allocations == () and len(found[1].replaced) == 1 and found[0] == loads[0]


@pytest.mark.parametrize(
    ("asked", "precision", "reordered"),
    [
        (None, "exact", False),
        (None, None, False),
        (None, "relaxed", True),
        (True, None, True),
        (False, "relaxed", False),
    ],
)
def test_sums_of_floats_keep_their_order_unless_another_is_allowed(
    asked: bool | None, precision: Any, reordered: bool
) -> None:
    entry = replace(ALL, reordered=asked)
    assert fields(decided(transposed.gemm(chained=True), entry, precision=precision))[-1] == ("converter", reordered)


def test_sums_of_integers_may_have_any_order() -> None:
    text = transposed.gemm(chained=True).replace("f8E4M3FN", "i8")
    assert fields(decided(text, ALL, precision="exact"))[-1] == ("converter", True)


REFUSED: list[tuple[OperandPlan, str]] = [
    (
        OperandPlan("a_desc", 0, transposed="converter"),
        "its dots read it as it is stored; cure: transposed='registers'",
    ),
    (OperandPlan("b_desc", 0, reordered=True), "only a converter does that; cure: transposed='converter'"),
    (OperandPlan("b_desc", 0, transposed="converter", reordered=True), "of another dot; cure: reordered=false"),
]


@pytest.mark.parametrize(("entry", "text"), REFUSED)
def test_what_cannot_be_is_refused_with_the_cure(entry: OperandPlan, text: str) -> None:
    with pytest.raises(PlanError, match=rf"{entry.argument}.*{text}"):
        decided(transposed.gemm(), entry)


def test_a_tile_of_one_consumer_group_has_no_converter() -> None:
    module, loads = program(transposed.gemm())
    load = loads[1].load.op
    load.set_operand(2, GroupIndexOp.create(Builder.before(load), 2))
    with pytest.raises(
        PlanError, match=r"b_desc.*each consumer group has a tile of its own; cure: transposed='registers'"
    ):
        transposed_loads(module, loads, Plan(operands=(ALL,)), PlanOptions(), 2)


def test_programs_that_share_a_cta_have_no_converter() -> None:
    module, loads = program(transposed.gemm())
    plan = Plan(operands=(ALL,), groups=2, split="programs")
    with pytest.raises(PlanError, match=r"splits the grid.*; cure: transposed='registers'"):
        transposed_loads(module, loads, plan, PlanOptions(), 2)
