"""Live registers: what a consumer's threads hold while its wgmmas run."""

from __future__ import annotations

import pytest

from tawa.analysis.live_registers import live_registers
from tawa.ir import parse_module
from tests.cases.programs.ttgir import ACC, BUFFER, OPERAND, alloc, dot, for_loop, kernel, load, op, tile_gemm

TILE = 64 * 64 // (4 * 32)
"""Registers of an accumulator: four warps, one number in each register."""
COLUMNS, ROWS = (f"#ttg.slice<{{dim = {dim}, parent = #mma}}>" for dim in (0, 1))


def consumer(body: str) -> int:
    """The live registers of a fork whose default region has `body`, which may use %x and %y (buffers) and %zeros."""
    fork = (
        f'"ttg.warp_specialize"() <{{partitionNumWarps = array<i32>}}> ({{\n{body}\n"ttg.warp_yield"() : () -> ()\n}}, '
        '{\n"ttg.warp_specialize.partitions"() : () -> ()\n}) : () -> ()'
    )
    tiles = (load("a", "a_desc", "%zero, %zero"), load("b", "b_desc", "%zero, %zero"))
    text = "\n".join((*tiles, alloc("x", "a"), alloc("y", "b"), fork))
    arguments = {"columns": f"tensor<64x!tt.ptr<f32>, {COLUMNS}>", "rows": f"tensor<64x!tt.ptr<f32>, {ROWS}>"}
    return live_registers(parse_module(kernel(text, arguments=arguments)))


def use(value: str, type: str = ACC) -> str:
    return op("tt.print", f"%{value}", type, properties='prefix = " ", hex = false, isSigned = array<i32: 0>')


def looped(*body: str) -> str:
    """A loop that adds to a sum, which is used behind it."""
    loop = for_loop("\n".join(body), carried={"sum": ("zeros", "next", ACC)}, results="%last")
    return f"{loop}\n{use('last')}"


ADD, FIRST = dot("next", "x", "y", "sum"), dot("s", "x", "y", "zeros")


def test_an_accumulator_stays_in_its_registers() -> None:
    assert consumer(looped(ADD)) == TILE


def test_a_tile_of_another_dot_counts_while_it_is_used_later() -> None:
    assert consumer(looped(FIRST, ADD, use("s"))) == 2 * TILE
    assert consumer(f"{FIRST}\n{use('s')}\n{looped(ADD)}") == TILE, "it is used up before the loop"


def test_what_a_loop_uses_is_live_in_all_of_it() -> None:
    assert consumer(f"{FIRST}\n{looped(use('s'), ADD)}") == 2 * TILE


def test_a_left_operand_in_registers_counts_where_it_is_used() -> None:
    narrow = op("arith.truncf", "%s", ACC, "%n", "tensor<64x64xf16, #mma>")
    left = op("ttg.convert_layout", "%n", "tensor<64x64xf16, #mma>", "%p", OPERAND)
    second = op("ttng.warp_group_dot", "%p, %y, %sum", f"{OPERAND}, {BUFFER}, {ACC}", "%next", ACC)
    wide = consumer(looped(FIRST, narrow, left, second))
    assert wide == 2 * TILE, "the sum and %s at the first dot; the sum and half as much at the second"
    assert consumer(f"{FIRST}\n{narrow}\n{left}\n{looped(second)}") == TILE + TILE // 2


@pytest.mark.parametrize(("name", "layout", "registers"), [("columns", COLUMNS, 16), ("rows", ROWS, 2)])
def test_a_thread_holds_a_number_for_each_of_its_columns_or_rows(name: str, layout: str, registers: int) -> None:
    row = f"tensor<64xf32, {layout}>"
    read = op("tt.load", f"%{name}", f"tensor<64x!tt.ptr<f32>, {layout}>", "%r", row,
              properties="boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, "
              "operandSegmentSizes = array<i32: 1, 0, 0>")  # fmt: skip
    assert consumer(looped(read, ADD, use("r", row))) == TILE + registers + 2 * registers, "and a pointer for each"


def test_masks_and_tiles_of_ranges_are_computed_again() -> None:
    row, mask = (f"tensor<64x{element}, {ROWS}>" for element in ("i32", "i1"))
    ranged = op("tt.make_range", "", "", "%r", row, properties="end = 64 : i32, start = 0 : i32")
    compared = op("arith.cmpi", "%r, %r", f"{row}, {row}", "%m", mask, properties="predicate = 2 : i64")
    assert consumer(looped(ranged, compared, ADD, use("r", row), use("m", mask))) == TILE


def test_a_program_without_a_fork_has_no_consumer() -> None:
    assert live_registers(parse_module(tile_gemm())) == 0
