"""`lower_arefs`: rings become buffers and mbarriers, counts become slot and parity."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tests.cases.programs import ttgir as programs
from tests.cases.programs.tensor_memory import MEMORY, blackwell
from tests.cases.small.pointer_kernels import made
from tests.support.filecheck import brief, check
from tests.support.passes import after


def lowered(text: str, depth: int = 2, mma_depth: int = 0, early_puts: int = 0) -> str:
    return brief(after(LowerArefs, text, depth=depth, mma_depth=mma_depth, early_puts=early_puts)[0])


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_ring_becomes_buffers_and_two_initialised_barriers_a_slot(depth: int) -> None:
    module, _ = after(LowerArefs, programs.tile_gemm(), depth=depth, mma_depth=0)
    buffers = [op.result for op in programs.ops_named(module, "ttg.local_alloc")]
    assert [value.type.split(",")[0] for value in buffers] == [
        *[f"!ttg.memdesc<{depth}x64x64xf16"] * 2,
        *[f"!ttg.memdesc<{depth}x1xi64"] * 2,
    ]
    assert [value.hint for value in buffers[2:]] == ["ring0_full", "ring0_empty"]
    assert len(programs.ops_named(module, "ttng.init_barrier")) == 2 * depth


def test_the_producer_waits_expects_all_bytes_and_copies() -> None:
    check(
        lowered(programs.tile_gemm()),
        """
        CHECK:      [[A:%\\w+]] = "ttg.local_alloc"()
        CHECK-NEXT: [[B:%\\w+]] = "ttg.local_alloc"()
        CHECK-NEXT: [[FULL:%\\w+]] = "ttg.local_alloc"()
        CHECK-NEXT: [[EMPTY:%\\w+]] = "ttg.local_alloc"()
        CHECK:      partition = "producer"
        CHECK:      "scf.for"({{.*}}, [[ZERO:%\\w+]], [[ZERO]])
        CHECK:      [[S:%slot_[0-9]+]]: i32, [[P:%parity_[0-9]+]]: i32):
        CHECK:      [[ONE:%\\w+]] = "arith.constant"() <{value = 1 : i32}>
        CHECK-NEXT: [[NOT:%\\w+]] = "arith.xori"([[P]], [[ONE]])
        CHECK-NEXT: [[E:%\\w+]] = "ttg.memdesc_index"([[EMPTY]], [[S]])
        CHECK-NEXT: "ttng.wait_barrier"([[E]], [[NOT]], [[YES:%\\w+]])
        CHECK-NEXT: [[F:%\\w+]] = "ttg.memdesc_index"([[FULL]], [[S]])
        CHECK-NEXT: "ttng.barrier_expect"([[F]], [[YES]]) <{size = 16384 : i32}>
        CHECK-NEXT: [[SA:%\\w+]] = "ttg.memdesc_index"([[A]], [[S]])
        CHECK-NEXT: "ttng.async_tma_copy_global_to_local"(%a_desc_0, {{.*}}, [[F]], [[SA]], [[YES]])
        CHECK-NEXT: [[SB:%\\w+]] = "ttg.memdesc_index"([[B]], [[S]])
        CHECK-NEXT: "ttng.async_tma_copy_global_to_local"(%b_desc_0, {{.*}}, [[F]], [[SB]], [[YES]])
        """,
    )


def test_the_consumer_waits_reads_views_and_arrives() -> None:
    check(
        lowered(programs.tile_gemm()),
        """
        CHECK:      partition = "consumer"
        CHECK:      [[S:%slot_[0-9]+]]: i32, [[P:%parity_[0-9]+]]: i32):
        CHECK-NEXT: [[F:%\\w+]] = "ttg.memdesc_index"(%ring0_full_0, [[S]])
        CHECK:      "ttng.wait_barrier"([[F]], [[P]],
        CHECK-NEXT: [[A:%\\w+]] = "ttg.memdesc_index"(%ring0_0, [[S]])
        CHECK-NEXT: [[B:%\\w+]] = "ttg.memdesc_index"(%ring0_1, [[S]])
        CHECK:      "ttng.warp_group_dot"([[A]], [[B]], {{.*}})
        CHECK-NEXT: [[E:%\\w+]] = "ttg.memdesc_index"(%ring0_empty_0, [[S]])
        CHECK-NEXT: "ttng.arrive_barrier"([[E]]) <{count = 1 : i32}>
        """,
    )


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_count_advances_without_division(depth: int) -> None:
    text = lowered(programs.tile_gemm(), depth)
    check(
        text,
        f"""
        CHECK:      [[NEXT:%\\w+]] = "arith.addi"([[S:%slot_[0-9]+]], {{{{.*}}}})
        CHECK-NEXT: [[D:%\\w+]] = "arith.constant"() <{{value = {depth} : i32}}>
        CHECK-NEXT: [[WRAP:%\\w+]] = "arith.cmpi"([[NEXT]], [[D]]) <{{predicate = 0 : i64}}>
        CHECK-NEXT: [[ZERO:%\\w+]] = "arith.constant"() <{{value = 0 : i32}}>
        CHECK-NEXT: "arith.select"([[WRAP]], [[ZERO]], [[NEXT]])
        CHECK-NEXT: [[FLIP:%\\w+]] = "arith.extui"([[WRAP]])
        CHECK-NEXT: "arith.xori"({{{{.*}}}}, [[FLIP]])
        """,
    )
    assert "remsi" not in text and "divsi" not in text


def test_a_ring_of_one_slot_flips_its_parity_every_time() -> None:
    text = lowered(programs.tile_gemm(), 1)
    assert "arith.select" not in text
    check(
        text,
        """
        CHECK:      "ttng.async_tma_copy_global_to_local"(%b_desc_0
        CHECK-NEXT: [[ONE:%\\w+]] = "arith.constant"() <{value = 1 : i32}>
        CHECK-NEXT: [[P:%\\w+]] = "arith.xori"({{.*}}, [[ONE]])
        CHECK-NEXT: "scf.yield"({{.*}}, [[P]])
        """,
    )


def test_a_deferred_release_arrives_only_if_there_was_an_iteration() -> None:
    check(
        lowered(programs.tile_gemm(), 2, 1),
        """
        CHECK: "scf.for"
        CHECK: [[OLD:%old_[0-9]+]]: i1, [[S:%slot_[0-9]+]]: i32, {{.*}}):
        CHECK: [[E:%\\w+]] = "ttg.memdesc_index"(%ring0_empty_0, [[S]])
        CHECK: "ttng.arrive_barrier"([[E]], [[OLD]])
        """,
    )


def test_both_halves_of_a_count_go_through_loops_branches_and_whiles() -> None:
    for text in (programs.branching_gemm(), programs.while_gemm()):
        found = lowered(text)
        assert "aref" not in found
        check(found, 'CHECK: "scf.{{if|while}}"\nCHECK: "scf.yield"({{.*}}#{{[0-9]}}, {{.*}}#{{[0-9]}})')


def test_landed_waits_for_the_last_put_of_each_slot() -> None:
    check(
        lowered(programs.remade_gemm()),
        """
        CHECK:      partition = "producer"
        CHECK:      [[S:%slot_[0-9]+]]: i32, [[P:%parity_[0-9]+]]: i32):
        CHECK:      [[BEFORE:%\\w+]] = "arith.xori"([[P]],
        CHECK:      [[ZERO:%\\w+]] = "arith.constant"() <{value = 0 : i32}>
        CHECK-NEXT: [[IS:%\\w+]] = "arith.cmpi"([[ZERO]], [[S]]) <{predicate = 2 : i64}>
        CHECK-NEXT: [[Q:%\\w+]] = "arith.select"([[IS]], [[P]], [[BEFORE]])
        CHECK-NEXT: [[F:%\\w+]] = "ttg.memdesc_index"(%ring0_full_0, [[ZERO]])
        CHECK-NEXT: "ttng.wait_barrier"([[F]], [[Q]],
        CHECK-NEXT: [[ONE:%\\w+]] = "arith.constant"() <{value = 1 : i32}>
        CHECK:      [[F:%\\w+]] = "ttg.memdesc_index"(%ring0_full_0, [[ONE]])
        CHECK-NEXT: "ttng.wait_barrier"([[F]],
        CHECK-NEXT: "tt.make_tensor_descriptor"
        """,
    )


def test_a_fresh_put_does_not_wait() -> None:
    check(
        lowered(programs.tile_gemm(), 2, 0, early_puts=1),
        """
        CHECK:     split_0 = "arith.select"
        CHECK-NOT: wait_barrier
        CHECK:     "ttng.barrier_expect"
        CHECK:     partition = "producer"
        CHECK:     "ttng.wait_barrier"
        CHECK:     "ttng.barrier_expect"
        """,
    )


def test_a_put_expects_the_bytes_of_the_buffers_that_it_fills() -> None:
    check(
        lowered(programs.one_more_operand()),
        f"""
        CHECK:      "ttng.barrier_expect"({{{{.*}}}}) <{{size = {2 * programs.TILE_BYTES} : i32}}>
        CHECK:      "ttng.async_tma_copy_global_to_local"
        CHECK:      "ttng.async_tma_copy_global_to_local"
        CHECK:      "ttng.barrier_expect"({{{{.*}}}}) <{{size = {programs.TILE_BYTES} : i32}}>
        CHECK:      "ttng.async_tma_copy_global_to_local"
        CHECK-NOT:  "ttng.async_tma_copy_global_to_local"
        """,
    )


@pytest.mark.parametrize("text", [programs.gate_up(), programs.two_loops(), programs.persistent_gemm()])
def test_no_aref_operation_or_type_is_left(text: str) -> None:
    assert "aref" not in lowered(text, 3, 2)


def test_copies_have_the_location_of_their_load() -> None:
    module, _ = after(LowerArefs, programs.tile_gemm())
    copies = programs.ops_named(module, "ttng.async_tma_copy_global_to_local")
    assert [copy.loc for copy in copies] == ['"kernel.py":10:4', '"kernel.py":11:4']


# -- other fills -------------------------------------------------------------------------------------------------------


def test_a_cp_async_ring_counts_the_threads_of_its_producer_and_the_reader_fences() -> None:
    check(
        brief(parse_module(made("wrapped").barrier)),
        """
        CHECK:      [[FULL:%ring0_full_0]] = "ttg.local_alloc"()
        CHECK:      [[F0:%\\w+]] = "ttg.memdesc_index"([[FULL]], {{.*}})
        CHECK-NEXT: "ttng.init_barrier"([[F0]]) <{count = 128 : i32}>
        CHECK:      "ttng.init_barrier"({{.*}}) <{count = 1 : i32}>
        CHECK:      "ttng.wait_barrier"
        CHECK-NEXT: "ttng.fence_async_shared"
        CHECK:      "ttng.warp_group_dot"
        CHECK:      "ttg.warp_specialize.partitions"
        CHECK:      "ttng.wait_barrier"
        CHECK:      "ttg.async_copy_global_to_local"
        CHECK:      "ttg.async_copy_global_to_local"
        CHECK-NEXT: "ttng.async_copy_mbarrier_arrive"({{.*}}) <{noIncrement}>
        """,
    )


def test_a_ring_filled_from_registers_loads_before_the_wait_for_the_slot_and_fences_after_the_store() -> None:
    check(
        brief(parse_module(made("filled_with_one").barrier)),
        """
        CHECK:      "ttg.warp_specialize.partitions"
        CHECK:      [[TILE:%\\w+]] = "tt.load"
        CHECK:      "ttng.wait_barrier"
        CHECK:      "ttg.local_store"([[TILE]], {{.*}})
        CHECK-NEXT: "ttng.fence_async_shared"
        CHECK-NEXT: "ttng.arrive_barrier"({{.*}}) <{count = 1 : i32}>
        """,
    )


def test_a_slot_that_is_only_read_into_registers_needs_no_fence_by_the_reader() -> None:
    """The ring of int8 weights in `weight_only` has none; the ring of the other operand has one."""
    text = brief(parse_module(made("weight_only", mma_depth=0).barrier))
    consumer = text[: text.index("ttg.warp_specialize.partitions")]
    waits, fences = consumer.count("ttng.wait_barrier"), consumer.count("ttng.fence_async_shared")
    assert waits == 2 * fences > 0


@pytest.mark.parametrize("payload, fenced", [(programs.SLOT, True), (MEMORY, False)])
def test_threads_fence_what_they_stored_to_shared_memory_before_they_publish_it(payload: str, fenced: bool) -> None:
    ring, index = f"!aref.ring<1 x ({payload})>", "!aref.index<1>"
    properties = 'name = "operand", fill = "threads", reader = "mma"'
    body = (
        programs.op("aref.create", "", "", "%r", ring, properties=properties),
        programs.op("aref.first", "%r", ring, "%i", index),
        programs.op("aref.acquire", "%r, %i", f"{ring}, {index}", "%v", payload),
        programs.op("aref.publish", "%r, %i", f"{ring}, {index}"),
    )
    module = blackwell(programs.kernel("\n".join(body)))
    LowerArefs().run(module)
    names = [op.name for op in module.walk()]
    arrival = names.index("ttng.arrive_barrier")
    assert (names[arrival - 1] == "ttng.fence_async_shared") is fenced
