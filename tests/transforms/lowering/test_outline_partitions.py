"""`outline_partitions`: groups become the regions of one ``ttg.warp_specialize``."""

from __future__ import annotations

from tawa.dialects.ttg import WarpSpecializeOp
from tawa.transforms.lowering.outline_partitions import OutlinePartitions
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import after


def test_the_consumer_is_the_default_region_and_the_producer_an_isolated_one() -> None:
    module, _ = after(OutlinePartitions, programs.tile_gemm(), mma_depth=0)
    check(
        brief(module),
        """
        CHECK:      [[ACC:%\\w+]] = "ttg.warp_specialize"({{.*}}) <{
        CHECK-SAME: partitionNumWarps = array<i32: 1>, requestedRegisters = array<i32: 24>}> ({
        CHECK:      "ttng.warp_group_dot"
        CHECK:      "ttg.warp_yield"([[L:%\\w+]]#0)
        CHECK-NEXT: }, {
        CHECK-NEXT: "ttg.warp_specialize.partitions"() ({
        CHECK-NEXT: ^bb{{[0-9]+}}({{.*}}):
        CHECK:      "ttng.async_tma_copy_global_to_local"
        CHECK:      "ttg.warp_return"()
        CHECK-NOT:  warp.group
        CHECK:      "arith.truncf"([[ACC]])
        CHECK:      "tt.return"()
        """,
    )


def test_the_producer_captures_exactly_the_values_that_it_uses_from_above() -> None:
    module, _ = after(OutlinePartitions, programs.tile_gemm(), mma_depth=0)
    view = WarpSpecializeOp(programs.the(module, "ttg.warp_specialize"))
    (block,) = view.partitions
    assert [arg.hint for arg in block.args] == [value.hint for value in view.op.operands]
    assert {arg.hint for arg in block.args} == {"n", "ring0", "ring0_full", "ring0_empty", "a_desc", "b_desc"}
    assert all(arg.uses for arg in block.args)
    assert view.num_warps == (1,)


def test_values_of_early_puts_are_captured_by_the_producer() -> None:
    module, _ = after(OutlinePartitions, programs.tile_gemm(), mma_depth=0, early_puts=2)
    view = WarpSpecializeOp(programs.the(module, "ttg.warp_specialize"))
    assert {"split", "slot", "parity"} <= {value.hint for value in view.op.operands}


def test_there_is_one_fork_and_no_group_left() -> None:
    for text in (programs.persistent_gemm(), programs.while_gemm(), programs.gate_up()):
        module, _ = after(OutlinePartitions, text)
        programs.the(module, "ttg.warp_specialize")
        assert not programs.ops_named(module, "warp.group")
