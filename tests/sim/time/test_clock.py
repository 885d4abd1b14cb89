"""The clock: times depend on the waits of a program, not on the execution order of the machine."""

from __future__ import annotations

import itertools
import time
from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("triton")


from tawa.ir import parse_module
from tawa.sim import CostModel, Timeline, simulate, summary
from tawa.sim.machine.cta import Order
from tawa.sim.time.timeline import TENSOR_CORES, TMA
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.sim.problems import level_module, make_arrays, output, run, stock_text
from tests.sim.small import kernel
from tests.support.sample import sample

ORDERS: tuple[Order, ...] = get_args(Order)

PERSISTENT = find("persistent_8warps").with_sizes(M=256, N=512, K=512, PROGRAMS=1)

SMALL = {"M": 128, "N": 256, "K": 272}

CASES = {
    "tile_64x64": SMALL,
    "tile_8warps_nn": SMALL,
    "persistent": {"M": 256, "N": 256, "K": 200, "PROGRAMS": 1},
    "persistent_while": {"M": 256, "N": 256, "K": 200, "PROGRAMS": 1},
    "two_loops": {**SMALL, "K2": 200},
    "gate_up": SMALL,
    "epilogue_all_pointers": SMALL,
    "split_epilogue": {"M": 256, "N": 256, "K": 136, "PROGRAMS": 1},
    "tile_fp8e4nv_nt": SMALL,
}


def timed(
    case: Specimen, module: Any, order: Order = "eager", seed: int = 0, model: CostModel | None = None
) -> Timeline:
    result = run(case, module, make_arrays(case), order, seed, programs=[(0, 0, 0)], timing=True)
    return result.timeline() if model is None else result.timeline(model=model)


def persistent(depth: int, mma_depth: int) -> Timeline:
    return timed(PERSISTENT, level_module("persistent_8warps", "barrier", depth, mma_depth))


@pytest.mark.parametrize("level", ["ttgir", "stock", "aref", "barrier"])
@pytest.mark.parametrize("name", sample(CASES, 4))
def test_the_timeline_is_the_same_in_all_orders_and_its_rows_do_not_overlap(name: str, level: Any) -> None:
    case = find(name).with_sizes(**CASES[name])
    module = parse_module(stock_text(name)) if level == "stock" else level_module(name, level)
    timeline = timed(case, module)
    for order, seed in (("late", 0), ("random", 1), ("random", 2)):
        assert timed(case, module, order, seed) == timeline, (order, seed)
    assert timeline.cycles > 0
    for row in timeline.rows:
        for before, after in itertools.pairwise(timeline.of(row)):
            assert before.begin_cycles < before.end_cycles <= after.begin_cycles, (before, after)


@pytest.mark.parametrize("name", ["tile_8warps_nn", "persistent", "epilogue_all_pointers", "tile_fp8e4nv_nt"])
def test_stock_tritons_pipelined_kernel_gives_the_bits_of_the_specialised_one(name: str) -> None:
    case = find(name).with_sizes(**CASES[name])
    specialised = output(case, level_module(name, "barrier"))
    for order in ORDERS:
        assert (output(case, parse_module(stock_text(name)), order, seed=1) == specialised).all(), order


def test_specialisation_keeps_the_tensor_cores_busier_than_one_slot_and_than_stock() -> None:
    one, ring = (summary(persistent(*plan)).tensor_core_busy for plan in ((1, 0), (3, 1)))
    stock = summary(timed(PERSISTENT, parse_module(stock_text("persistent_8warps")))).tensor_core_busy
    plain = summary(timed(PERSISTENT, level_module("persistent_8warps", "ttgir"))).tensor_core_busy
    assert plain < one < stock < ring
    assert ring > 2 * one


@pytest.mark.parametrize("mma_depth", [0, 1])
def test_a_deeper_ring_is_never_slower(mma_depth: int) -> None:
    case = find("tile_64x64").with_sizes(M=64, N=64, K=1024)
    took = [timed(case, level_module("tile_64x64", "barrier", depth, mma_depth)).cycles for depth in range(2, 6)]
    assert took == sorted(took, reverse=True)
    assert took[0] > took[-1]


def test_the_producer_loads_the_next_tile_during_the_current_one() -> None:
    timeline = persistent(3, 1)
    assert timeline.rows == ("producer", "consumer", TMA, TENSOR_CORES)
    dots = timeline.of(TENSOR_CORES)
    trips = len(dots) // 4
    # The first copies of the second tile land before the products and the store of the first tile end.
    copies = [span for span in timeline.of(TMA) if span.kind == "tma"]
    assert copies[2 * trips].end_cycles < dots[trips].begin_cycles
    gap = dots[trips].begin_cycles - dots[trips - 1].end_cycles
    assert 0 < gap < timed(PERSISTENT, parse_module(stock_text("persistent_8warps"))).cycles // 8


def test_a_dot_starts_when_its_operands_have_landed() -> None:
    case = find("tile_64x64").with_sizes(M=64, N=64, K=128)
    timeline = timed(case, level_module("tile_64x64", "barrier"))
    copies = [span for span in timeline.of(TMA) if span.kind == "tma"]
    for number, dot in enumerate(timeline.of(TENSOR_CORES)):
        assert dot.begin_cycles >= max(copy.end_cycles for copy in copies[2 * number : 2 * number + 2])


def test_the_busy_time_of_the_tensor_cores_is_that_of_the_products() -> None:
    timeline = persistent(3, 1)
    work = sum(span.end_cycles - span.begin_cycles for span in timeline.of(TENSOR_CORES))
    assert work == 256 * 512 * 512 // 2048


def test_a_load_is_waited_for_at_the_first_use_of_its_result() -> None:
    x = np.zeros(64, np.float32)
    from tests.cases.programs.ttgir import op
    from tests.sim.ops.test_tiles import LOAD, STORE, row

    tile = "tensor<64xf32, #blocked>"
    for fills, waits in ((0, True), (40, False)):
        between = [op("math.tanh", "%b", tile, f"%t{index}", tile) for index in range(fills * 10)]
        lines = (
            *row(),
            op("arith.constant", "", "", "%b", tile, properties=f"value = dense<1.0> : {tile}"),
            LOAD,
            *between,
            op("arith.addf", "%v, %v", f"{tile}, {tile}", "%result", tile),
            STORE,
        )
        timeline = simulate(kernel(*lines), {"x": x, "n": 0}, (1,), timing=True).timeline()
        assert any(span.kind == "wait" for span in timeline.of("all warps")) == waits


def test_a_real_problem_takes_seconds() -> None:
    case = find("tile_8warps_nn").with_sizes(M=512, N=512, K=512)
    begin = time.process_time()
    run(case, level_module("tile_8warps_nn", "barrier", 3, 1), make_arrays(case), timing=True).timeline()
    assert time.process_time() - begin < 5
