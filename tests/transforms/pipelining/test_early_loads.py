"""`early_loads`: what a consumer loads by itself is loaded before the dots of its iteration, without a schedule."""

from __future__ import annotations

import pytest

from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.ir import Module, print_module
from tawa.plan import LoopPlan, Plan
from tawa.plan.schedule import Schedule
from tawa.transforms.pipelining.early_loads import EarlyLoads
from tests.cases.programs.ttgir import ops_named
from tests.support.passes import checked
from tests.transforms.pipelining.test_prefetch_loads import WRITE, gated, output


def distance(module: Module) -> int:
    """Operations of the loop's body between its load and its dot; negative if the load stands behind the dot."""
    (load,), (dot,) = ops_named(module, "tt.load"), ops_named(module, "ttng.warp_group_dot")
    body = ForOp(enclosing_loops(load)[0]).body
    return body.index_of(dot) - body.index_of(load)


def test_a_load_behind_a_dot_moves_in_front_of_it() -> None:
    module = gated()
    assert distance(module) < 0
    assert EarlyLoads().run(module).changed
    assert distance(checked(module)) == 1
    assert not EarlyLoads().run(module).changed


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_the_same_numbers_are_loaded_and_no_others(trips: int) -> None:
    module = gated()
    wanted = output(module, trips)
    EarlyLoads().run(module)
    assert output(module, trips) == wanted


def test_a_load_that_a_store_of_the_loop_may_alias_stays() -> None:
    module = gated(WRITE)
    before = print_module(module)
    assert not EarlyLoads().run(module).changed and print_module(module) == before


def test_a_schedule_places_the_loads_of_its_loop() -> None:
    module = gated()
    before = print_module(module)
    plan = Plan(loops=(LoopPlan(0, stages=2, schedule=Schedule(0, "", 1, (), ())),))
    assert not EarlyLoads(plan).run(module).changed and print_module(module) == before
