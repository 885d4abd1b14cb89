"""The model of time: what makes a launch longer or shorter, and how far it is off on measured kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tawa.analysis.work.workload import Workload
from tawa.machine.coefficients import fitted
from tawa.machine.machines import SM_90, SM_100
from tawa.plan.cost.launches import launch_of
from tawa.plan.cost.programs import Program, kept_loads, stock_program
from tawa.plan.cost.time_model import busy_us, predict
from tawa.plan.defaults import CONVERTER_PIECES
from tests.cases.programs.workloads import by_descriptors, by_pointers, chained, straight, workload
from tests.support.timed import changed, timed

ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "bench" / "results" / "model.json").read_text()
)["rows"]  # fmt: skip
GEMM = workload(by_descriptors(128, 256, 64))
SMALL = workload(by_descriptors(128, 128, 64))
ONE = timed(num_warps=8, in_flight=1)


def time_us(way: Program, of: Workload = GEMM, k: int = 4096, programs: int = 1056) -> float:
    known = [k if it.type == "i32" else None for it in of.function.body.args]
    launch = launch_of(of, known, (32, programs // 32))
    return predict(of, launch, way)


@pytest.mark.parametrize("way", [ONE, timed(False, num_warps=8), changed(ONE, persistent=True)])
def test_more_trips_take_longer(way: Program) -> None:
    short, longer, longest = (time_us(way, k=k) for k in (512, 2048, 8192))
    assert short < longer < longest
    assert (longest - longer) / (longer - short) == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("specialised", [True, False])
def test_one_slot_is_slower_than_three(specialised: bool) -> None:
    way = timed(specialised, num_warps=8)
    assert time_us(changed(way, slots=1)) > 1.2 * time_us(way)


def test_a_dot_in_flight_hides_the_wait_for_the_one_before() -> None:
    assert time_us(ONE) < time_us(changed(ONE, in_flight=0))


def test_a_machine_with_faster_tensor_cores_takes_less_time_for_long_sums() -> None:
    assert time_us(replace(ONE, machine=SM_100), k=8192) < 0.9 * time_us(ONE, k=8192)


TRANSPOSED = workload(by_descriptors(128, 256, 128, "f8E4M3FN"))


def test_who_transposes_an_operand_takes_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In registers all consumers do; a converter is done before them, unless its pieces are small."""
    monkeypatch.setitem(CONVERTER_PIECES, 168, 16384)
    work = next(it for it in TRANSPOSED.blocks.values() if it.dots)
    assert work.dots[0].transposed_bytes == 128 * 256
    in_registers, large, small = (time_us(changed(ONE, piece_bytes=it), TRANSPOSED) for it in (0, 16384, 1024))
    assert large < min(small, in_registers)
    assert time_us(changed(ONE, piece_bytes=1024)) == time_us(ONE)  # nothing to transpose in 16 bits


def test_ctas_on_an_sm_hide_each_other_s_waits() -> None:
    way = timed(False, slots=1)
    assert time_us(changed(way, ctas=2), SMALL) < 0.8 * time_us(way, SMALL)


def test_one_program_more_than_a_wave_costs_another_wave() -> None:
    whole, more = (predict(GEMM, launch_of(GEMM, (None,) * 5 + (4096,), (count,)), ONE)
                   for count in (132, 133))  # fmt: skip
    assert more > 1.8 * whole


def test_a_persistent_program_fills_its_first_slots_once() -> None:
    assert time_us(changed(ONE, persistent=True), k=256) < 0.9 * time_us(ONE, k=256)


def test_two_groups_share_the_work_between_chained_dots() -> None:
    attention = workload(chained())
    one = timed(num_warps=8, slots=2)
    assert time_us(changed(one, groups=2), attention) < 0.9 * time_us(one, attention)


def test_addresses_of_pointer_loads_delay_the_producer_of_a_ring_of_one_slot() -> None:
    """Without them the pieces of a tile arrive sooner through pointers than by TMA."""
    pointers, way = workload(by_pointers()), changed(ONE, slots=1, in_flight=0, by_pointers=1.0)
    free = replace(fitted().coefficients, address=0.0, copy=0.0)
    launch = launch_of(pointers, (None,) * 5 + (4096,), (64 * 32,))
    assert predict(pointers, launch, way) > 1.005 * predict(pointers, launch, way, free)
    assert predict(pointers, launch, way, free) < predict(pointers, launch, changed(way, by_pointers=0.0), free)


def test_each_byte_that_spills_costs_time_in_every_iteration() -> None:
    none, some, more = (time_us(changed(ONE, spilled=bytes)) for bytes in (0, 256, 512))
    assert more - some == pytest.approx(some - none, rel=0.5) and some > 1.1 * none


def test_a_persistent_form_is_uneven_where_memory_decides_how_much_each_program_does() -> None:
    persistent = changed(ONE, persistent=True)
    launch = launch_of(GEMM, (None,) * 5 + (4096,), (64 * 32,))
    guessed = replace(launch, visits=replace(launch.visits, guessed=True))
    assert predict(GEMM, guessed, persistent) > 1.02 * predict(GEMM, launch, persistent)
    assert predict(GEMM, guessed, ONE) == predict(GEMM, launch, ONE)


def test_a_producer_that_loads_element_by_element_waits_for_each_load_and_holds_the_consumer_up() -> None:
    dense, apart = workload(by_pointers()), workload(by_pointers(stride=2))
    written = changed(ONE, by_pointers=1.0)
    assert time_us(written, apart) > 3 * time_us(written, dense)
    half = changed(ONE, by_pointers=0.5)
    assert time_us(ONE, apart) < time_us(half, apart) < time_us(written, apart)
    assert len(kept_loads(next(it for it in apart.blocks.values() if it.dots), half.by_pointers)) == 1


def test_a_mask_from_memory_is_waited_for_before_the_operand_is_loaded() -> None:
    plain, masked = workload(by_pointers()), workload(by_pointers(masked=True))
    written = changed(ONE, by_pointers=1.0)
    assert time_us(written, masked) > 1.2 * time_us(written, plain)


def test_dots_by_mma_sync_take_longer_than_wgmmas_of_as_many_rows() -> None:
    small, large = (workload(by_descriptors(rows)) for rows in (32, 64))
    assert time_us(ONE, small) > 0.7 * time_us(ONE, large)
    assert time_us(timed(False, num_warps=2), large) > time_us(timed(False), large), "two warps make no wgmma"


def test_operands_of_8_bits_that_have_to_be_transposed_cost() -> None:
    right, wrong = (workload(by_descriptors(element="f8E4M3FN", transposed=transposed)) for transposed in (True, False))
    assert time_us(ONE, wrong) > 1.2 * time_us(ONE, right)


def test_serialised_wgmmas_of_stock_cost_as_often_as_there_are_instructions() -> None:
    """On one program: an iteration costs a wait for each 32 bytes of K and each 64 rows that a warp group has."""
    trips, wait = 64, fitted().coefficients.wait_serialised

    def more(of: Workload, warps: int) -> float:
        launch = launch_of(of, (None, None, None, 128, 256, trips * 64), (1,))
        plain = timed(False, num_warps=warps)
        added_us = predict(of, launch, changed(plain, serialised=True)) - predict(of, launch, plain)
        return added_us * SM_90.clock_ghz * 1e3

    assert more(GEMM, 8) == pytest.approx(trips * 4 * wait, rel=0.05)
    assert more(GEMM, 4) == pytest.approx(trips * 8 * wait, rel=0.1)
    assert more(workload(by_descriptors(128, 256, 64, element="f8E4M3FN")), 8) == pytest.approx(
        trips * 2 * wait, rel=0.01
    )


def test_a_serialised_tile_of_128_by_256_takes_a_quarter_longer() -> None:
    """As measured on an H200 at every size: 8 warps, B transposed."""
    stock = timed(False, num_warps=8)
    assert 1.15 < time_us(changed(stock, serialised=True)) / time_us(stock) < 1.35


@pytest.mark.parametrize(
    ("tile", "kernel", "candidate", "way"),
    [
        ((128, 128, 64), "tile_fp16_nn", "stock", None),
        ((128, 128, 64), "tile_fp16_nn", "legal", timed(ctas=2, in_flight=1)),
        ((128, 128, 64), "tile_fp16_nn", "legal, persistent", timed(slots=4, in_flight=1, persistent=True)),
        ((128, 256, 64), "tile_8warps_nn", "legal", timed(num_warps=8, in_flight=1)),
        ((128, 256, 64), "tile_8warps_nn", "legal, persistent", timed(num_warps=8, in_flight=1, persistent=True)),
    ],
)
def test_measured_times_are_met(tile: tuple[int, int, int], kernel: str, candidate: str, way: Program | None) -> None:
    """Within 25 %; a row is M x N x K, fp16, both operands as they are stored."""
    of = workload(by_descriptors(*tile))
    rows = [it for it in ROWS if it["case"]["kernel"] == kernel and it["candidate"] == candidate]
    assert len(rows) == 4
    for row in rows:
        m, n, k = map(int, row["case"]["shape"].removeprefix(f"{kernel}_").split("x"))
        launch = launch_of(of, (None, None, None, m, n, k), (m // tile[0], n // tile[1]))
        predicted = predict(of, launch, way or stock_program(of, 4, 3))
        assert predicted == pytest.approx(row["median_ms"] * 1e3, rel=0.25)


def test_programs_on_one_sm_fill_each_others_waits() -> None:
    """A persistent form of small tiles, whose dots wait: several programs on an SM take less time than one."""
    one, three = (changed(timed(num_warps=4, in_flight=0), persistent=True, ctas=ctas) for ctas in (1, 3))
    small = workload(by_descriptors(64, 64, 64))
    assert time_us(three, small, k=64) < 0.8 * time_us(one, small, k=64)
    assert time_us(three, small, k=64, programs=132) == time_us(one, small, k=64, programs=132)


def test_operands_that_are_loaded_in_no_loop_are_waited_for_unless_the_program_is_persistent() -> None:
    once = workload(straight())
    written = timed(num_warps=4, in_flight=0)
    assert time_us(changed(written, persistent=True), once) < 0.9 * time_us(written, once)


def test_what_keeps_each_unit_busy_is_told_apart() -> None:
    known = [4096 if it.type == "i32" else None for it in GEMM.function.body.args]
    busy = busy_us(GEMM, launch_of(GEMM, known, (32, 33)), ONE)
    assert set(busy) == {"latency", "memory", "tensor cores", "special functions", "CUDA cores"}
    assert busy["tensor cores"] > busy["memory"] > busy["special functions"] == 0
