"""The time of kernels that are not compiled yet, from the shapes of their tiles."""

from __future__ import annotations

from dataclasses import replace

from tawa.plan.cost.launches import Launch
from tawa.plan.cost.tile_time import DRAM_SHARE, GATHERING, Device, TileSum, tile_us
from tawa.plan.cost.time_model import predict, time_us
from tawa.plan.search.candidate import clearly_fastest
from tawa.plan.thresholds import CLEAR
from tests.plan.search.test_prediction import GEMM, LAUNCH, OWN
from tests.support.timed import changed, timed

STATED = TileSum(128, (256,), 64, 2, 64, 128 * 256 * 2)
"""The program of `GEMM`."""
DEVICE = Device(LAUNCH.processors, 3.35e6)


def test_a_stated_program_takes_as_long_as_the_same_one_in_ir() -> None:
    shared = replace(OWN, plan=replace(OWN.plan, split_k=2))
    for programs in (100, 132, 264):
        launch = replace(LAUNCH, programs=programs)
        for made in (OWN, shared, changed(OWN, persistent=True)):
            assert time_us(STATED.phases, Launch(programs), made) == predict(GEMM, launch, made)


def test_no_launch_is_faster_than_dram() -> None:
    """With twice the bandwidth, one that is bound by it takes half as long."""
    moved = 1e9
    slow, fast = (tile_us(STATED, 132, OWN, Device(132, dram), moved) for dram in (1e6, 2e6))
    assert slow == 2 * fast == moved / 1e6 / DRAM_SHARE


def test_small_tiles_load_more_and_wait_for_l2() -> None:
    small, made = replace(STATED, rows=64, columns=(64,), stored_bytes=64 * 64 * 2), timed(ctas=2, slots=4, in_flight=1)
    programs = 2048 * 8
    assert small.loaded_bytes * 3 == STATED.loaded_bytes
    assert tile_us(small, programs, made, DEVICE) > 1.1 * time_us(small.phases, Launch(programs), made)
    assert tile_us(STATED, 2048, OWN, DEVICE) < 1.1 * time_us(STATED.phases, Launch(2048), OWN)


def test_threads_that_copy_rows_make_a_loop_slower() -> None:
    gathered, loaded = (time_us(it.phases, Launch(132), OWN) for it in (replace(STATED, gathered=True), STATED))
    assert 1.1 * loaded < gathered <= loaded / GATHERING


def test_a_later_candidate_must_be_clearly_faster() -> None:
    times = {"first": 100.0, "close": 100 / CLEAR, "fast": 100 / CLEAR / 1.01}
    assert clearly_fastest(("first", "close"), times.__getitem__) == "first"
    assert clearly_fastest(("first", "close", "fast"), times.__getitem__) == "close"
