"""`stage_stores`: TMA stores go through a staging buffer, and wait at its next use."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tawa.errors import PlanError
from tawa.flow import Outcome
from tawa.flow import run as run_steps
from tawa.ir import Module, parse_module
from tawa.pipeline import TTGIR
from tawa.plan import PlanOptions, StorePlan
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tawa.transforms.drop_names import DropNames
from tawa.transforms.epilogue.stage_stores import StageStores
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import after, checked, flow_of, plan_for, unchecked
from tests.support.pipeline import specialise
from tests.support.protocol import run
from tests.transforms.pipelining.test_ping_pong import grouped


def staged(text: str) -> str:
    return brief(after(StageStores, text)[0])


def staged_stores(made: Outcome) -> set[bool | None]:
    """The values of `staged` in the Plan for the kernel's stores."""
    assert made.plan is not None and made.plan.stores
    return {it.staged for it in made.plan.stores}


def tiles(stores: str, **arguments: str) -> str:
    """A loop over %m tiles whose epilogue is `stores`."""
    body = programs.for_loop(f"{programs.gemm_loop()}\n{stores}", induction="tile", upper="m")
    return programs.kernel(body, arguments=arguments)


def test_an_epilogue_after_the_join_is_left_to_triton() -> None:
    text = staged(programs.tile_gemm())
    assert "tt.descriptor_store" in text and "async_tma_store_wait" not in text


def test_a_store_inside_the_consumer_leaves_from_a_buffer_and_waits_at_the_next_use() -> None:
    check(
        staged(programs.persistent_gemm()),
        """
        CHECK:      partition = "consumer"
        CHECK:      [[S:%\\w+]] = "ttg.local_alloc"()
        CHECK-NEXT: "scf.for"
        CHECK:      "aref.consumed"({{.*}}#
        CHECK:      [[N:%\\w+]] = "arith.truncf"
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_store"([[N]], [[S]])
        CHECK-NEXT: "ttng.fence_async_shared"() <{bCluster = false}>
        CHECK-NEXT: "ttng.async_tma_copy_local_to_global"(%c_desc_0, {{.*}}, [[S]])
        CHECK-NOT:  tt.descriptor_store
        CHECK:      "scf.yield"
        CHECK-NEXT: })
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_dealloc"([[S]])
        CHECK-NEXT: "warp.end"
        """,
    )


SHARED = "#ttg.nvmma_shared<{{swizzlingByteWidth = {}, transposed = false, elementBitWidth = 32}}>"
WIDE = "!tt.tensordesc<tensor<64x64xf32, #shared>>"


def storing(slices: int, buffers: int | None = None, swizzle: int = 128) -> tuple[Module, Remark | None]:
    """A persistent kernel that stores its fp32 accumulator in slices of its columns, and why it was declined."""
    store = programs.op("tt.descriptor_store", "%wide, %acc, %zero, %two", f"{WIDE}, {programs.ACC}, i32, i32")
    text = tiles(store, wide=WIDE).replace("f32, #shared>>", f"f32, {SHARED.format(swizzle)}>>")
    plan = replace(plan_for(parse_module(text), 2, 1), stores=(StorePlan(slices=slices, buffers=buffers),))
    flow = flow_of(text, plan)
    refusal = run_steps(flow, unchecked(TTGIR), until="StageStores")
    return checked(flow.module), refusal


def in_slices(slices: int, buffers: int | None = None) -> str:
    """The same, as text without types."""
    module, refusal = storing(slices, buffers)
    assert refusal is None
    DropNames().run(module)
    return brief(module)


def test_slices_go_through_one_buffer_and_wait_for_the_one_before() -> None:
    check(
        in_slices(2),
        """
        CHECK:      partition = "consumer"
        CHECK:      [[S:%\\w+]] = "ttg.local_alloc"()
        CHECK-NEXT: "scf.for"
        CHECK:      [[D:%\\w+]] = "builtin.unrealized_conversion_cast"(%wide_0)
        CHECK:      [[PARTS:%\\w+]]:2 = "tt.split"
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_store"([[PARTS]]#0, [[S]])
        CHECK-NEXT: "ttng.fence_async_shared"
        CHECK-NEXT: "ttng.async_tma_copy_local_to_global"([[D]], {{.*}}, %two_0, [[S]])
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK:      [[AT:%\\w+]] = "arith.addi"(%two_0
        CHECK-NEXT: "ttg.local_store"([[PARTS]]#1, [[S]])
        CHECK-NEXT: "ttng.fence_async_shared"
        CHECK-NEXT: "ttng.async_tma_copy_local_to_global"([[D]], {{.*}}, [[AT]], [[S]])
        CHECK-NOT:  tt.descriptor_store
        """,
    )


def test_with_a_buffer_for_each_slice_only_the_first_waits() -> None:
    text = in_slices(2, 2)
    assert text.count('"ttg.local_alloc"') == 2
    assert text.count('"ttng.async_tma_store_wait"') == 2  # the other one is at the end


def test_a_slice_is_as_wide_as_a_box_at_least() -> None:
    """Its descriptor is that of the whole tile, whose boxes have 32 columns of fp32."""
    refusal = storing(4)[1]
    assert refusal is not None
    assert refusal.reason == "a store cannot be sliced: 4 slices of 64 columns have rows of 64 bytes, a box of TMA 128"
    assert refusal.cure == "fewer slices for this store in the Plan"
    assert storing(4, swizzle=64)[1] is None


def test_a_block_without_swizzle_is_one_box_and_has_no_slices() -> None:
    refusal = storing(2, swizzle=0)[1]
    assert refusal is not None
    assert refusal.reason == "a store cannot be sliced: 2 slices of 64 columns have rows of 128 bytes, a box of TMA 256"


def test_two_stores_of_one_type_share_a_buffer_and_wait_before_each_use() -> None:
    again = programs.store().replace("%acc_", "%again_")
    text = staged(tiles(f"{programs.store()}\n{again}"))
    assert text.count('"ttg.local_alloc"') == 1
    assert text.count('"ttng.async_tma_store_wait"') == 3
    check(text, 'CHECK-COUNT-2: "ttng.async_tma_store_wait"\nCHECK-NEXT: "ttg.local_store"')


def test_stores_of_two_types_have_a_buffer_each() -> None:
    wide = "!tt.tensordesc<tensor<64x64xf32, #shared>>"
    store = programs.op("tt.descriptor_store", "%wide, %acc, %zero, %zero", f"{wide}, {programs.ACC}, i32, i32")
    module, _ = after(StageStores, tiles(f"{programs.store()}\n{store}", wide=wide))
    buffers = {op.result.type for op in programs.ops_named(module, "ttg.local_alloc")}
    assert buffers == {programs.SLOT, programs.SLOT.replace("f16", "f32")}


def test_the_buffer_of_one_store_is_allocated_right_before_it_and_lives_until_the_store_is_read() -> None:
    """So it can reuse the memory of tiles that are dead after the loop."""
    made = specialise(grouped(programs.tile_gemm()), PlanOptions(aref_depth=2), Target(4, 3, groups=2))
    check(
        brief(parse_module(made.aref)),
        """
        CHECK:      partition = "consumer0"
        CHECK-NOT:  ttg.local_alloc
        CHECK:      "scf.yield"
        CHECK:      [[S:%\\w+]] = "ttg.local_alloc"()
        CHECK-NEXT: "ttng.async_tma_store_wait"
        CHECK-NEXT: "ttg.local_store"({{.*}}, [[S]])
        CHECK:      "ttng.async_tma_copy_local_to_global"({{.*}}, [[S]])
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_dealloc"([[S]])
        CHECK-NEXT: "warp.end"
        """,
    )


def test_a_layout_conversion_with_other_uses_stays() -> None:
    stored = (
        programs.store() + "\n" + programs.op("ttg.local_alloc", "%acc_tile", programs.TILE, "%seen", programs.BUFFER)
    )
    stored += "\n" + programs.op("ttg.local_dealloc", "%seen", programs.BUFFER)
    text = staged(tiles(stored))
    assert '"ttg.convert_layout"' in text


def test_a_kernel_that_reads_what_it_stores_keeps_its_stores_in_place() -> None:
    again = programs.load("back", "c_desc", "%zero, %zero")
    keep = programs.op(
        "tt.descriptor_store", "%d_desc, %back, %zero, %zero", f"{programs.DESC}, {programs.TILE}, i32, i32"
    )
    text = tiles(f"{programs.store()}\n{again}\n{keep}", d_desc=programs.DESC)
    made = specialise(text, PlanOptions(aref_depth=2), Target(4, 3))
    assert staged_stores(made) == {False}
    assert "tt.descriptor_store" in made.aref and "async_tma_store_wait" not in made.aref


def test_a_release_after_a_store_keeps_the_store_in_place() -> None:
    properties = "atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = 4 : i32"
    types = "!tt.ptr<i32>, i32, i1"
    ready = programs.op("tt.atomic_rmw", "%lock, %one, %flag", types, "%old", "i32", properties=properties)
    text = tiles(f"{programs.store()}\n{ready}", lock="!tt.ptr<i32>")
    made = specialise(text, PlanOptions(aref_depth=2), Target(4, 3))
    assert staged_stores(made) == {False}


def test_a_wait_for_stores_precedes_the_redefinition_of_their_descriptor() -> None:
    made = specialise(programs.remade_store(), PlanOptions(aref_depth=2), Target(4, 3))
    assert staged_stores(made) == {True}
    check(
        brief(parse_module(made.aref)),
        """
        CHECK:      [[STAGE:%\\w+]] = "ttg.local_alloc"()
        CHECK:      "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: [[D:%\\w+]] = "tt.make_tensor_descriptor"(%p_0
        CHECK:      "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_store"({{.*}}, [[STAGE]])
        CHECK:      "ttng.async_tma_copy_local_to_global"([[D]], {{.*}}, [[STAGE]])
        """,
    )


def test_a_store_through_the_descriptor_of_the_previous_tile_stays_in_place() -> None:
    tile = "\n".join((programs.gemm_loop(), programs.store(desc="before"), programs.made("own_c", "p")))
    carried = {"before": ("c_desc", "own_c", programs.DESC)}
    loop = programs.for_loop(tile, induction="tile", upper="m", carried=carried, results="%last")
    text = programs.kernel(f"{programs.EXTENTS}\n{loop}", arguments=programs.BASES)
    made = specialise(text, PlanOptions(aref_depth=2), Target(4, 3))
    assert staged_stores(made) == {False}
    assert "tt.descriptor_store" in made.aref


def test_a_pinned_plan_may_not_defer_stores_that_others_wait_for() -> None:
    again = programs.load("back", "c_desc", "%zero, %zero")
    keep = programs.op(
        "tt.descriptor_store", "%d_desc, %back, %zero, %zero", f"{programs.DESC}, {programs.TILE}, i32, i32"
    )
    text = tiles(f"{programs.store()}\n{again}\n{keep}", d_desc=programs.DESC)
    own = specialise(text, PlanOptions(aref_depth=2), Target(4, 3)).plan
    assert own is not None and specialise(text, PlanOptions(), Target(4, 3), own).applied
    every = (StorePlan(staged=True),)
    one = tuple(replace(it, staged=it.argument == "c_desc") for it in own.stores)
    for stores in (every, one):
        with pytest.raises(PlanError, match=r"staged stores \(c_desc, kernel.py:\d+\).* cure: staged=false"):
            specialise(text, PlanOptions(), Target(4, 3), replace(own, stores=stores))


def test_a_store_in_every_tile_is_staged_in_every_tile() -> None:
    made = specialise(programs.persistent_gemm(3), PlanOptions(aref_depth=2, mma_depth=1), Target(4, 3))
    trace = run(parse_module(made.aref), {"n": 2, "m": 3})
    assert trace.stores == 3 and trace.wrong == []


def test_a_reduction_leaves_from_a_buffer_as_a_store_does() -> None:
    add = programs.op(
        "tt.descriptor_reduce", "%c_desc, %low, %zero, %zero", f"{programs.DESC}, {programs.TILE}, i32, i32",
        properties="kind = 1 : i32",
    )  # fmt: skip
    stored = programs.store()
    place = stored.index('"tt.descriptor_store"')
    tile = re.search(r"descriptor_store\"\(%c_desc, (%\w+)", stored)
    assert tile is not None
    text = staged(tiles(stored[:place] + add.strip().replace("%low", tile[1])))
    check(
        text,
        """
        CHECK:      partition = "consumer"
        CHECK:      [[S:%\\w+]] = "ttg.local_alloc"()
        CHECK:      "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_store"({{.*}}, [[S]])
        CHECK-NEXT: "ttng.fence_async_shared"
        CHECK-NEXT: "ttng.async_tma_reduce"(%c_desc_0, {{.*}}, [[S]]) <{kind = 1 : i32}>
        CHECK-NOT:  tt.descriptor_reduce
        """,
    )
