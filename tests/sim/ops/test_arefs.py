"""Rings: puts, gets and releases in order; traps and deadlocks otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import Module, Operation, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim import Descriptor, SimulationResult, simulate
from tawa.sim.errors import Deadlock, ProtocolTrap
from tests.cases.programs import ttgir as programs
from tests.support.pipeline import specialise

DEPTH, TRIPS = 2, 5


def aref_level() -> Module:
    outcome = specialise(programs.tile_gemm(), PlanOptions(aref_depth=DEPTH, mma_depth=1), Target(4, 3))
    return parse_module(outcome.aref)


def launch(module: Module) -> SimulationResult:
    tile = np.zeros((64, 64), np.float16)
    arguments = {name: Descriptor(tile) for name in ("a_desc", "b_desc", "c_desc")}
    return simulate(module, {**arguments, "out": tile, "n": TRIPS, "m": 1}, (1,))


def first(module: Module, name: str) -> Operation:
    return programs.ops_named(module, name)[0]


@pytest.mark.parametrize("action", ["put", "get", "consumed"])
def test_slots_and_parities_follow_the_running_count(action: str) -> None:
    events = [event for event in launch(aref_level()).events if event.action == action]
    assert [(event.slot, event.parity) for event in events] == [
        (count % DEPTH, count // DEPTH % 2) for count in range(TRIPS)
    ]


def test_a_ring_whose_slots_are_never_released_deadlocks() -> None:
    module = aref_level()
    for release in programs.ops_named(module, "aref.consumed"):
        release.erase()
    with pytest.raises(Deadlock, match=rf"slot 0 of \w+ to be empty, for put {DEPTH}"):
        launch(module)


def test_a_put_whose_count_is_not_the_next_of_its_slot_traps() -> None:
    module = aref_level()
    put = first(module, "aref.put")
    advance = next(op for op in programs.ops_named(module, "aref.advance") if op.parent is put.parent)
    advance.result.replace_all_uses_with(advance.operands[0])
    with pytest.raises(ProtocolTrap, match=rf"put 0 into \w+, but the next put of its slot is {DEPTH}"):
        launch(module)
