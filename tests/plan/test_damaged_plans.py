"""Damaged Plans: each is read and carried out, or refused with what is wrong, where, and the cure."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings

from tawa.errors import PlanError, ResourceError
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.plan.schedule import Wanted
from tests.cases.programs import staged
from tests.support.damage import damaged_data, damaged_text, seeds
from tests.support.pipeline import specialise
from tests.support.sample import examples


@functools.cache
def whole(name: str) -> tuple[str, dict[str, Any]]:
    """A kernel, and the Plan that the planner makes for it."""
    text = staged.PROGRAMS[name]()
    made = specialise(text, PlanOptions(aref_depth=2), Target(4, 3))
    assert made.plan is not None
    return text, made.plan.to_dict()


@pytest.mark.parametrize("name", ["tile", "two_loops", "persistent", "branching"])
def test_a_damaged_plan_is_carried_out_or_refused_with_a_cure(name: str) -> None:
    text, data = whole(name)

    @settings(max_examples=examples(60))
    @given(seeds)
    def check(seed: int) -> None:
        try:
            plan = Plan.from_json(json.dumps(damaged_data(data, seed)))
            assert Plan.from_json(plan.to_json()) == plan
            specialise(text, PlanOptions(), Target(4, 3), plan)
        except (PlanError, ResourceError) as error:
            assert "cure: " in str(error)

    check()


@given(seeds)
def test_a_damaged_file_is_a_plan_or_is_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    file = tmp_path_factory.getbasetemp() / "plan.json"
    file.write_bytes(damaged_text(json.dumps(whole("tile")[1], indent=1), seed))
    try:
        Plan.of(file)
    except PlanError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"operands": [{"ring": [1]}]}, r"operands\[0\].ring is \[1\], not a text"),
        ({"operands": [{"argument": 3}]}, r"operands\[0\].argument is 3, not a text"),
        ({"stores": [{"line": 12}]}, r"stores\[0\].line is 12, not a text"),
        ({"partitions": [{"name": None, "role": "producer", "num_warps": 1}]}, r"partitions\[0\].name is None, not a"),
        ({"partitions": [{"name": "p"}]}, r"partitions\[0\].role is missing"),
        ({"rings": [{"name": {}, "depth": 2}]}, r"rings\[0\].name is \{\}, not a text"),
        ({"launches": {"conditions": [None]}}, r"launches.conditions\[0\] is None, not a text"),
        ({"version": 5}, r"version 5 is not 7"),
        ({"version": [6]}, r"version \[6\] is not 7"),
        ({"loops": [{"wanted": {"steps": [["x", 0]]}}]}, r"loops\[0\].wanted.steps\[0\]\[0\] is 'x', not a"),
        ({"rings": [{"depth": 10**30}]}, r"rings\[0\].depth is 1000000000000000000000000000000, not a"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_told_its_place(data: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=f"not a Plan: {said}.*; cure: start from what tawa compile --emit plan prints"):
        Plan.of(data)


def test_a_schedule_that_its_rings_are_too_shallow_for_names_the_least_depth() -> None:
    text, data = whole("tile")
    release = next(it for it in data["loops"][0]["schedule"]["ops"] if it["label"] == "consumed")
    release["stage"] = 2
    with pytest.raises(PlanError, match=r"D = 2 of ring\d is too few for 3 stages .*cure: D = "):
        specialise(text, PlanOptions(), Target(4, 3), Plan.of(data))
    whole.cache_clear()


def test_a_schedule_has_no_more_stages_than_operations() -> None:
    _, data = whole("tile")
    data = json.loads(json.dumps(data))
    data["loops"][0]["schedule"]["ops"][-1]["stage"] = 2**31
    with pytest.raises(PlanError, match="has 2147483649 stages for 13 operations; cure: each stage has an operation"):
        Plan.of(data)


def test_rings_that_cannot_fit_are_refused_before_the_kernel_is_lowered() -> None:
    text, data = whole("tile")
    data = json.loads(json.dumps(data))
    for loop in data["loops"]:
        loop.pop("schedule", None)
    for ring in data["rings"]:
        ring["depth"] = 200_000
    with pytest.raises(PlanError, match=r"the Plan does not fit, .* the limit is 232448 B"):
        specialise(text, PlanOptions(), Target(4, 3), Plan.of(data))


def test_a_loop_of_any_number_of_stages_has_those_that_its_dots_can_use() -> None:
    text, _ = whole("tile")
    made = specialise(text, PlanOptions(), Target(4, 3), Plan(loops=(LoopPlan(0, stages=2**31),)))
    assert made.plan is not None and [it.stages for it in made.plan.schedules] <= [5]
    with pytest.raises(PlanError, match=r"stages = 2147483648 in loop 0 .*: its dependences allow .*; cure: stages = "):
        specialise(text, PlanOptions(), Target(4, 3), Plan(loops=(LoopPlan(0, wanted=Wanted(stages=2**31)),)))
