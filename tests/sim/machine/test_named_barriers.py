"""Named barriers: rounds, and the misuse of counts."""

from __future__ import annotations

import pytest

from tawa.sim.errors import BarrierMisuse
from tawa.sim.machine.named_barriers import NamedBarrier


def test_a_round_is_complete_when_all_threads_have_arrived() -> None:
    barrier = NamedBarrier(8)
    assert [barrier.arrive(128, 256) for _ in range(4)] == [0, 0, 1, 1]
    assert barrier.rounds == 2 and barrier.arrived == 0


def test_counts_that_differ_and_too_many_threads_are_misuse() -> None:
    barrier = NamedBarrier(8)
    barrier.arrive(128, 256)
    with pytest.raises(BarrierMisuse, match="for 256 and for 128"):
        barrier.arrive(128, 128)
    with pytest.raises(BarrierMisuse, match="384 threads arrive at named barrier 8, which is for 256"):
        barrier.arrive(256, 256)
