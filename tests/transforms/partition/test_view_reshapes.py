"""`view_reshapes`: operand A that is a reshaped box is read from shared memory, unless it is better kept."""

from __future__ import annotations

import pytest

from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Module, Operation
from tawa.transforms.partition.view_reshapes import ViewReshapes
from tests.cases.programs.ttgir import ACC, BUFFER, OPERAND, alloc, for_loop, kernel, load, op, parse, store

SWIZZLED = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16, rank = 3}>"
THREADS = "sizePerThread = [1, 1, 8], threadsPerWarp = [1, 4, 8]"
BLOCKED = f"#ttg.blocked<{{{THREADS}, warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}}>"
SHAPE = "16x4x64"
PROPERTIES = "inputPrecision = 0 : i32, isAsync = false, maxNumImpreciseAcc = 0 : i32"


def dot_of(before: str, inside: str, encoding: str = SWIZZLED) -> Module:
    """A loop with the product of %x, operand A in registers, with a tile of B."""
    dot = op("ttng.warp_group_dot", "%x, %y, %sum", f"{OPERAND}, {BUFFER}, {ACC}", "%next", ACC, properties=PROPERTIES)
    body = "\n".join((inside, load("b", "b_desc"), alloc("y", "b"), dot))
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    desc = f"!tt.tensordesc<tensor<{SHAPE}xf16, {encoding}>>"
    return parse(kernel(f"{before}\n{loop}\n{store()}", arguments={"q_desc": desc}))


def loaded(shape: str = SHAPE, at: str = "%k", reshape: str = "", encoding: str = SWIZZLED) -> str:
    """A box of three dimensions, reshaped to operand A."""
    tile = f"tensor<{shape}xf16, {BLOCKED}>"
    desc = f"!tt.tensordesc<tensor<{shape}xf16, {encoding}>>"
    indices = f"%q_desc, {at}, %zero, %zero"
    return "\n".join(
        (
            op("tt.descriptor_load", indices, f"{desc}, i32, i32, i32", "%q", tile, properties="cache = 1 : i32"),
            op("ttg.convert_layout", "%q", tile, "%converted", tile.replace("[4, 1, 1]", "[1, 4, 1]")),
            op("tt.reshape", "%converted", tile.replace("[4, 1, 1]", "[1, 4, 1]"), "%x", OPERAND, properties=reshape),
        )
    )


def operand_a(module: Module) -> Operation:
    dot = next(view for it in module.walk() if (view := WarpGroupDotOp.of(it)))
    assert dot.a.defining_op is not None
    return dot.a.defining_op


def names(module: Module) -> list[str]:
    return [it.name for it in module.walk()]


def test_the_operand_becomes_a_view_of_the_box() -> None:
    module = dot_of("", loaded())
    assert ViewReshapes().run(module).changed
    view = operand_a(module)
    assert view.name == "ttg.memdesc_reshape"
    assert view.result.type == BUFFER.replace("#shared", SWIZZLED.replace(", rank = 3", ""))
    (whole,) = view.operands
    assert whole.type == f"!ttg.memdesc<{SHAPE}xf16, {SWIZZLED}, #smem>"
    assert whole.defining_op is not None and whole.defining_op.name == "ttg.local_alloc"
    assert "tt.reshape" not in names(module) and "ttg.convert_layout" not in names(module)[:-4]


def test_a_tile_that_others_read_in_registers_keeps_its_reshape() -> None:
    more = op("arith.negf", "%x", OPERAND, "%negative", OPERAND)
    module = dot_of("", f"{loaded()}\n{more}")
    assert ViewReshapes().run(module).changed
    assert operand_a(module).name == "ttg.memdesc_reshape" and "tt.reshape" in names(module)


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        (loaded(at="%zero"), ""),
        ("", loaded(reshape="allow_reorder")),
        ("", loaded(shape="2x64x32")),
    ],
    ids=["kept over the loop", "in any order", "other columns"],
)
def test_other_operands_stay(before: str, inside: str) -> None:
    module = dot_of(before, inside)
    assert not ViewReshapes().run(module).changed
    assert operand_a(module).name == "tt.reshape"


def test_a_transposed_slot_has_no_rows_to_view() -> None:
    transposed = SWIZZLED.replace("transposed = false", "transposed = true")
    assert not ViewReshapes().run(dot_of("", loaded(encoding=transposed), transposed)).changed


def test_an_operand_in_shared_memory_stays() -> None:
    dot = op("ttng.warp_group_dot", "%x, %y, %sum", f"{BUFFER}, {BUFFER}, {ACC}", "%next", ACC, properties=PROPERTIES)
    body = "\n".join((load("a", "a_desc"), load("b", "b_desc"), alloc("x", "a"), alloc("y", "b"), dot))
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    assert not ViewReshapes().run(parse(kernel(f"{loop}\n{store()}"))).changed
