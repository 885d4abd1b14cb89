"""Accumulators of asynchronous dots: usable only as the result of a wait that covers them."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.sim.errors import AccumulatorInFlight
from tawa.sim.machine.values import Accumulator


@pytest.mark.parametrize(("waited", "text"), [(False, "while the dot is in flight"), (True, "after its wait")])
def test_the_result_of_an_asynchronous_dot_is_never_used_directly(waited: bool, text: str) -> None:
    with pytest.raises(AccumulatorInFlight, match=text):
        Accumulator(np.ones(4), waited).use()


def test_the_wait_returns_the_tile() -> None:
    tile = np.ones(4)
    assert Accumulator(tile, waited=True).complete() is tile
