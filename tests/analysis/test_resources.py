"""Shared memory and registers of one SM, and what a kernel takes of them."""

from __future__ import annotations

import pytest

from tawa.analysis.resources import RegisterInfo, SharedInfo, shared_beside_rings, wgmma_registers
from tawa.analysis.rings.channels import find_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.machine.hopper import SLACK_BYTES
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, TILE, TILE_BYTES, op, parse


def beside(text: str) -> SharedInfo:
    module = parse(text)
    return shared_beside_rings(module, find_channels(find_dot_loads(module)))


# -- shared memory -----------------------------------------------------------------------------------------------------


def test_an_epilogue_behind_the_last_ring_access_takes_the_place_of_the_rings() -> None:
    info = beside(programs.tile_gemm())
    assert (info.staging, info.inside, info.behind) == (0, 0, TILE_BYTES)
    assert info.total(4 * TILE_BYTES) == 4 * TILE_BYTES + SLACK_BYTES
    assert info.total(0) == TILE_BYTES + SLACK_BYTES


def test_a_store_inside_the_consumer_needs_a_buffer_beside_the_rings() -> None:
    info = beside(programs.persistent_gemm())
    assert (info.staging, info.behind) == (TILE_BYTES, 0)
    assert info.total(4 * TILE_BYTES) == 5 * TILE_BYTES + SLACK_BYTES


@pytest.mark.parametrize(("slices", "buffers", "parts"), [(2, 1, 2), (4, 2, 2), (4, 1, 4), (1, 1, 1)])
def test_a_store_in_slices_needs_its_buffers_only(slices: int, buffers: int, parts: int) -> None:
    module = parse(programs.persistent_gemm())
    found = shared_beside_rings(module, find_channels(find_dot_loads(module)), 1, lambda _: (slices, buffers))
    assert found.staging == TILE_BYTES // parts


def test_stores_of_one_type_share_a_buffer_and_others_do_not() -> None:
    again = programs.store().replace("%acc_", "%again_")
    wide = "!tt.tensordesc<tensor<64x64xf32, #shared>>"
    other = op("tt.descriptor_store", "%wide, %acc, %zero, %zero", f"{wide}, {ACC}, i32, i32")

    def tiles(stores: str) -> int:
        body = programs.for_loop(f"{programs.gemm_loop()}\n{stores}", induction="tile", upper="m")
        return beside(programs.kernel(body, arguments={"wide": wide})).staging

    assert tiles(programs.store()) == tiles(f"{programs.store()}\n{again}") == TILE_BYTES
    assert tiles(f"{programs.store()}\n{other}") == TILE_BYTES + 2 * TILE_BYTES


def test_stores_between_loops_in_a_row_share_a_buffer_too_which_is_gone_behind_the_rings() -> None:
    loops = [
        f"{programs.gemm_loop(f'acc{at}', f'_{at}')}\n{programs.store(f'acc{at}')}".replace("%zero_", f"%zero{at}_")
        for at in range(3)
    ]
    info = beside(programs.kernel("\n".join(loops)))
    assert (info.staging, info.inside, info.behind) == (0, TILE_BYTES, TILE_BYTES)


def test_a_tile_the_consumer_loads_by_itself_counts_where_it_is_loaded() -> None:
    inside = programs.for_loop(
        f"{programs.load('bias', 'c_desc')}\n{programs.iteration()}",
        carried={"sum": ("zeros", "next", ACC)},
        results="%acc",
    )
    assert beside(programs.kernel(f"{inside}\n{programs.store()}")).inside == TILE_BYTES
    behind = f"{programs.gemm_loop()}\n{programs.load('bias', 'c_desc', '%zero, %zero')}"
    assert beside(programs.kernel(behind)).inside == 0


def test_loads_that_move_to_the_producer_do_not_count() -> None:
    assert beside(programs.kernel(programs.gemm_loop())) == SharedInfo(0, 0, 0)


def test_a_layout_change_that_only_a_store_reads_is_free() -> None:
    change = op("ttg.convert_layout", "%acc", ACC, "%moved", "tensor<64x64xf32, #blocked>")
    use = op("arith.addf", "%moved, %moved", f"{TILE}, {TILE}", "%used", TILE)
    assert beside(programs.kernel(f"{programs.gemm_loop()}\n{change}\n{use}")).behind == 2 * TILE_BYTES


def test_of_a_tile_that_is_spread_only_what_it_spreads_changes_its_layout() -> None:
    """Triton moves the change in front of the broadcast."""
    row = "tensor<1x64xf32, #blocked>"
    spread = op("tt.broadcast", "%row", row, "%spread", TILE)
    change = op("ttg.convert_layout", "%spread", TILE, "%moved", "tensor<64x64xf32, #mma>")
    use = op("arith.mulf", "%acc, %moved", f"{ACC}, {ACC}", "%used", ACC)
    body = f"{programs.gemm_loop()}\n{spread}\n{change}\n{use}"
    assert beside(programs.kernel(body, arguments={"row": row})).behind == 64 * 4


def attention_tile(users: str = "") -> SharedInfo:
    """A tile that a loop reads all along, and a store behind it, for two groups."""
    kept = f"{programs.load('q', 'c_desc', '%zero, %zero')}\n{programs.alloc('q_kept', 'q')}"
    body = programs.for_loop(
        f"{programs.load('k_tile', 'a_desc')}\n{programs.alloc('k_kept', 'k_tile')}\n"
        f"{programs.dot('next', 'q_kept', 'k_kept', 'sum')}",
        carried={"sum": ("zeros", "next", ACC)},
        results="%acc",
    )
    module = parse(programs.kernel(f"{kept}\n{body}\n{users}{programs.store()}"))
    return shared_beside_rings(module, find_channels(find_dot_loads(module)), 2)


def test_a_store_of_a_group_takes_the_place_of_what_its_loop_kept() -> None:
    assert attention_tile() == SharedInfo(0, 2 * TILE_BYTES, 0)


def test_tiles_that_are_needed_at_a_time_add_up() -> None:
    read = op("ttg.local_load", "%q_kept", programs.BUFFER, "%read", TILE) + "\n"
    late = programs.store().replace("%acc_", "%first_") + "\n" + read
    assert attention_tile(late).inside == 2 * 2 * TILE_BYTES


# -- registers ---------------------------------------------------------------------------------------------------------


def test_accumulators_are_counted_a_thread_and_those_of_one_block_together() -> None:
    assert wgmma_registers(parse(programs.tile_gemm()), 4) == RegisterInfo(32, 32, 32)
    assert wgmma_registers(parse(programs.tile_gemm()), 8).accumulators == 16
    assert wgmma_registers(parse(programs.gate_up()), 4).accumulators == 64
    assert wgmma_registers(parse(programs.gate_up()), 4).largest == 32
    assert wgmma_registers(parse(programs.two_loops()), 4).accumulators == 32


@pytest.mark.parametrize("groups, warps, largest, fills", [(1, 8, 256, True), (2, 4, 256, True), (1, 8, 255, False)])
def test_an_accumulator_fills_an_sm_by_all_its_threads(groups: int, warps: int, largest: int, fills: bool) -> None:
    assert RegisterInfo(largest, 128, largest).fill_an_sm(warps, groups) is fills
