"""Shared memory and registers of one SM, and what a kernel takes of them."""

from __future__ import annotations

import pytest

from tawa.analysis.resources import SLACK_BYTES, RegisterInfo, SharedInfo, shared_beside_rings, wgmma_registers
from tawa.analysis.rings.channels import ChannelInfo, SiteInfo, find_channels
from tawa.analysis.rings.loads import DotLoadInfo, find_dot_loads
from tawa.dialects.tt import DescriptorLoadOp
from tawa.ir import MemDescType
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


def test_a_slot_is_read_in_the_layout_that_its_reader_wants() -> None:
    """A tile that is added to the scores changes its layout while it is read."""
    accumulator = "tensor<64x64xf16, #mma>"
    change = op("ttg.convert_layout", "%bias", TILE, "%laid_out", accumulator)
    wide = op("arith.extf", "%laid_out", accumulator, "%wide", ACC)
    added = op("arith.addf", "%sum, %wide", f"{ACC}, {ACC}", "%more", ACC)
    body = f"{programs.load('bias', 'c_desc')}\n{change}\n{wide}\n{added}\n{programs.iteration('more')}"
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    module = parse(programs.kernel(loop))
    loads = [it for it in module.walk() if it.name == "tt.descriptor_load"]
    channels = find_channels(find_dot_loads(module))
    assert shared_beside_rings(module, channels).inside == TILE_BYTES, "the consumer loads the tile"
    info = DotLoadInfo(DescriptorLoadOp(loads[0]), (), MemDescType((64, 64), "f16", "#shared"), ())
    site = SiteInfo((info,), loads[0])
    assert shared_beside_rings(module, [*channels, ChannelInfo("bias", (site,))]).inside == 0


def test_the_buffers_of_a_loop_live_until_its_last_dot() -> None:
    """All dots of an iteration are in flight, and the consumer waits once."""
    tiles = "\n".join(
        line
        for at in range(2)
        for line in (
            op("arith.addf", "%tile, %tile", f"{TILE}, {TILE}", f"%made{at}", TILE),
            programs.alloc(f"y{at}", f"made{at}"),
            programs.dot(f"next{at}", f"y{at}", f"y{at}", f"sum{at}"),
        )
    )
    carried = {f"sum{at}": ("zeros", f"next{at}", ACC) for at in range(2)}
    loop = programs.for_loop(tiles, carried=carried, results="%acc:2")
    made = op("arith.constant", "", "", "%tile", TILE, properties="value = dense<0.0> : tensor<64x64xf16, #blocked>")
    module = parse(programs.kernel(f"{made}\n{loop}"))
    found = shared_beside_rings(module, find_channels(find_dot_loads(module)))
    assert (max(found.inside, found.behind), found.again) == (2 * TILE_BYTES, 2 * TILE_BYTES)


def test_a_left_operand_in_registers_leaves_its_memory_unless_one_dot_reads_it_alone() -> None:
    """Triton moves the load of a single reader into the loop."""

    def inside(dots: int, in_registers: bool) -> int:
        kept = f"{programs.load('q', 'c_desc', '%zero, %zero')}\n{programs.alloc('q_kept', 'q')}"
        work = "\n".join(programs.dot(f"next{at}", "q_kept", "k_kept", f"sum{at}") for at in range(dots))
        body = programs.for_loop(
            f"{programs.load('k_tile', 'a_desc')}\n{programs.alloc('k_kept', 'k_tile')}\n{work}",
            carried={f"sum{at}": ("zeros", f"next{at}", ACC) for at in range(dots)},
            results=f"%acc:{dots}",
        )
        again = f"{programs.load('more', 'c_desc')}".replace("%k,", "%zero,")
        module = parse(programs.kernel(f"{kept}\n{again}\n{body}"))
        found = [it for it in module.walk() if it.name == "ttng.warp_group_dot"] if in_registers else []
        return shared_beside_rings(module, find_channels(find_dot_loads(module)), kept=found).inside

    assert [inside(dots, in_registers=False) for dots in (1, 2)] == [2 * TILE_BYTES, 2 * TILE_BYTES]
    assert [inside(dots, in_registers=True) for dots in (1, 2)] == [2 * TILE_BYTES, TILE_BYTES]


def test_scratch_of_the_producer_is_live_beside_that_of_the_consumer() -> None:
    """A tile of addresses changes its layout in the producer, a sum in the consumer."""
    wide = programs.POINTERS.replace("#blocked", "#mma")
    base = op("tt.splat", "%out", "!tt.ptr<f16>", "%base", wide)
    change = op("ttg.convert_layout", "%base", wide, "%places", programs.POINTERS)
    plain = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, "
    plain += "operandSegmentSizes = array<i32: 1, 0, 0>"
    tile = op("tt.load", "%places", programs.POINTERS, "%x_tile", TILE, properties=plain)
    again = op("ttg.convert_layout", "%sum", ACC, "%moved", "tensor<64x64xf32, #blocked>")
    back = op("ttg.convert_layout", "%moved", "tensor<64x64xf32, #blocked>", "%same", ACC)
    body = f"{tile}\n{programs.alloc('x', 'x_tile')}\n{again}\n{back}\n{programs.dot('next', 'x', 'x', 'same')}"
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    found = beside(programs.kernel(f"{base}\n{change}\n{loop}"))
    assert found.inside == 4 * TILE_BYTES + 2 * TILE_BYTES


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
