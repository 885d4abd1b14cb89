"""Layouts of tiles in registers: blocked ones, slices of these, and others, of which nothing is known."""

from __future__ import annotations

from tawa.analysis.layout.layouts import BlockedLayout, blocked_layout, origin, per_thread, tile_order
from tawa.ir.encodings import kind_of
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import parse


def layout(warps: tuple[int, ...], order: tuple[int, ...] = (1, 0)) -> BlockedLayout:
    return BlockedLayout((1, 8), (4, 8), warps, order)


def test_a_slice_of_a_layout_has_its_order_and_its_elements() -> None:
    module = parse(programs.tile_gemm())
    module.aliases["#blocked"] = str(layout((4, 1)))
    row, column = (f"#ttg.slice<{{dim = {dim}, parent = #blocked}}>" for dim in (0, 1))
    assert tile_order(module, "#blocked") == (1, 0) and tile_order(module, row) == (0,)
    assert origin(module, row, 0) == ("#blocked", 1) and origin(module, column, 0) == ("#blocked", 0)
    assert (per_thread(module, row, 0), per_thread(module, column, 0)) == (8, 1)


def test_a_blocked_layout_comes_back_from_its_text_with_what_it_says_of_clusters() -> None:
    module = parse(programs.tile_gemm())
    written = BlockedLayout((1, 8), (4, 8), (2, 4), (0, 1), (("CTAsPerCGA", "[1, 1]"),))
    assert written.num_warps == 8
    assert blocked_layout(module, str(written)) == written


def test_nothing_is_known_of_a_layout_that_is_neither_blocked_nor_a_slice() -> None:
    module = parse(programs.tile_gemm())
    assert kind_of(module.aliases, "#mma") == "#ttg.nvidia_mma"
    assert blocked_layout(module, "#mma") is None and origin(module, "#mma") is None
    assert (per_thread(module, "#mma", 1), tile_order(module, "#mma")) == (1, ())
