"""`store_operands`: a tile that the threads compute for a dot is stored to memory of its own."""

from __future__ import annotations

from tawa.transforms.tensor_memory.store_operands import StoreOperands
from tests.cases.programs.tensor_memory import blackwell, memory, mma
from tests.cases.programs.ttgir import BUFFER, OPERAND, SLOT, alloc, for_loop, kernel, load, op
from tests.support.filecheck import brief, check
from tests.support.passes import checked


def test_the_memory_is_allocated_once_and_views_follow() -> None:
    view = op("ttg.memdesc_trans", "%x", BUFFER, "%t", BUFFER, properties="order = array<i32: 1, 0>")
    body = "\n".join((load("a", "a_desc"), alloc("x", "a"), view, mma("t", "x", "d")))
    module = blackwell(kernel(f"{memory('d')}\n{for_loop(body)}"))
    assert StoreOperands().run(module).changed
    check(
        brief(checked(module)),
        """
        CHECK: %[[M:.*]] = "ttg.local_alloc"()
        CHECK: "scf.for"
        CHECK: %[[A:.*]] = "tt.descriptor_load"
        CHECK-NEXT: "ttg.local_store"(%[[A]], %[[M]])
        CHECK-NEXT: %[[T:.*]] = "ttg.memdesc_trans"(%[[M]])
        CHECK-NEXT: "ttng.tc_gen5_mma"(%[[T]], %[[M]],
        """,
    )
    assert all(
        it.results[0].type == SLOT for it in module.walk() if it.name in ("ttg.local_alloc", "ttg.memdesc_trans")
    )


def test_memory_that_only_threads_read_is_left() -> None:
    read = op("ttg.local_load", "%x", BUFFER, "%r", OPERAND)
    module = blackwell(kernel(for_loop("\n".join((load("a", "a_desc"), alloc("x", "a"), read)))))
    assert not StoreOperands().run(module).changed
