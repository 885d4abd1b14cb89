"""`stage_stores`: TMA stores through a staging buffer; where the buffer comes from."""

from __future__ import annotations

from tawa.ir import parse_module
from tawa.pipeline import Target, specialise
from tawa.plan import PlanOptions
from tawa.transforms.stage_stores import StageStores
from tests.support import programs
from tests.support.filecheck import brief, check
from tests.support.passes import after
from tests.support.protocol import run


def staged(text: str) -> str:
    return brief(after(StageStores, text)[0])


def test_a_store_behind_the_last_release_goes_through_the_memory_of_its_ring() -> None:
    check(
        staged(programs.tile_gemm()),
        """
        CHECK:      [[R:%\\w+]] = "aref.create"
        CHECK:      partition = "consumer"
        CHECK-NOT:  ttg.local_alloc
        CHECK:      "ttng.warp_group_dot_wait"({{.*}}) <{pendings = 0 : i32}>
        CHECK-NEXT: "aref.consumed"
        CHECK-NEXT: [[N:%\\w+]] = "arith.truncf"
        CHECK-NEXT: [[S:%\\w+]] = "aref.reuse"([[R]]) <{entry = 0 : i32}>
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_store"([[N]], [[S]])
        CHECK-NEXT: "ttng.fence_async_shared"() <{bCluster = false}>
        CHECK-NEXT: "ttng.async_tma_copy_local_to_global"(%c_desc_0, {{.*}}, [[S]])
        CHECK-NOT:  tt.descriptor_store
        CHECK:      "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "warp.end"
        """,
    )


def test_a_store_before_the_last_release_gets_its_own_buffer() -> None:
    check(
        staged(programs.persistent_gemm()),
        """
        CHECK-NOT:  aref.reuse
        CHECK:      partition = "consumer"
        CHECK-NEXT: [[S:%\\w+]] = "ttg.local_alloc"()
        CHECK:      "ttg.local_store"({{.*}}, [[S]])
        CHECK:      "scf.yield"
        CHECK-NEXT: })
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "warp.end"
        """,
    )


def test_two_stores_of_one_type_share_a_buffer_and_wait_before_each_use() -> None:
    again = programs.store().replace("%acc_", "%again_").replace("%again_narrow = ", "%again_narrow = ")
    text = staged(programs.kernel(f"{programs.gemm_loop()}\n{programs.store()}\n{again}"))
    assert text.count("aref.reuse") == 1
    check(
        text,
        """
        CHECK-COUNT-2: "ttng.async_tma_store_wait"
        CHECK-NEXT: "ttg.local_store"
        CHECK:      "ttng.async_tma_store_wait"
        CHECK-NEXT: "warp.end"
        """,
    )
    assert text.count('"ttng.async_tma_store_wait"') == 3


def test_the_smallest_spare_entry_that_fits_is_reused() -> None:
    """Depth 2: a ring entry of 16 KiB would do for the 8 KiB tile; the staging of fp32 tiles needs both slots."""
    wide = "!tt.tensordesc<tensor<64x64xf32, #shared>>"
    store = programs.op("tt.descriptor_store", "%wide, %acc, %zero, %zero", f"{wide}, {programs.ACC}, i32, i32")
    body = f"{programs.gemm_loop()}\n{programs.store()}\n{store}"
    text = staged(programs.kernel(body, arguments={"wide": wide}))
    assert 'entry = 0 : i32' in text and 'entry = 1 : i32' in text
    assert "ttg.local_alloc" not in text


def test_a_tile_that_fits_no_entry_gets_its_own_buffer() -> None:
    wide = "!tt.tensordesc<tensor<64x64xf32, #shared>>"
    store = programs.op("tt.descriptor_store", "%wide, %acc, %zero, %zero", f"{wide}, {programs.ACC}, i32, i32")
    text = programs.kernel(f"{programs.gemm_loop()}\n{store}", arguments={"wide": wide})
    module, _ = after(StageStores, text, depth=1, mma_depth=0)
    found = brief(module)
    assert "ttg.local_alloc" in found and "aref.reuse" not in found


def test_a_layout_change_that_others_read_stays() -> None:
    stored = programs.store() + "\n" + programs.op("ttg.local_alloc", "%acc_tile", programs.TILE, "%seen", programs.BUFFER)
    stored += "\n" + programs.op("ttg.local_dealloc", "%seen", programs.BUFFER)
    text = staged(programs.kernel(f"{programs.gemm_loop()}\n{stored}"))
    assert '"ttg.convert_layout"' in text


def test_a_kernel_that_reads_what_it_stores_keeps_its_stores_in_place() -> None:
    again = programs.load("back", "c_desc", "%zero, %zero")
    keep = programs.op("tt.descriptor_store", "%d_desc, %back, %zero, %zero", f"{programs.DESC}, {programs.TILE}, i32, i32")
    body = f"{programs.gemm_loop()}\n{programs.store()}\n{again}\n{keep}"
    text = programs.kernel(body, arguments={"d_desc": programs.DESC})
    made = specialise(text, PlanOptions(aref_depth=2), Target(4, 3))
    assert made.plan is not None and not made.plan.staged_stores
    assert "tt.descriptor_store" in made.aref and "async_tma_store_wait" not in made.aref


def test_a_store_in_every_tile_is_staged_in_every_tile() -> None:
    made = specialise(programs.persistent_gemm(3), PlanOptions(aref_depth=2, mma_depth=1), Target(4, 3))
    trace = run(parse_module(made.aref), {"n": 2, "m": 3})
    assert trace.stores == 3 and trace.wrong == []
