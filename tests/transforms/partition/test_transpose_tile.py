"""`transpose_tile` in the simulator: every byte of a tile, in every order of its rows, is where it belongs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tawa.ir import Builder, Module, TensorType
from tawa.sim import simulate
from tawa.transforms.partition.transpose_tile import transpose_tile
from tests.cases.programs.ttgir import op, ops_named, parse, the

NATURAL = tuple(range(8))
EXCHANGED = (0, 3, 1, 2, 4, 5, 6, 7)


def program(rows: int, columns: int, transposed: bool) -> Module:
    """A kernel that loads a tile, copies it to a buffer of bytes, and stores what is in another buffer."""
    swizzle = min(columns, 128), min(rows, 128)
    shared = "#ttg.nvmma_shared<{{swizzlingByteWidth = {}, transposed = {}, elementBitWidth = 8}}>"
    text, other = shared.format(swizzle[0], "false"), shared.format(swizzle[1], str(transposed).lower())
    shape = (rows, columns) if transposed else (columns, rows)
    tile, transposed = TensorType((rows, columns), "i8", "#blocked"), TensorType(shape, "i8", "#blocked")
    source = f"!ttg.memdesc<{rows}x{columns}xi8, {text}, #smem, mutable>"
    target = f"!ttg.memdesc<{shape[0]}x{shape[1]}xi8, {other}, #smem, mutable>"
    body = [
        *_places("in", tile, "%x"),
        op("tt.load", "%in", _pointers(tile), "%v", str(tile), properties="operandSegmentSizes = array<i32: 1, 0, 0>"),
        op("ttg.local_alloc", "%v", str(tile), "%source", source),
        op("ttg.local_alloc", "", "", "%target", target),
        op("ttg.local_load", "%target", target, "%w", str(transposed)),
        *_places("out", transposed, "%y"),
        op("tt.store", "%out, %w", f"{_pointers(transposed)}, {transposed}"),
    ]
    lines = "\n".join((*body, '"tt.return"() : () -> ()'))
    return parse(
        '"builtin.module"() ({\n"tt.func"() <{function_type = (!tt.ptr<i8>, !tt.ptr<i8>) -> (), sym_name = "kernel"}> '
        f'({{\n^bb0(%x: !tt.ptr<i8>, %y: !tt.ptr<i8>):\n{lines}\n}}) : () -> () loc("kernel.py":1:0)\n}}) : () -> ()\n'
    )


def _pointers(tile: TensorType) -> str:
    return str(TensorType(tile.shape, "!tt.ptr<i8>", tile.encoding))


def _places(name: str, tile: TensorType, base: str) -> list[str]:
    """Pointers to the elements of a tile, row by row."""
    count = math.prod(tile.shape)
    line, numbers = f"tensor<{count}xi32, #blocked>", str(TensorType(tile.shape, "i32", tile.encoding))
    end = f"end = {count} : i32, start = 0 : i32"
    return [
        op("tt.make_range", "", "", f"%{name}_line", line, properties=end),
        op("tt.reshape", f"%{name}_line", line, f"%{name}_at", numbers),
        op("tt.splat", base, "!tt.ptr<i8>", f"%{name}_base", _pointers(tile)),
        op("tt.addptr", f"%{name}_base, %{name}_at", f"{_pointers(tile)}, {numbers}", f"%{name}", _pointers(tile)),
    ]


def stored(rows: int, columns: int, order: tuple[int, ...], piece: int, transposed: bool = False) -> tuple[Any, Any]:
    """A tile of random bytes, and what `transpose_tile` makes of it: columns by places."""
    module = program(rows, columns, transposed)
    source, target = (op.result for op in ops_named(module, "ttg.local_alloc"))
    builder = Builder.before(the(module, "ttg.local_load"))
    transpose_tile(builder, module, source, target, order[: rows.bit_length() - 1], piece)
    x = np.random.default_rng(0).integers(-128, 128, (rows, columns)).astype(np.int8)
    y = np.zeros((rows, columns) if transposed else (columns, rows), np.int8)
    simulate(module, {"x": x, "y": y}, (1,))
    return x, y.T if transposed else y


@pytest.mark.parametrize("piece", [1024, 2048])
@pytest.mark.parametrize("order", [NATURAL, EXCHANGED], ids=["natural", "exchanged"])
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (32, 64), (64, 32), (64, 64), (128, 128), (256, 64)])
def test_each_place_has_the_row_that_the_order_puts_there(
    rows: int, columns: int, order: tuple[int, ...], piece: int
) -> None:
    x, y = stored(rows, columns, order, piece)
    bits = order[: rows.bit_length() - 1]
    for place in range(rows):
        row = sum((place >> bit & 1) << source for bit, source in enumerate(bits))
        assert (y[:, place] == x[row]).all()


def test_a_buffer_whose_columns_are_contiguous_is_filled_in_its_own_order() -> None:
    x, y = stored(64, 64, NATURAL, 1024, transposed=True)
    assert (y == x.T).all()


def test_an_order_that_no_piece_of_32_rows_keeps_takes_larger_pieces() -> None:
    x, y = stored(128, 32, (0, 6, 1, 2, 3, 4, 5), 1024)
    assert (y[:, 2] == x[64]).all() and (y[:, 1] == x[1]).all() and (y[:, 4] == x[2]).all()
