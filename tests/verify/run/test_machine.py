"""One run of the skeleton for chosen numbers."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.verify.run.machine import Machine
from tawa.verify.run.state import FaultError, NeedError
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import Program
from tests.verify import mutations_aref as change
from tests.verify.barriers.test_check import made, ops


def tile(drop: str = "") -> Program:
    module = parse_module(made("tile")[0])
    if drop:
        assert change.drop(ops(module, drop)[-1])
    program = compile_skeleton(module)
    assert program is not None
    return program


def run(program: Program, trips: int) -> Machine:
    machine = Machine(program, {program.arguments["n"]: trips}, program.leader, trace=True)
    machine.run()
    return machine


def test_a_run_needs_a_number_for_the_bound_of_its_loop() -> None:
    program = tile()
    with pytest.raises(NeedError) as caught:
        Machine(program, {}, program.leader).run()
    assert program.arguments["n"] in caught.value.term.walk()


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_every_slot_is_put_got_and_released_once_per_trip(trips: int) -> None:
    events = run(tile(), trips).events or []
    counts = {kind: sum(event.action == kind for event in events) for kind in ("put", "get", "consumed")}
    assert len(set(counts.values())) == 1 and counts["put"] >= trips


def test_a_run_without_a_release_blocks() -> None:
    with pytest.raises(FaultError) as caught:
        run(tile(drop="aref.consumed"), 9)
    assert caught.value.kind in ("deadlock", "leftover credit")
