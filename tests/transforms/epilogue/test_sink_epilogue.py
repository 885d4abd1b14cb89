"""`sink_epilogue`: code after the last ring access runs after the join of the partitions."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.transforms.epilogue.sink_epilogue import SinkEpilogue
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, TILE, alloc, for_loop, kernel, op, store
from tests.support.filecheck import brief, check
from tests.support.passes import after
from tests.support.pipeline import specialise
from tests.support.protocol import run


def sunk(text: str) -> str:
    return brief(after(SinkEpilogue, text)[0])


def test_the_store_of_the_only_tile_runs_after_the_join() -> None:
    check(
        sunk(programs.tile_gemm()),
        """
        CHECK:      [[ACC:%\\w+]] = "warp.group"() <{partition = "consumer"
        CHECK:      [[W:%\\w+]] = "ttng.warp_group_dot_wait"({{.*}}) <{pendings = 0 : i32}>
        CHECK-NEXT: "aref.consumed"
        CHECK-NEXT: "warp.end"([[W]])
        CHECK-NEXT: })
        CHECK:      "arith.truncf"([[ACC]])
        CHECK:      "tt.descriptor_store"
        CHECK-NEXT: "tt.return"
        """,
    )


def test_constants_are_cloned_and_other_values_become_results_of_the_group() -> None:
    scaled = op("arith.mulf", "%acc, %zeros", f"{ACC}, {ACC}", "%scaled", ACC)
    row = programs.binary("row", "muli", "n", "m")
    stores = store("scaled", at="%row, %zero") + "\n" + store("acc", "d_desc", "%row, %zero")
    text = kernel(f"{row}\n{programs.gemm_loop()}\n{scaled}\n{stores}", arguments={"d_desc": programs.DESC})
    check(
        sunk(text),
        """
        CHECK:     [[G:%\\w+]]:2 = "warp.group"() <{partition = "consumer"
        CHECK:     "warp.end"({{%[a-z_0-9]+}}, %row_0)
        CHECK-DAG: [[Z:%\\w+]] = "arith.constant"() <{value = dense
        CHECK-DAG: [[ZERO:%\\w+]] = "arith.constant"() <{value = 0 : i32}>
        CHECK:     "arith.mulf"([[G]]#0, [[Z]])
        CHECK:     "tt.descriptor_store"({{.*}}, [[G]]#1, [[ZERO]])
        CHECK:     "tt.descriptor_store"({{.*}}, [[G]]#1, [[ZERO]])
        """,
    )


@pytest.mark.parametrize("text", [programs.persistent_gemm(), programs.while_gemm(), programs.branching_gemm()])
def test_a_kernel_without_code_after_its_last_ring_access_does_not_change(text: str) -> None:
    check(
        sunk(text),
        'CHECK: "warp.group"() <{partition = "consumer"\nCHECK: "warp.end"()\nCHECK-NEXT: })\nCHECK-NEXT: "tt.return"',
    )


def test_work_between_two_loops_stays_in_the_consumer() -> None:
    """The second loop still reads the ring."""
    between = op("arith.addf", "%half, %half", f"{ACC}, {ACC}", "%twice", ACC)
    loops = (programs.gemm_loop("half"), between, programs.gemm_loop("acc", "_2", upper="m", init="twice"))
    check(
        sunk(kernel("\n".join((*loops, store())))),
        """
        CHECK:     partition = "consumer"
        CHECK:     "arith.addf"
        CHECK:     "warp.end"
        CHECK-NOT: "arith.addf"
        CHECK:     "arith.truncf"
        """,
    )


def test_the_epilogue_is_executed_once() -> None:
    made = specialise(programs.tile_gemm(), PlanOptions(aref_depth=3, mma_depth=1), Target(4, 3))
    for text in (made.aref, made.barrier):
        trace = run(parse_module(text), {"n": 5})
        assert trace.stores == 1 and trace.wrong == []


def test_no_wgmma_is_in_flight_after_the_join() -> None:
    """Both operands are computed, so no release follows the loop."""
    both = programs.iteration()
    for tile, buffer in (("a", "x"), ("b", "y")):
        double = op("arith.addf", f"%{tile}, %{tile}", f"{TILE}, {TILE}", f"%{tile}_2", TILE)
        both = both.replace(alloc(buffer, tile), f"{double}\n{alloc(buffer, f'{tile}_2')}")
    loop = for_loop(both, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    check(
        sunk(kernel(f"{loop}\n{store()}")),
        """
        CHECK:      [[ACC:%\\w+]] = "warp.group"() <{partition = "consumer"
        CHECK:      [[W:%\\w+]] = "ttng.warp_group_dot_wait"({{.*}}) <{pendings = 0 : i32}>
        CHECK-NEXT: "ttg.local_dealloc"
        CHECK-NEXT: "ttg.local_dealloc"
        CHECK-NEXT: "warp.end"([[W]])
        CHECK-NOT:  "ttg.local_dealloc"
        CHECK:      "tt.descriptor_store"
        """,
    )
