"""The decisions about a kernel as Triton wrote it: unit strides, accesses that TMA makes, and launches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.names import name_module
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import OperandPlan, Plan, PlanOptions, StorePlan
from tawa.plan.decide.paths import (
    TOO_DEAR,
    Launching,
    Promotion,
    choose_promotions,
    choose_unit_strides,
)
from tawa.plan.fields import Path
from tests.analysis.tma.test_unit_strides import ALL, product
from tests.transforms.ttir.test_promote_to_tma import gemm, with_store

OURS = Launching(ours=True)
ELSEWHERE = Launching()


def named(module: Module) -> Module:
    name_module(module)
    return module


def chosen(pins: Plan | None = None, launching: Launching = OURS, module: Module | None = None) -> Promotion:
    found = choose_promotions(named(module or gemm()), PlanOptions(), launching, pins or Plan())
    assert isinstance(found, Promotion), found
    return found


def paths(promotion: Promotion) -> dict[str | None, Path | None]:
    return {it.argument: it.path for it in promotion.plan.operands}


def load(argument: str, path: Path) -> Plan:
    return Plan(operands=(OperandPlan(argument, 0, path=path),))


def test_the_launcher_makes_descriptors_where_the_launch_is_triton_s() -> None:
    assert paths(chosen()) == {"a": "promoted", "b": "promoted"}


def test_elsewhere_loads_of_one_tile_stay_with_pointers_unless_the_plan_names_one() -> None:
    refused = choose_promotions(named(gemm()), PlanOptions(), ELSEWHERE, Plan())
    assert not isinstance(refused, Promotion) and refused.reason == TOO_DEAR
    assert paths(chosen(load("a", "promoted_in_kernel"), ELSEWHERE)) == {
        "a": "promoted_in_kernel",
        "b": "promoted_in_kernel",
    }


def test_a_plan_may_leave_one_load_with_pointers() -> None:
    found = chosen(load("b", "pointers"))
    assert paths(found) == {"a": "promoted"} and len(found.loads) == 1


def test_stores_are_promoted_beside_a_load_only() -> None:
    persistent = Plan(form="persistent")
    assert [it.path for it in chosen(persistent, module=with_store()).plan.stores] == ["promoted"]
    alone = replace(persistent, operands=(OperandPlan(path="pointers"),))
    assert chosen(alone, module=with_store()).plan.stores == ()


@pytest.mark.parametrize(
    ("pins", "launching", "words"),
    [
        (
            load("a", "promoted"),
            ELSEWHERE,
            r"operand a, loop 0 .*by TMA \(promoted\): this compile is not for a launch by",
        ),
        (
            Plan(stores=(StorePlan("c", path="promoted"),)),
            OURS,
            r"the Plan makes store c, outside of loops.* by TMA \(promoted\): .*; cure: path='pointers'",
        ),
    ],
)
def test_a_path_that_cannot_be_is_refused(pins: Plan, launching: Launching, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        chosen(pins, launching)


def test_strides_are_taken_to_be_one_unless_the_plan_leaves_them() -> None:
    launching = Launching(True, ALL)
    assert [it.name for it in choose_unit_strides(product(), launching, Plan())] == ["sk", "sc"]
    assert [it.name for it in choose_unit_strides(product(), launching, Plan(unit_strides=("sk",)))] == ["sk"]
    assert choose_unit_strides(product(), launching, Plan(unit_strides=())) == ()
    with pytest.raises(PlanError, match="assumes sm to be 1; the kernel allows that for these strides: sk, sc; cure"):
        choose_unit_strides(product(), launching, Plan(unit_strides=("sm",)))
