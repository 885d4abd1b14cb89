"""`share_transposes`: a tile in registers that a dot reads transposed is stored once, and read by a view."""

from __future__ import annotations

import pytest

from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Module, Operation
from tawa.transforms.partition.share_transposes import ShareTransposes
from tests.cases.programs.ttgir import ACC, OPERAND, alloc, dot, for_loop, kernel, load, op, parse, store

HALF = ACC.replace("f32", "f16")
BYTES = ACC.replace("f32", "f8E4M3FN")


def transposed(tile: str = HALF, outside: bool = False) -> Module:
    """A loop with the product of a transposed tile in registers and a tile of B. outside: made before the loop."""
    operand = OPERAND.replace("f16", "f16" if tile is HALF else "f8E4M3FN")
    made = op("arith.truncf", "%zeros", ACC, "%half", tile)
    turn = op("tt.trans", "%half", tile, "%t", tile, properties="order = array<i32: 1, 0>")
    change = op("ttg.convert_layout", "%t", tile, "%x", operand)
    product = dot("next", "x", "y", "sum").replace("!ttg.memdesc<64x64xf16, #shared, #smem>,", f"{operand},", 1)
    body = "\n".join(("" if outside else made, turn, change, load("b", "b_desc"), alloc("y", "b"), product))
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return parse(kernel(f"{made if outside else ''}\n{loop}\n{store()}"))


def maker_of_a(module: Module) -> Operation:
    dot = next(view for it in module.walk() if (view := WarpGroupDotOp.of(it)))
    assert dot.a.defining_op is not None
    return dot.a.defining_op


def test_the_tile_is_stored_in_a_layout_of_wgmma_and_read_transposed() -> None:
    module = transposed()
    assert ShareTransposes().run(module).changed
    view = maker_of_a(module)
    assert view.name == "ttg.memdesc_trans" and "transposed = true" in view.result.type
    (stored,) = view.operands
    assert stored.defining_op is not None and stored.defining_op.name == "ttg.local_alloc"
    assert stored.defining_op.operands[0].hint == "half"
    assert "swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16" in stored.type
    assert "tt.trans" not in {it.name for it in module.walk()}, "nothing is transposed in registers any more"


def test_a_loop_that_only_reads_the_tile_stores_it_once() -> None:
    module = transposed(outside=True)
    assert ShareTransposes().run(module).changed
    stored = maker_of_a(module).operands[0].defining_op
    assert stored is not None and stored.parent is not maker_of_a(module).parent


@pytest.mark.parametrize("tile", [BYTES])
def test_tensor_cores_transpose_16_bit_elements_only(tile: str) -> None:
    module = transposed(tile)
    assert not ShareTransposes().run(module).changed and maker_of_a(module).name == "ttg.convert_layout"
