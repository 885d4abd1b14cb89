"""Which tiles can be computed again in another layout, and what that takes."""

from __future__ import annotations

import pytest

from tawa.analysis.layout.rebuilt import can_rebuild, rebuild
from tawa.ir import Builder, Module, Value, parse_module
from tests.cases.programs.ttgir import ACC, LOCK, binary, kernel, op, ops_named
from tests.support.filecheck import brief, check

BLOCKED = "tensor<64x64xi32, #blocked>"
HIGH = "tensor<64x1xi32, #blocked>"
ROW = "tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>"
LOADED = (
    "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, "
    "operandSegmentSizes = array<i32: 1, 0, 0>"
)


def spread(row: str) -> str:
    """``%tile``: the row `%r`, which `row` makes, in each column, plus %n."""
    return "\n".join(
        (
            row,
            op("tt.expand_dims", "%r", ROW, "%high", HIGH, properties="axis = 1 : i32"),
            op("tt.broadcast", "%high", HIGH, "%wide", BLOCKED),
            op("tt.splat", "%n", "i32", "%numbers", BLOCKED),
            binary("tile", "addi", "wide", "numbers", BLOCKED),
        )
    )


RANGE = op("tt.make_range", "", "", "%r", ROW, properties="start = 0 : i32, end = 64 : i32")
TABLE = "\n".join(
    (
        op("tt.splat", "%lock", "!tt.ptr<i32>", "%at", ROW.replace("i32", "!tt.ptr<i32>")),
        op("tt.load", "%at", ROW.replace("i32", "!tt.ptr<i32>"), "%r", ROW, properties=LOADED),
    )
)
TILE_LOADED = "\n".join(
    (
        op("tt.splat", "%lock", "!tt.ptr<i32>", "%at", BLOCKED.replace("i32", "!tt.ptr<i32>")),
        op("tt.load", "%at", BLOCKED.replace("i32", "!tt.ptr<i32>"), "%tile", BLOCKED, properties=LOADED),
    )
)
CONVERTED = "\n".join(
    (
        op("arith.fptosi", "%zeros", ACC, "%numbers", BLOCKED.replace("#blocked", "#mma")),
        op("ttg.convert_layout", "%numbers", BLOCKED.replace("#blocked", "#mma"), "%tile", BLOCKED),
    )
)


def program(text: str) -> tuple[Module, Value]:
    """A kernel, and its value `%tile`."""
    module = parse_module(kernel(text, arguments=LOCK))
    return module, next(value for it in module.walk() for value in it.results if value.hint == "tile")


@pytest.mark.parametrize("text", [spread(RANGE), spread(TABLE), CONVERTED])
def test_ranges_splats_rows_and_conversions_can_be_rebuilt(text: str) -> None:
    assert can_rebuild(program(text)[1], "#mma")


def test_a_tile_from_memory_or_from_a_loop_cannot() -> None:
    assert not can_rebuild(program(TILE_LOADED)[1], "#mma")
    module, tile = program(spread(RANGE))
    (wide,) = ops_named(module, "tt.broadcast")
    tile.defining_op.set_operand(0, wide.parent.add_arg(BLOCKED, "carried"))  # type: ignore[union-attr]
    assert not can_rebuild(tile, "#mma")


def rebuilt(text: str) -> str:
    module, tile = program(text)
    builder, made = Builder.before(tile.defining_op.parent.terminator), dict[tuple[Value, str], Value]()  # type: ignore[union-attr]
    new = rebuild(tile, "#mma", builder, made)
    assert new.type.endswith("#mma>") and rebuild(tile, "#mma", builder, made) is new
    return brief(module)


def test_a_range_is_made_in_the_layout_that_the_tile_needs() -> None:
    check(
        rebuilt(spread(RANGE)),
        """
        CHECK:      "arith.addi"
        CHECK-NEXT: [[R:%\\w+]] = "tt.make_range"
        CHECK-NEXT: [[H:%\\w+]] = "tt.expand_dims"([[R]])
        CHECK-NEXT: [[W:%\\w+]] = "tt.broadcast"([[H]])
        CHECK-NEXT: [[N:%\\w+]] = "tt.splat"
        CHECK-NEXT: "arith.addi"([[W]], [[N]])
        CHECK-NOT:  convert_layout
        """,
    )


def test_a_row_from_memory_is_converted_not_loaded_again() -> None:
    check(
        rebuilt(spread(TABLE)),
        """
        CHECK:      [[R:%\\w+]] = "tt.load"
        CHECK:      "arith.addi"
        CHECK-NOT:  "tt.load"
        CHECK:      [[C:%\\w+]] = "ttg.convert_layout"([[R]])
        CHECK:      "tt.expand_dims"([[C]])
        """,
    )


def test_the_source_of_a_conversion_is_used_itself() -> None:
    module, tile = program(CONVERTED)
    (source,) = ops_named(module, "arith.fptosi")
    assert rebuild(tile, "#mma", Builder.before(source), {}) is source.result
