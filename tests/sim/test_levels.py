"""Each kernel has the same bits at three levels in three orders, close to the float64 result."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("triton")

from tawa.sim import to_floats
from tawa.sim.machine.cta import Order
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.sim.problems import exact, level_module, make_arrays, output, run
from tests.support.sample import sample

ORDERS: tuple[Order, ...] = get_args(Order)

# The result is rounded once to the type of C and once per operation before: a few units in the last place.
TOLERANCE = {"fp16": 2e-3, "bf16": 1e-2, "fp32": 1e-5}
SMALL = {"M": 200, "N": 256, "K": 136}
CASES = {
    "tile_fp16_nn": SMALL,
    "tile_bf16_tt": SMALL,
    "tile_fp8e4nv_nt": {"M": 128, "N": 128, "K": 272},
    "tile_fp8e5_nt": {"M": 128, "N": 128, "K": 272},
    "tile_fp32_nn": {"M": 128, "N": 200, "K": 100},
    "tile_8warps_nt": {"M": 128, "N": 264, "K": 136},
    "device_desc_nt": SMALL,
    "split_k": SMALL,
    "persistent": {**SMALL, "M": 384, "PROGRAMS": 2},
    "persistent_flat": {**SMALL, "M": 384, "PROGRAMS": 2},
    "persistent_while": {**SMALL, "M": 384, "PROGRAMS": 2},
    "triangular": {"M": 384, "N": 128, "K": 384, "PROGRAMS": 2},
    "split_epilogue": {"M": 256, "N": 256, "K": 136, "PROGRAMS": 1},
    "gate_up": SMALL,
    "two_loops": {**SMALL, "K2": 200},
    "if_accumulate_skip0": SMALL,
    "if_accumulate_skip2": SMALL,
    "epilogue_all": SMALL,
    "epilogue_all_pointers": {"M": 136, "N": 131, "K": 136},
    "invariant": SMALL,
    "initial_bias": SMALL,
}


def sized(name: str) -> Specimen:
    return find(name).with_sizes(**CASES[name])


def error(case: Specimen, bits: Any) -> float:
    """The largest error against float64, relative to the largest value; NaN if an element was not written."""
    arrays = make_arrays(case)
    got = to_floats(bits, case.tensors["c"].dtype).astype(np.float64)
    wanted = exact(case, arrays)
    return float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30))


@pytest.mark.parametrize("name", sample(CASES, 4))
def test_all_levels_give_the_same_bits_in_all_orders(name: str) -> None:
    case = sized(name)
    plain = output(case, level_module(name, "ttgir"))
    assert error(case, plain) <= TOLERANCE[case.tensors["c"].dtype]
    for level in ("aref", "barrier"):
        for order in ORDERS:
            assert (output(case, level_module(name, level), order, seed=1) == plain).all(), (level, order)


@pytest.mark.parametrize(("depth", "mma_depth"), [(1, 0), (2, 1), (3, 1), (3, 2)])
def test_every_trip_count_around_the_depth_gives_the_same_bits(depth: int, mma_depth: int) -> None:
    name = "tile_64x64"
    for trips in sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1}):
        case = find(name).with_sizes(M=64, N=64, K=64 * trips)
        plain = output(case, level_module(name, "ttgir"))
        assert error(case, plain) <= TOLERANCE["fp16"]
        for level in ("aref", "barrier"):
            for order in ORDERS:
                got = output(case, level_module(name, level, depth, mma_depth), order, seed=trips)
                assert (got == plain).all(), (trips, level, order)


@pytest.mark.parametrize("seed", range(8))
def test_random_orders_give_the_same_bits_over_two_persistent_waves(seed: int) -> None:
    name = "persistent"
    case = find(name).with_sizes(M=384, N=128, K=136, PROGRAMS=1)
    plain = output(case, level_module(name, "ttgir"))
    assert (output(case, level_module(name, "barrier", 3, 2), "random", seed) == plain).all()


def test_the_same_seed_is_the_same_run_and_another_seed_is_not() -> None:
    case = find("tile_64x64").with_sizes(M=64, N=64, K=320)
    first, again, other = (
        run(case, level_module("tile_64x64", "barrier"), make_arrays(case), "random", seed).events for seed in (1, 1, 2)
    )
    actions = [[(event.partition, event.action, event.target) for event in it] for it in (first, again, other)]
    assert actions[0] == actions[1] != actions[2]


def test_events_name_partition_barrier_and_source_line() -> None:
    case = find("tile_64x64").with_sizes(M=64, N=64, K=320)
    result = run(case, level_module("tile_64x64", "barrier"), make_arrays(case))
    assert {"default", "partition0"} <= set(result.partitions)
    arrivals = [event for event in result.events if (event.partition, event.action) == ("default", "arrive")]
    assert [(event.target, event.slot, event.parity) for event in arrivals] == [
        ("ring0_empty", trip % 2, trip // 2 % 2) for trip in range(5)
    ]
    assert sum(event.action == "land load" for event in result.events) == 10
    assert all(event.location is not None for event in result.events)
