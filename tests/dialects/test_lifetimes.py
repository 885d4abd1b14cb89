"""When shared memory is free for others: behind its last use, as soon as somebody asks for memory."""

from __future__ import annotations

import pytest

from tawa.dialects.memory.lifetimes import freed_behind
from tawa.ir import Block, Module
from tests.cases.programs.ttgir import op
from tests.sim.small import BUFFER, ROW, kernel

VALUE = op("arith.constant", "", "", "%v", ROW, properties=f"value = dense<1.0> : {ROW}")
FILL = op("ttg.local_alloc", "%v", ROW, "%buffer", BUFFER)
READ = op("ttg.local_load", "%buffer", BUFFER, "%read", ROW)
WAIT = op("ttng.async_tma_store_wait", "", "", properties="pendings = 0 : i32")
ASKS = op("ttg.convert_layout", "%v", ROW, "%again", ROW)


def body(*lines: str) -> Block:
    module: Module = kernel(VALUE, *lines)
    return next(it for it in module.body.ops if it.name == "tt.func").regions[0].blocks[0]


def freed(block: Block) -> list[tuple[str, str]]:
    """Behind which operation each buffer is free."""
    return [(behind.name, it.result.hint) for behind, made in freed_behind(block).items() for it in made]


def test_a_buffer_is_free_in_front_of_what_asks_for_memory_behind_its_last_use() -> None:
    assert freed(body(FILL, READ, ASKS)) == [("ttg.local_load", "buffer")]
    assert freed(body(FILL, READ, WAIT, ASKS)) == [("ttng.async_tma_store_wait", "buffer")]
    assert freed(body(FILL, ASKS, READ)) == []


@pytest.mark.parametrize("view", ["ttg.memdesc_trans", "ttg.memdesc_reshape"])
def test_a_view_keeps_what_it_is_a_view_of(view: str) -> None:
    properties = "order = array<i32: 0>" if view.endswith("trans") else ""
    part = op(view, "%buffer", BUFFER, "%part", BUFFER, properties=properties)
    read = op("ttg.local_load", "%part", BUFFER, "%read", ROW)
    assert freed(body(FILL, part, read, ASKS)) == [("ttg.local_load", "buffer")]


def test_a_local_dealloc_says_it_itself() -> None:
    assert freed(body(FILL, READ, op("ttg.local_dealloc", "%buffer", BUFFER), ASKS)) == []


def test_what_the_end_of_an_iteration_leaves_may_be_taken_by_the_next() -> None:
    numbers = [
        op("arith.constant", "", "", f"%{name}", "i32", properties=f"value = {at} : i32")
        for at, name in enumerate(("low", "high", "step"))
    ]
    inside = "\n".join(("^bb1(%k: i32):", FILL, READ, WAIT, op("scf.yield", "", "")))
    loop = f'"scf.for"(%low, %high, %step) ({{\n{inside}\n}}) : (i32, i32, i32) -> ()'
    block = body(*numbers, loop)
    inner = next(it for it in block.ops if it.name == "scf.for").regions[0].block
    assert freed(inner) == [("ttng.async_tma_store_wait", "buffer")]
    assert freed(block) == []
