"""`accumulate`: dots get their tensor memory; accumulators stay there, or are stored and loaded."""

from __future__ import annotations

from tawa.ir import Module
from tawa.transforms.tensor_memory.accumulate import Accumulate
from tests.cases.programs.tensor_memory import marked
from tests.cases.programs.ttgir import (
    ACC,
    BUFFER,
    alloc,
    binary,
    dot,
    for_loop,
    gemm_loop,
    iteration,
    kernel,
    op,
    store,
)
from tests.support.filecheck import brief, check
from tests.support.passes import checked

ARGUMENT = {"other": ACC}


def accumulated(text: str) -> Module:
    module = marked(text)
    result = Accumulate().run(module)
    assert result.changed and result.remarks == ()
    return checked(module)


def names(module: Module) -> list[str]:
    return [it.name for it in module.walk()]


def test_an_accumulator_that_only_its_dot_uses_stays_in_tensor_memory() -> None:
    check(
        brief(accumulated(kernel(f"{gemm_loop()}\n{store()}"))),
        """
        CHECK: %[[D:.*]] = "ttng.tmem_alloc"()
        CHECK: "scf.for"
        CHECK-NEXT: ^bb1(%{{.*}}: i32, %{{.*}}, %[[USE:.*]]: i1):
        CHECK-NOT: tmem_store
        CHECK: "ttng.tc_gen5_mma"(%{{.*}}, %{{.*}}, %[[D]], %[[USE]], %{{.*}})
        CHECK: %[[ANY:.*]] = "arith.cmpi"
        CHECK: "scf.if"(%[[ANY]])
        CHECK: "ttng.tmem_load"(%[[D]])
        CHECK: "scf.yield"(%zeros
        """,
    )


def test_what_it_has_at_first_is_stored_ahead_of_the_loop() -> None:
    text = kernel(f"{gemm_loop(init='other')}\n{store()}", arguments=ARGUMENT)
    found = [it for it in names(accumulated(text)) if it.startswith(("ttng.", "scf."))]
    assert found == ["ttng.tmem_alloc", "ttng.tmem_store", "scf.for", "ttng.tc_gen5_mma", "scf.yield", "ttng.tmem_load"]


def test_an_accumulator_that_the_threads_change_is_loaded_and_stored_in_the_loop() -> None:
    body = f"{binary('scaled', 'mulf', 'sum', 'other', ACC)}\n{iteration('scaled')}"
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    check(
        brief(accumulated(kernel(f"{loop}\n{store()}", arguments=ARGUMENT))),
        """
        CHECK: %[[D:.*]] = "ttng.tmem_alloc"()
        CHECK: "ttng.tmem_store"(%[[D]], %zeros
        CHECK: "scf.for"
        CHECK: %[[SUM:.*]] = "ttng.tmem_load"(%[[D]])
        CHECK: %[[SCALED:.*]] = "arith.mulf"(%[[SUM]]
        CHECK: "ttng.tmem_store"(%[[D]], %[[SCALED]]
        CHECK: "ttng.tc_gen5_mma"(%{{.*}}, %{{.*}}, %[[D]], %[[YES:.*]], %[[YES2:.*]])
        CHECK: "scf.yield"
        CHECK: "ttng.tmem_load"(%[[D]])
        """,
    )


def test_one_branch_loads_all_accumulators_of_a_loop() -> None:
    body = "\n".join((iteration("sum", "next"), dot("next2", "x", "y", "sum2")))
    carried = {"sum": ("zeros", "next", ACC), "sum2": ("zeros", "next2", ACC)}
    loop = for_loop(body, carried=carried, results="%r:2")
    stores = f"{store('r')}\n{store()}".replace('"(%r)', '"(%r#0)').replace('"(%acc)', '"(%r#1)')
    module = accumulated(kernel(f"{loop}\n{stores}"))
    assert [len(it.results) for it in module.walk() if it.name == "scf.if"] == [2]
    assert names(module).count("ttng.tmem_load") == 2 and names(module).count("arith.cmpi") == 1


def of_tile(type: str) -> Module:
    """A loop whose left operand is computed, from a tile of a type with 128 rows."""
    made = op("arith.truncf", "%other", type, "%half", type.replace("f32", "f16"))
    left = alloc("p", "half").replace("tensor<64x64xf16, #blocked>", type.replace("f32", "f16"))
    body = f"{made}\n{left}\n{iteration()}".replace('warp_group_dot"(%x', 'warp_group_dot"(%p')
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return accumulated(kernel(f"{loop}\n{store()}", arguments={"other": type}))


def test_an_operand_in_the_layout_of_results_goes_through_tensor_memory() -> None:
    module = of_tile(ACC.replace("64x64", "128x64"))
    dots = [it for it in module.walk() if it.name == "ttng.tc_gen5_mma"]
    assert "#ttng.tensor_memory" in dots[0].operands[0].type
    assert names(module).count("ttng.tmem_store") == 1


def test_an_operand_in_another_layout_stays_in_shared_memory() -> None:
    module = of_tile("tensor<128x64xf32, #blocked>")
    dots = [it for it in module.walk() if it.name == "ttng.tc_gen5_mma"]
    assert "#smem" in dots[0].operands[0].type


def test_an_operand_that_is_also_read_transposed_stays_in_shared_memory() -> None:
    type = ACC.replace("64x64", "128x64")
    half = type.replace("f32", "f16")
    made = op("arith.truncf", "%other", type, "%half", half)
    left = alloc("p", "half").replace("tensor<64x64xf16, #blocked>", half)
    view = op("ttg.memdesc_trans", "%p", BUFFER, "%t", BUFFER, properties="order = array<i32: 1, 0>")
    body = "\n".join((made, left, view, iteration("sum", "first"), dot("next", "x", "t", "first")))
    body = body.replace('warp_group_dot"(%x', 'warp_group_dot"(%p', 1)
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    module = accumulated(kernel(f"{loop}\n{store()}", arguments={"other": type}))
    dots = [it for it in module.walk() if it.name == "ttng.tc_gen5_mma"]
    assert all("#smem" in value.type for it in dots for value in it.operands[:2])
