"""Launches that the model of time is asked about."""

from __future__ import annotations

from tawa.machine.machines import SM_90
from tawa.plan.cost.launches import Launch, launch_of, usual_launches
from tawa.plan.defaults import USUAL_SIZES, USUAL_WAVES
from tests.cases.programs.workloads import by_descriptors, by_pointers, many_tiles, workload

WRITTEN = workload(by_descriptors(128, 256, 64))
BODY = next(block for block, work in WRITTEN.blocks.items() if work.dots)


def test_a_known_launch_has_its_programs_and_the_trips_of_its_arguments() -> None:
    found = launch_of(WRITTEN, (None, None, None, 8192, 8192, 1024), (64, 32))
    assert (found.programs, found.visits.blocks[BODY]) == (64 * 32, 1024 / 64)


def test_programs_that_differ_are_averaged() -> None:
    tiles = workload(many_tiles())
    body = next(block for block, work in tiles.blocks.items() if work.dots)
    found = launch_of(tiles, (None, None, None, 100, 64), (8,))
    assert 12 <= found.visits.blocks[body] <= 13


def test_arguments_that_are_not_known_are_short_and_long() -> None:
    found = usual_launches(WRITTEN)
    assert [it.visits.blocks[BODY] for it in found] == [size / 64 for size in USUAL_SIZES]
    assert all(isinstance(it, Launch) for it in found)


def test_usual_launches_give_each_sm_several_programs_on_one_axis_or_two() -> None:
    for module in (by_descriptors(), by_pointers()):
        programs = {it.programs for it in usual_launches(workload(module))}
        assert programs == {USUAL_WAVES * SM_90.processors}


def test_a_kernel_that_iterates_over_tiles_itself_has_one_program_for_each_sm() -> None:
    assert {it.programs for it in usual_launches(workload(many_tiles()))} == {SM_90.processors}
    found = usual_launches(workload(many_tiles(at_program=False)))
    assert {it.programs for it in found} == {USUAL_WAVES * SM_90.processors}
