"""Block-scaled dots: their scales lie in shared memory, and the thread of the dots copies them."""

from __future__ import annotations

import pytest

from tawa.ir import Module, memdesc_type
from tawa.ir.encodings import fields_of
from tawa.transforms.tensor_memory.accumulate import Accumulate
from tawa.transforms.tensor_memory.buffers import changes_hands, columns_of
from tawa.transforms.tensor_memory.read_dots import ReadDots
from tests.cases.programs.tensor_memory import MEMORY, blackwell
from tests.cases.programs.ttgir import ACC, BUFFER, kernel, op
from tests.support.passes import checked

TOKEN = "!ttg.async.token"
SEGMENTS = "array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>"


def scales(rows: int, columns: int) -> str:
    return f"tensor<{rows}x{columns}xi8, #blocked>"


def shared(rows: int, columns: int) -> str:
    return f"!ttg.memdesc<{rows}x{columns}xi8, #shared, #smem>"


def program(rows: int = 128, columns: int = 4) -> Module:
    """A dot whose scales of A are put into tensor memory by threads, and those of B are in shared memory."""
    tile, held, kept = scales(rows, columns), shared(rows, columns), shared(128, 4)
    copied = f"!ttg.memdesc<{rows}x{columns}xi8, #scales, #ttng.tensor_memory>"
    types = f"{BUFFER}, {BUFFER}, {MEMORY}, {TOKEN}, {copied}, {kept}, i1, i1"
    properties = f"a_type = 0 : i32, b_type = 4 : i32, operandSegmentSizes = {SEGMENTS}"
    body = "\n".join(
        (
            op("ttng.tmem_alloc", "%zeros", ACC, "%d:2", f"({MEMORY}, {TOKEN})"),
            op("ttg.local_alloc", "%s", tile, "%h", held),
            op("ttg.local_load", "%h", held, "%moved", tile),
            op("ttng.tmem_alloc", "%moved", tile, "%m", copied),
            op("ttng.tc_gen5_mma_scaled", "%x, %y, %d#0, %d#1, %m, %t, %flag, %flag", types, "%u", TOKEN,
               properties=properties),
            op("ttng.tmem_load", "%d#0, %u", f"{MEMORY}, {TOKEN}", "%r:2", f"({ACC}, {TOKEN})"),
        )
    )  # fmt: skip
    arguments = {"x": BUFFER, "y": BUFFER, "s": tile, "t": kept}
    return blackwell(f"#scales = #ttng.tensor_memory_scales_encoding<>\n{kernel(body, arguments=arguments)}")


def test_scales_of_threads_go_to_shared_memory_in_blocks_and_those_of_tma_stay() -> None:
    module = program(256, 8)
    assert ReadDots().run(module).remarks == ()
    (dot,) = [it for it in checked(module).walk() if it.name == "ttng.warp_group_dot"]
    held, kept = dot.operands[3:]
    assert kept.hint == "t"
    assert held.defining_op is not None and held.defining_op.name == "ttg.local_alloc"
    assert held.defining_op.operands[0].hint == "s"
    layout = fields_of(module.aliases, memdesc_type(held.type).encoding)
    assert layout["alignment"] == "128"
    assert layout["offset"] == (
        "[[0, 1], [0, 2], [32, 0], [64, 0], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [0, 4], [128, 0]]"
    )
    names = [it.name for it in module.walk()]
    assert names.count("ttg.local_alloc") == 1 and "ttg.local_load" not in names


@pytest.mark.parametrize(("rows", "columns"), [(64, 4), (128, 2)])
def test_scales_that_are_no_whole_blocks_are_stored_by_the_threads(rows: int, columns: int) -> None:
    module = program(rows, columns)
    assert ReadDots().run(module).remarks == ()
    (dot,) = [it for it in checked(module).walk() if it.name == "ttng.warp_group_dot"]
    assert dot.operands[3].hint == "moved" and dot.operands[3].type.startswith(f"tensor<{rows}x{columns}x")
    assert Accumulate().run(module).remarks == ()
    ops = list(checked(module).walk())
    (store,) = [it for it in ops if it.name == "ttng.tmem_store"]
    (issued,) = [it for it in ops if it.name == "ttng.tc_gen5_mma_scaled"]
    assert store.operands[1].hint == "moved" and issued.operands[3] is store.operands[0]
    assert ops.index(store) < ops.index(issued)


def test_both_scales_are_copied_right_before_the_dot() -> None:
    module = program()
    ReadDots().run(module)
    assert Accumulate().run(module).remarks == ()
    ops = list(checked(module).walk())
    at = next(index for index, it in enumerate(ops) if it.name == "ttng.tc_gen5_mma_scaled")
    dot, copies = ops[at], ops[at - 2 : at]
    assert [it.name for it in copies] == ["ttng.tmem_copy"] * 2
    assert [it.operands[1] for it in copies] == dot.operands[3:5]
    assert (dot.properties["a_type"], dot.properties["b_type"]) == ("0 : i32", "4 : i32")


def test_copied_scales_take_columns_and_do_not_change_hands() -> None:
    module = program(256, 8)
    ReadDots().run(module)
    Accumulate().run(module)
    made = [it for it in module.walk() if it.name == "ttng.tmem_alloc"]
    found = {memdesc_type(it.result.type).shape: (columns_of(it.result), changes_hands(it)) for it in made}
    assert found == {(64, 64): (64, True), (256, 8): (16, False), (128, 4): (4, False)}


def test_the_rows_behind_the_first_128_have_columns_of_their_own() -> None:
    types = [MEMORY.replace("64x64", f"{rows}x64") for rows in (128, 256)]
    allocations = "\n".join(op("ttng.tmem_alloc", "", "", f"%d{at}", type) for at, type in enumerate(types))
    made = [it.result for it in blackwell(kernel(allocations)).walk() if it.name == "ttng.tmem_alloc"]
    assert [columns_of(it) for it in made] == [64, 128]
