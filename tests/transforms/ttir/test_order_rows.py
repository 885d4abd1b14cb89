"""`order_rows`: the rows of a dot's operand, and all that goes with them, in the order of the next dot."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.dims.free_dims import find_free_dims
from tawa.analysis.layout.next_operand import order_for_next_operand
from tawa.analysis.tma.ordered_rows import OrderedDim, OrderedRows, RowLoad
from tawa.bridge.triton.generic_print import read_ttir
from tawa.dialects import structure_rules
from tawa.ir import Module, print_module, verify_structure
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.ttir.order_rows import OrderResult, OrderRows
from tests.cases.small import ordered_kernels as kernels
from tests.matrix.compiling import signature
from tests.support.filecheck import check
from tests.support.fronts import front


def read(kernel: Any) -> Module:
    case = kernels.case(kernel)
    made = front(case.kernel, signature(case), num_warps=case.num_warps)
    return read_ttir(made.ttir, made.context)


def ordered(kernel: Any) -> tuple[Module, OrderResult]:
    """A kernel after the pass, with its structure checked."""
    module = read(kernel)
    rows, dims = OrderedRows(module, LaunchSpec()), list[OrderedDim]()
    for dim in find_free_dims(module):
        loads = tuple(it for load in dim.loads if isinstance(it := rows.find(load), RowLoad))
        order = order_for_next_operand(dim.size, 8, min(it.room for it in loads))
        assert order is not None
        dims.append(OrderedDim(dim, order, loads))
    result = OrderRows(tuple(dims)).run(module)
    assert result.changed
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return module, result


def text(kernel: Any) -> str:
    return print_module(ordered(kernel)[0], locations=False)


def test_rows_come_by_their_runs_and_the_operand_is_put_in_order_again() -> None:
    check(
        text(kernels.plain),
        """
        CHECK: [[U:%\\w+]] = "arith.constant"() <{value = 2 : i32}>
        CHECK-NEXT: [[R:%\\w+]] = "arith.divsi"([[N:%\\w+]], [[U]])
        CHECK-NEXT: [[L:%\\w+]] = "tt.descriptor_load"(%tawa_desc_0_0, [[Z:%\\w+]], [[R]], {{%\\w+}})
        CHECK-SAME: -> tensor<2x32x64xf8E4M3FN>
        CHECK-NEXT: [[K:%\\w+]] = "tt.reshape"([[L]]) : (tensor<2x32x64xf8E4M3FN>) -> tensor<64x64xf8E4M3FN>
        CHECK-NEXT: [[T:%\\w+]] = "tt.trans"([[K]])
        CHECK: [[S:%\\w+]] = "tt.dot"({{%\\w+}}, [[T]],
        CHECK: [[P:%\\w+]] = "arith.maxnumf"([[S]],
        CHECK: [[A:%\\w+]] = "tt.reshape"([[P]]) : (tensor<64x64xf32>) -> tensor<64x2x32xf32>
        CHECK-NEXT: [[B:%\\w+]] = "tt.trans"([[A]]) <{order = array<i32: 0, 2, 1>}>
        CHECK-NEXT: [[C:%\\w+]] = "tt.reshape"([[B]]) : (tensor<64x32x2xf32>) -> tensor<64x64xf32>
        CHECK-NEXT: [[F:%\\w+]] = "tt.fp_to_fp"([[C]])
        CHECK: "tt.dot"([[F]],
        """,
    )


def test_the_loads_of_the_second_dot_do_not_change() -> None:
    assert text(kernels.plain).count('"tt.descriptor_load"(%v_desc_0') == 1
    assert '"tt.descriptor_load"(%k_desc_0' not in text(kernels.plain)


def test_a_range_is_put_in_order_and_what_is_computed_from_it_computed_again() -> None:
    found = text(kernels.causal)
    check(
        found,
        """
        CHECK: [[R:%\\w+]] = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}>
        CHECK-NEXT: [[A:%\\w+]] = "tt.reshape"([[R]]) : (tensor<64xi32>) -> tensor<32x2xi32>
        CHECK-NEXT: [[B:%\\w+]] = "tt.trans"([[A]]) <{order = array<i32: 1, 0>}>
        CHECK-NEXT: [[C:%\\w+]] = "tt.reshape"([[B]]) : (tensor<2x32xi32>) -> tensor<64xi32>
        CHECK: "arith.addi"({{%\\w+}}, [[C]])
        """,
    )
    assert found.count('"tt.trans"') == 4  # K, V, the range, and the operand: no mask


def test_rows_of_the_tile_keep_their_range() -> None:
    """One range counts both the rows of the tile and its columns; only the columns move."""
    module, _ = ordered(kernels.branched)
    ranges = [op for op in module.walk() if op.name == "tt.make_range"]
    users = [use.op.name for op in ranges for use in op.result.uses]
    assert "tt.reshape" in users and {"arith.addi", "tt.expand_dims"} & set(users)


def test_addresses_and_masks_of_a_load_through_pointers_follow() -> None:
    check(
        text(kernels.scaled),
        """
        CHECK: [[C:%\\w+]] = "tt.reshape"({{%\\w+}}) : (tensor<2x32xi32>) -> tensor<64xi32>
        CHECK: [[K:%\\w+]] = "arith.addi"({{%\\w+}}, [[C]])
        CHECK: [[M:%\\w+]] = "arith.cmpi"([[K]],
        CHECK: [[P:%\\w+]] = "tt.addptr"({{%\\w+}}, [[K]])
        CHECK: "tt.load"([[P]], [[M]],
        """,
    )


def test_launches_make_one_descriptor_for_all_loads_of_a_tensor() -> None:
    _, result = ordered(kernels.plain)
    (spec,) = result.launch.descriptors
    assert (spec.block, spec.element, spec.element_bytes) == ((2, 32, 64), "f8E4M3FN", 1)
    assert [str(it) for it in result.launch.conditions] == [
        "k_desc >= 1",
        "k_desc.shape[0] >= 2 and k_desc.shape[0] % 2 == 0",
    ]


def test_without_dimensions_nothing_changes() -> None:
    module = read(kernels.plain)
    before = print_module(module)
    result = OrderRows(()).run(module)
    assert (result.changed, result.launch, print_module(module)) == (False, LaunchSpec(), before)


@pytest.mark.parametrize("kernel", [kernels.plain, kernels.causal, kernels.branched])
def test_the_same_kernel_gives_the_same_text(kernel: Any) -> None:
    assert text(kernel) == text(kernel)
