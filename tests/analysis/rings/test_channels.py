"""Which loads travel together, and which groups share a ring."""

from __future__ import annotations

import pytest

from tawa.analysis.rings.channels import find_channels, slot_readers
from tawa.analysis.rings.loads import find_dot_loads
from tests.cases.programs import ttgir as programs
from tests.cases.programs.tensor_memory import marked
from tests.cases.programs.ttgir import (
    ACC,
    BUFFER,
    TILE,
    alloc,
    branch,
    dot,
    for_loop,
    gemm_loop,
    kernel,
    load,
    op,
    parse,
)


def channels(text: str) -> list[list[list[str]]]:
    """Channels as sites as names of loads."""
    return [
        [[info.load.op.result.hint for info in site.loads] for site in channel.sites]
        for channel in find_channels(find_dot_loads(parse(text)))
    ]


def looped(*lines: str) -> str:
    loop = for_loop("\n".join(lines), carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return kernel(f"{loop}\n{programs.store()}")


# -- grouping ----------------------------------------------------------------------------------------------------------


def test_loads_of_one_block_that_feed_one_dot_travel_together() -> None:
    assert channels(programs.tile_gemm()) == [[["a", "b"]]]


def test_a_slot_takes_the_bytes_of_all_its_tiles() -> None:
    (channel,) = find_channels(find_dot_loads(parse(programs.tile_gemm())))
    assert channel.name == "ring0"
    assert channel.payload == (programs.SLOT, programs.SLOT)
    assert channel.slot_bytes == 2 * programs.TILE_BYTES


def test_loads_that_feed_other_dots_go_alone() -> None:
    assert channels(programs.gate_up()) == [[["a"]], [["b"]], [["c"]]]


def test_loads_that_feed_other_dots_travel_together_where_one_ring_is_asked_for_them() -> None:
    loads = find_dot_loads(parse(programs.gate_up()))
    found = find_channels(loads, {info.load.op: "one" for info in loads if info.load.op.result.hint != "b"})
    assert [[info.load.op.result.hint for info in it.sites[0].loads] for it in found] == [["a", "c"], ["b"]]


def test_a_tile_that_is_needed_before_the_next_load_goes_alone() -> None:
    early = op("arith.addf", "%a, %a", f"{TILE}, {TILE}", "%seen", TILE)
    text = looped(
        load("a", "a_desc"), early, load("b", "b_desc"), alloc("x", "a"), alloc("y", "b"), dot("next", "x", "y", "sum")
    )
    assert channels(text) == [[["a"]], [["b"]]]


def test_where_dots_have_a_partition_a_tile_that_threads_read_goes_alone() -> None:
    changed = op("arith.addf", "%b, %b", f"{TILE}, {TILE}", "%twice", TILE)
    text = looped(
        load("a", "a_desc"), load("b", "b_desc"), changed, alloc("x", "a"), alloc("y", "twice"),
        dot("next", "x", "y", "sum"),
    )  # fmt: skip
    assert channels(text) == [[["a", "b"]]]
    module = marked(text)
    found = find_channels(find_dot_loads(module))
    assert [[info.load.op.result.hint for info in it.sites[0].loads] for it in found] == [["a"], ["b"]]


def test_a_load_under_a_branch_stays_with_the_consumer() -> None:
    pick = branch(load("t_then", "b_desc"), load("t_else", "c_desc"), result="t", type=TILE)
    text = looped(load("a", "a_desc"), pick, alloc("x", "a"), alloc("y", "t"), dot("next", "x", "y", "sum"))
    assert channels(text) == [[["a"]]]


def test_two_iterations_in_one_block_have_a_ring_each() -> None:
    """Once wgmmas stay in flight the first is released after the second began: one ring would block at D = 1."""
    text = looped(programs.iteration(result="half"), programs.iteration("half", "next", "_2"))
    assert channels(text) == [[["a", "b"]], [["a", "b"]]]


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_two_loops_in_a_row_share_a_ring() -> None:
    assert channels(programs.two_loops()) == [[["a", "b"], ["a", "b"]]]


def test_both_branches_of_an_if_share_a_ring() -> None:
    assert channels(programs.branching_gemm()) == [[["a", "b"], ["a", "b"]]]


def test_loops_in_a_row_inside_a_loop_share_a_ring() -> None:
    body = "\n".join((gemm_loop("half"), gemm_loop("acc", "_2", upper="m", init="half"), programs.store()))
    assert len(channels(kernel(for_loop(body, induction="tile", upper="m")))) == 1


def test_a_loop_inside_the_loop_of_the_other_does_not_share() -> None:
    """Released an iteration late, the outer slot would still be taken while the inner loop asks for D more."""
    assert channels(programs.nested_loops()) == [[["a", "b"]], [["a", "b"]]]


@pytest.mark.parametrize("longer_first", [True, False])
def test_loops_whose_slots_begin_alike_share_a_ring_that_holds_the_longer_one(longer_first: bool) -> None:
    text = programs.one_more_operand(longer_first)
    sites = [["a", "b"], ["c"]] if longer_first else [["c"], ["a", "b"]]
    assert channels(text) == [sites]
    (channel,) = find_channels(find_dot_loads(parse(text)))
    assert channel.payload == (programs.SLOT, programs.SLOT)
    assert channel.slot_bytes == 2 * programs.TILE_BYTES


def test_another_payload_does_not_share() -> None:
    second = gemm_loop("acc", "_2", upper="m", init="half").replace("64x64xf16, #shared", "64x64xbf16, #shared")
    second = second.replace(TILE, TILE.replace("f16", "bf16"))
    assert len(channels(kernel("\n".join((gemm_loop("half"), second, programs.store()))))) == 2


# -- readers -----------------------------------------------------------------------------------------------------------


def test_the_last_use_is_the_last_reader_through_any_view() -> None:
    (channel,) = find_channels(find_dot_loads(parse(programs.tile_gemm())))
    assert channel.sites[0].last_use.name == "ttng.warp_group_dot"


def test_a_view_that_nobody_reads_keeps_nothing_alive() -> None:
    dead = op("ttg.memdesc_trans", "%y", BUFFER, "%t", programs.TRANSPOSED, properties="order = array<i32: 1, 0>")
    module = parse(looped(programs.iteration(), dead))
    view = next(it.result for it in module.walk() if it.results and it.results[0].hint == "y")
    assert [reader.name for reader in slot_readers(view)] == ["ttng.warp_group_dot"]
