"""`exchange_operands`: groups that divide rows share the dots that sum over these rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.dims.exchanged import exchanged_dots
from tawa.analysis.work.workload import find_workload
from tawa.dialects import structure_rules
from tawa.ir import Module, parse_module, print_module, verify_structure
from tawa.plan import Plan
from tawa.plan.decide.split import choose_split
from tawa.plan.search.space import Space
from tawa.remarks import Remark
from tawa.transforms.ttir.exchange_operands import ExchangeOperands
from tawa.transforms.ttir.split_rows import SplitRows
from tests.cases.programs.ttgir import op
from tests.cases.programs.ttir import constant, dot, kernel
from tests.support.filecheck import brief, check

TILE = "tensor<128x128xf32>"
HALF = "tensor<128x128xf16>"
BOX = f"!tt.tensordesc<{TILE}>"


def program(end: str = "") -> str:
    """S = A B; C += trans(S) A, in which the sum is over the rows of A and S. end: another way to add the product."""
    middle = "\n".join(
        (
            op("arith.truncf", "%s", TILE, "%half", HALF),
            op("tt.trans", "%half", HALF, "%turned", HALF, properties="order = array<i32: 1, 0>"),
            constant("none", "dense<0.000000e+00>", TILE),
            dot("q", "turned", "a", "none", 128, 128, 128),
        )
    )
    end = end or op(
        "tt.descriptor_reduce", "%c_desc, %q, %n, %zero", f"{BOX}, {TILE}, i32, i32", properties="kind = 1 : i32"
    )
    return kernel(middle, end, inner=128)


def atomic(sem: int, kind: int = 5, used: bool = False) -> str:
    """The product is added through pointers. sem: 1 is relaxed, 4 acquires and releases. used: what was there is."""
    numbers, pointers = TILE.replace("f32", "i32"), TILE.replace("f32", "!tt.ptr<f32>")
    high = "tensor<128x1xi32>"
    lines = (
        op("tt.make_range", "", "", "%numbers", "tensor<128xi32>", properties="end = 128 : i32, start = 0 : i32"),
        op("tt.expand_dims", "%numbers", "tensor<128xi32>", "%column", high, properties="axis = 1 : i32"),
        op("tt.broadcast", "%column", high, "%offsets", numbers),
        op("tt.splat", "%out", "!tt.ptr<f32>", "%all", pointers),
        op("tt.addptr", "%all, %offsets", f"{pointers}, {numbers}", "%at", pointers),
        op("tt.atomic_rmw", "%at, %q", f"{pointers}, {TILE}", "%old", TILE,
           properties=f"atomic_rmw_op = {kind} : i32, scope = 1 : i32, sem = {sem} : i32"),
        op("tt.descriptor_store", "%c_desc, %old, %row, %zero", f"{BOX}, {TILE}, i32, i32") if used else "",
    )  # fmt: skip
    return "\n".join(lines)


def split(text: str) -> Module:
    module = parse_module(text)
    assert ExchangeOperands(2).run(module).changed
    found = choose_split(module, 2, Plan())
    assert not isinstance(found, Remark), found
    SplitRows(found[1]).run(module)
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return module


def test_the_dot_that_sums_over_the_rows_of_the_others_is_found() -> None:
    found = exchanged_dots(parse_module(program()))
    assert [it.op.result.hint for it in found] == ["q"]
    assert exchanged_dots(parse_module(kernel())) == []


def test_rows_of_such_a_dot_do_not_decide_whether_two_groups_are_tried() -> None:
    found = find_workload(parse_module(program()))
    assert found is not None and [it.exchanged for it in found.dots] == [False, True]

    def groups(exchanged: bool) -> set[int | None]:
        """Of the forms, if the dots that exchange operands, or the others, have 64 rows."""
        blocks = {
            block: replace(
                it, dots=tuple(replace(dot, rows=64) if dot.exchanged == exchanged else dot for dot in it.dots)
            )
            for block, it in found.blocks.items()
        }
        return {it.groups for it in Space(8, 3, replace(found, blocks=blocks), persistent=True).forms}

    assert groups(exchanged=True) == {1, 2} and groups(exchanged=False) == {1}


def test_the_whole_program_computes_the_same_through_marked_operands() -> None:
    module = parse_module(program())
    ExchangeOperands(2).run(module)
    check(
        brief(module),
        """
        CHECK:      [[A:%a_0]] = "tt.descriptor_load"
        CHECK:      [[P:%\\w+]] = "tt.elementwise_inline_asm"([[A]]) <{asm_string = "tawa.part"
        CHECK:      [[S:%\\w+]] = "tt.dot"([[P]], %b_0
        CHECK:      [[H:%\\w+]] = "arith.truncf"([[S]])
        CHECK:      [[W:%\\w+]] = "tt.elementwise_inline_asm"([[H]]) <{asm_string = "tawa.whole"
        CHECK-NEXT: [[T:%\\w+]] = "tt.trans"([[W]])
        CHECK-NEXT: [[X:%\\w+]] = "tt.elementwise_inline_asm"([[T]]) <{asm_string = "tawa.part"
        CHECK-NEXT: "tt.dot"([[X]], [[A]]
        """,
    )


def test_a_group_takes_its_part_of_a_whole_tile_and_adds_its_part_of_the_result() -> None:
    module = split(program())
    check(
        print_module(module, locations=False),
        """
        CHECK:      ^bb0(%a_desc_0: !tt.tensordesc<tensor<128x128xf16>>
        CHECK-SAME: %c_desc_0: !tt.tensordesc<tensor<64x128xf32>>
        CHECK:      "tt.gather"{{.*}}(tensor<128x128xf16>, tensor<64x128xi32>) -> tensor<64x128xf16>
        CHECK:      "tt.dot"{{.*}} -> tensor<64x128xf32>
        CHECK:      asm_string = "tawa.whole"{{.*}} -> tensor<64x128xf16>
        CHECK:      "tt.gather"{{.*}}(tensor<64x128xf16>, tensor<128x128xi32>) -> tensor<128x128xf16>
        CHECK:      "tt.gather"{{.*}}(tensor<128x128xf16>, tensor<64x128xi32>) -> tensor<64x128xf16>
        CHECK:      [[Q:%\\w+]] = "tt.dot"({{.*}}, %a_0, {{.*}}(tensor<64x128xf16>, tensor<128x128xf16>,
        CHECK:      [[I:%\\w+]] = "arith.addi"(%n_0, %offset_0)
        CHECK:      "tt.descriptor_reduce"(%c_desc_0, [[Q]], [[I]], %zero_0)
        """,
    )


def owned_program() -> str:
    """X = half(A B) B + half(A A) A: both dots on the right are whole operands on the left."""
    middle = "\n".join(
        (
            constant("none", "dense<0.000000e+00>", TILE),
            dot("t", "a", "a", "none", 128, 128, 128),
            op("arith.truncf", "%s", TILE, "%half_s", HALF),
            op("arith.truncf", "%t", TILE, "%half_t", HALF),
            dot("x", "half_s", "b", "none", 128, 128, 128),
            dot("y", "half_t", "a", "x", 128, 128, 128),
        )
    )
    end = op("tt.descriptor_reduce", "%c_desc, %y, %n, %zero", f"{BOX}, {TILE}, i32, i32", properties="kind = 1 : i32")
    return kernel(middle, end, inner=128)


def test_groups_that_divide_columns_own_the_dots_whose_results_all_of_them_need() -> None:
    module = parse_module(owned_program())
    assert not ExchangeOperands(2).run(module).changed
    assert ExchangeOperands(2, "columns").run(module).changed
    found = choose_split(module, 2, Plan(split="columns"))
    assert not isinstance(found, Remark), found
    SplitRows(found[1]).run(module)
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    check(
        print_module(module, locations=False),
        """
        CHECK:      [[S:%s\\w*]] = "tt.dot"{{.*}} -> tensor<128x128xf32>
        CHECK:      [[H:%\\w+]] = "arith.truncf"([[S]])
        CHECK:      [[O:%\\w+]] = "tt.elementwise_inline_asm"([[H]], {{.*}}asm_string = "tawa.owned"
        CHECK:      asm_string = "tawa.owned"{{.*}} -> tensor<128x128xf16>
        CHECK:      asm_string = "tawa.part"{{.*}} -> tensor<128x128xf16>
        CHECK-NEXT: constant
        CHECK-NEXT: [[B:%\\w+]] = "tt.gather"{{.*}} -> tensor<128x64xf16>
        CHECK-NEXT: "tt.dot"([[O]], [[B]]{{.*}} -> tensor<128x64xf32>
        CHECK:      "tt.dot"{{.*}} -> tensor<128x64xf32>
        """,
    )


def test_without_enough_rows_for_each_group_nothing_is_exchanged() -> None:
    assert not ExchangeOperands(4).run(parse_module(program())).changed


def test_a_reduction_is_not_divided_where_nothing_is_exchanged() -> None:
    text = kernel(end=op("tt.descriptor_reduce", "%c_desc, %s, %n, %zero", f"{BOX}, {TILE}, i32, i32",
                         properties="kind = 1 : i32"))  # fmt: skip
    found = choose_split(parse_module(text), 2, Plan())
    assert isinstance(found, Remark) and "an atomic would happen in each group" in found.reason


def test_additions_through_pointers_are_divided_as_those_by_tma() -> None:
    check(
        print_module(split(program(atomic(sem=1))), locations=False),
        """
        CHECK:      [[O:%\\w+]] = "arith.muli"([[G:%\\w+]], %{{.*}}
        CHECK:      [[Q:%\\w+]] = "tt.dot"({{.*}}, %a_0, {{.*}}(tensor<64x128xf16>, tensor<128x128xf16>,
        CHECK:      [[R:%\\w+]] = "tt.make_range"() <{end = 64 : i32
        CHECK:      "arith.addi"([[R]], {{.*}}
        CHECK:      [[P:%\\w+]] = "tt.addptr"{{.*}} -> tensor<64x128x!tt.ptr<f32>>
        CHECK:      "tt.atomic_rmw"([[P]], [[Q]]) {{.*}} -> tensor<64x128xf32>
        """,
    )


@pytest.mark.parametrize("text", [atomic(sem=4), atomic(sem=1, kind=10), atomic(sem=1, used=True)])
def test_atomics_that_order_others_or_learn_what_was_there_are_not_divided(text: str) -> None:
    module = parse_module(program(text))
    ExchangeOperands(2).run(module)
    found = choose_split(module, 2, Plan())
    assert isinstance(found, Remark) and "an atomic would happen in each group" in found.reason
