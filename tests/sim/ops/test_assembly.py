"""Named barriers and fences in inline assembly, simulated: right values, and traps."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.sim import Descriptor, simulate
from tawa.sim.errors import BarrierMisuse, Deadlock, MissingFence, SimulationError, UnwrittenRead
from tests.verify.barriers.named import handed_on, stored

TRAPS: dict[str, type[Exception]] = {
    "the reader does not wait": UnwrittenRead,
    "the writer does not arrive": Deadlock,
    "the reader does not arrive": Deadlock,
    "the writer arrives before it writes": AssertionError,  # values of another row
    "more threads than there are": Deadlock,
    "counts that differ": BarrierMisuse,
    "no slot is empty at first": Deadlock,
    "all threads of the program": Deadlock,
}


def run(D: int, fault: str, order: str, seed: int = 0) -> None:
    x = np.arange(5 * 128, dtype=np.float32)
    o = np.full_like(x, np.nan)
    simulate(handed_on(D, fault), {"x": x, "o": o, "n": 5}, (1,), order, seed, timing=True)  # type: ignore[arg-type]
    np.testing.assert_array_equal(o, x + 1)


@pytest.mark.parametrize("order", ["eager", "late", "random"])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_simulator_runs_named_barriers(D: int, order: str) -> None:
    run(D, "none", order)


@pytest.mark.parametrize("fault", TRAPS)
def test_the_simulator_traps_a_fault_in_some_order(fault: str) -> None:
    seen: list[type[Exception]] = []
    for order, seed in (("eager", 0), ("late", 0), *(("random", seed) for seed in range(4))):
        try:
            run(1, fault, order, seed)
        except (SimulationError, AssertionError) as error:
            seen.append(type(error))
    assert TRAPS[fault] in seen, seen


def test_the_simulator_knows_a_fence_in_assembly() -> None:
    c = np.zeros((64, 64), np.float16)
    simulate(stored("fence.proxy.async;"), {"c": Descriptor(c)}, (1,), "late")
    assert (c == 1).all()
    with pytest.raises(MissingFence):
        simulate(stored("membar.cta;"), {"c": Descriptor(c)}, (1,), "late")
