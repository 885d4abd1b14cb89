"""Schedules that have what a user wants."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.plan.decide.wanted import carries, step_names, wanted_schedule
from tawa.plan.schedule import Schedule, Wanted
from tests.cases.programs import staged
from tests.plan.test_scheduler import FOUR_WARPS, graph_of

GRAPH = graph_of(staged.attention())


def made(wanted: Wanted) -> Schedule:
    return wanted_schedule(GRAPH, FOUR_WARPS, wanted, 0, ["fa.py:9"])


def steps(schedule: Schedule) -> list[tuple[int, str]]:
    names = step_names([op.label for op in schedule.ops])
    return [(schedule.ops[at].stage, names[at]) for at in schedule.sequence]


@pytest.mark.parametrize("stages", [1, 2])
def test_the_stages_are_as_many_as_wanted(stages: int) -> None:
    assert made(Wanted(stages=stages)).stages == stages


def test_steps_make_the_same_schedule_again() -> None:
    schedule = made(Wanted(stages=2))
    assert made(Wanted(steps=tuple(steps(schedule)))) == schedule


def test_a_carried_tile_is_a_choice_among_schedules() -> None:
    have = sorted(carries(made(Wanted(stages=2)).carried))
    assert have and made(Wanted(stages=2, carry=tuple(have))).stages == 2
    assert made(Wanted(stages=2, carry=((have[0][0], ""),))).stages == 2


def test_a_tile_that_no_schedule_carries_is_refused_with_those_that_are() -> None:
    with pytest.raises(PlanError, match=r"loop 0 \(fa.py:9\) does not carry nothing as f32 .* cure: of carry = {"):
        made(Wanted(stages=2, carry=(("nothing", "f32"),)))


def test_stages_for_which_a_ring_is_too_shallow_are_refused_with_the_least_depth_and_the_nearest_stages() -> None:
    said = (
        r"D = 2 of ring\d is too few for 5 stages in loop 0 \(fa.py:9\): .* 4 is the least; cure: D = 4, or stages = 3"
    )
    with pytest.raises(PlanError, match=said):
        made(Wanted(stages=5))


def test_a_step_before_what_it_depends_on_is_refused() -> None:
    order = steps(made(Wanted(stages=1)))
    with pytest.raises(PlanError, match=r"has .* before .*, which it depends on in the same iteration"):
        made(Wanted(steps=tuple(reversed(order))))


@pytest.mark.parametrize("wrong", [["0: none"], []])
def test_other_steps_than_those_of_the_loop_are_named(wrong: list[str]) -> None:
    order = steps(made(Wanted(stages=1)))
    given = (*order[1:], *((0, it.removeprefix("0: ")) for it in wrong))
    with pytest.raises(PlanError, match=r"the steps of loop 0 \(fa.py:9\) are not those of the loop: missing"):
        made(Wanted(steps=given))


def test_steps_of_one_name_are_numbered() -> None:
    assert step_names(["consumed", "a = get", "consumed"]) == ["consumed", "a = get", "consumed.1"]
