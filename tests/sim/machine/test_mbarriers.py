"""mbarriers: phases, arrival counts and transaction bytes."""

from __future__ import annotations

import pytest

from tawa.sim.errors import (
    BarrierMisuse,
    SimulationError,
)
from tawa.sim.machine.mbarriers import arrive, deliver, initialise, initialised, passes
from tawa.sim.machine.shared import allocate, memdesc


def test_a_phase_needs_its_arrivals_and_its_bytes() -> None:
    view = allocate("full", memdesc("!ttg.memdesc<1xi64, #barriers, #smem, mutable>"))
    with pytest.raises(BarrierMisuse, match="before it is initialised"):
        initialised(view)
    initialise(view, 1)
    barrier = initialised(view)
    assert passes(barrier, 1) and not passes(barrier, 0)
    deliver(barrier, 64)
    arrive(barrier, 1, 128)
    assert not passes(barrier, 0)
    deliver(barrier, 64)
    assert passes(barrier, 0) and not passes(barrier, 1)
    with pytest.raises(BarrierMisuse, match="twice"):
        initialise(view, 1)


def test_more_arrivals_than_the_count_trap() -> None:
    view = allocate("empty", memdesc("!ttg.memdesc<1xi64, #barriers, #smem, mutable>"))
    initialise(view, 1)
    with pytest.raises(SimulationError, match="more arrivals"):
        arrive(initialised(view), 2)
