"""`split_rows`: the program for a whole tile becomes the program of one consumer group."""

from __future__ import annotations

import pytest

from tawa.analysis.dims.split_dims import SplitInfo
from tawa.dialects import structure_rules
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.ir import Builder, Module, StructureError, parse_module, print_module, verify_structure
from tawa.plan import Plan
from tawa.plan.decide.split import choose_split
from tawa.remarks import Remark
from tawa.transforms.ttir.split_rows import SplitRows, part_type
from tests.cases.programs.ttgir import op
from tests.cases.programs.ttir import PLAIN, constant, kernel, store
from tests.support.filecheck import brief, check


def chosen(module: Module, groups: int) -> tuple[Plan, SplitInfo]:
    found = choose_split(module, groups, Plan())
    assert not isinstance(found, Remark), found
    return found


def split(text: str, groups: int = 2) -> Module:
    """The module after the pass, with its structure checked."""
    module = parse_module(text)
    decided, info = chosen(module, groups)
    result = SplitRows(info).run(module)
    assert result.changed and decided.split == info.axis
    errors: list[StructureError] = verify_structure(module, structure_rules())
    assert [str(error) for error in errors] == []
    return module


def test_the_box_and_its_offset_become_those_of_the_group() -> None:
    module = split(kernel())
    check(
        brief(module),
        """
        CHECK:      "tt.func"{{.*}}function_type = (!tt.tensordesc<tensor<64x64xf16>>,
        CHECK-SAME: !tt.tensordesc<tensor<64x128xf16>>, !tt.tensordesc<tensor<64x128xf32>>,
        CHECK:      ^bb0(%a_desc_0: !tt.tensordesc<tensor<64x64xf16>>
        CHECK:      [[G:%group_0]] = "tt.elementwise_inline_asm"({{.*}}) <{asm_string = "tawa.group"
        CHECK:      [[O:%offset_0]] = "arith.muli"([[G]],
        CHECK:      [[R:%row_1]] = "arith.addi"(%row_0, [[O]])
        CHECK:      "tt.descriptor_load"(%a_desc_0, [[R]], %zero_0)
        CHECK:      "tt.descriptor_load"(%b_desc_0, %zero_0, %zero_0)
        CHECK:      [[S:%\\w+]] = "arith.addi"(%row_0, [[O]])
        CHECK:      "tt.descriptor_store"(%c_desc_0, %s_0, [[S]], %zero_0)
        """,
    )


def test_the_types_of_tiles_follow_and_whole_ones_stay() -> None:
    text = print_module(split(kernel()), locations=False)
    check(
        text,
        """
        CHECK: "tt.descriptor_load"(%a_desc_0{{.*}}-> tensor<64x64xf16>
        CHECK: "tt.descriptor_load"(%b_desc_0{{.*}}-> tensor<64x128xf16>
        CHECK: "tt.dot"{{.*}} : (tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>) -> tensor<64x128xf32>
        """,
    )


def test_a_constant_gets_the_groups_shape() -> None:
    check(
        print_module(split(kernel()), locations=False),
        """
        CHECK-NOT: tensor<128x128xf32>
        CHECK:     "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x128xf32>}> : () -> tensor<64x128xf32>
        CHECK-NOT: tensor<128x128xf32>
        """,
    )


RANGE = op("tt.make_range", "", "", "%r", "tensor<128xi32>", properties="end = 128 : i32, start = 0 : i32")
ROWS = op("tt.expand_dims", "%r", "tensor<128xi32>", "%rc", "tensor<128x1xi32>", properties="axis = 1 : i32")
COLUMNS = op("tt.expand_dims", "%r", "tensor<128xi32>", "%cr", "tensor<1x128xi32>", properties="axis = 0 : i32")
WIDE = "tensor<128x128xi32>"
MASK = "\n".join(
    (
        RANGE,
        ROWS,
        COLUMNS,
        op("tt.broadcast", "%rc", "tensor<128x1xi32>", "%rb", WIDE),
        op("tt.broadcast", "%cr", "tensor<1x128xi32>", "%cb", WIDE),
        op("arith.cmpi", "%rb, %cb", f"{WIDE}, {WIDE}", "%m", "tensor<128x128xi1>", properties="predicate = 5 : i64"),
        constant("low", "dense<0xFF800000>", "tensor<128x128xf32>"),
        op(
            "arith.select",
            "%m, %s, %low",
            "tensor<128x128xi1>, tensor<128x128xf32>, tensor<128x128xf32>",
            "%masked",
            "tensor<128x128xf32>",
        ),
    )
)


def test_one_range_that_numbers_rows_and_columns_is_made_twice() -> None:
    module = split(kernel(MASK, store("masked")))
    check(
        print_module(module, locations=False),
        """
        CHECK:     [[C:%r_0]] = "tt.make_range"() <{end = 128 : i32, start = 0 : i32}>
        CHECK:     [[H:%r_1]] = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32>
        CHECK:     [[O:%\\d+]] = "tt.splat"(%offset_0) : (i32) -> tensor<64xi32>
        CHECK:     [[R:%r_2]] = "arith.addi"([[H]], [[O]])
        CHECK:     "tt.expand_dims"([[R]]) <{axis = 1 : i32}> : (tensor<64xi32>) -> tensor<64x1xi32>
        CHECK:     "tt.expand_dims"([[C]]) <{axis = 0 : i32}> : (tensor<128xi32>) -> tensor<1x128xi32>
        CHECK:     "tt.broadcast"{{.*}} : (tensor<64x1xi32>) -> tensor<64x128xi32>
        CHECK:     "tt.broadcast"{{.*}} : (tensor<1x128xi32>) -> tensor<64x128xi32>
        CHECK:     dense<0xFF800000> : tensor<64x128xf32>
        """,
    )


def test_no_type_of_the_whole_tile_is_left() -> None:
    text = print_module(split(kernel(MASK, store("masked"))), locations=False)
    for type in ("tensor<128x1xi32>", WIDE, "tensor<128x128xi1>", "tensor<128x128xf32>"):
        assert type not in text, type


def test_a_range_that_does_not_start_at_zero_keeps_its_start() -> None:
    text = kernel(MASK, store("masked")).replace(
        "end = 128 : i32, start = 0 : i32", "end = 256 : i32, start = 128 : i32"
    )
    assert "end = 192 : i32, start = 128 : i32" in print_module(split(text))


def test_columns_shift_the_column_offset_only() -> None:
    module = split(kernel(rows=64))
    check(
        brief(module),
        """
        CHECK: "tt.descriptor_load"(%a_desc_0, %row_0, %zero_0)
        CHECK: [[O:%zero_1]] = "arith.addi"(%zero_0, %offset_0)
        CHECK: "tt.descriptor_load"(%b_desc_0, %zero_0, [[O]])
        CHECK: [[S:%zero_2]] = "arith.addi"(%zero_0, %offset_0)
        CHECK: "tt.descriptor_store"(%c_desc_0, %s_0, %row_0, [[S]])
        """,
    )


def test_a_descriptor_made_in_the_kernel_is_made_with_the_groups_box() -> None:
    box = "!tt.tensordesc<tensor<128x128xf32>>"
    made = op(
        "tt.make_tensor_descriptor",
        "%out, %n, %n, %stride, %one",
        "!tt.ptr<f32>, i32, i32, i64, i64",
        "%d",
        box,
        properties="operandSegmentSizes = array<i32: 1, 2, 2>, padding = 1 : i32",
    )
    numbers = "\n".join((constant("stride", "512 : i64", "i64"), constant("one", "1 : i64", "i64")))
    text = print_module(split(kernel(f"{numbers}\n{made}", store(desc="d"))), locations=False)
    check(text, 'CHECK: "tt.make_tensor_descriptor"{{.*}} -> !tt.tensordesc<tensor<64x128xf32>>')


def test_a_tile_of_scalars_alone_is_stored_in_parts() -> None:
    wide = "tensor<128x128x!tt.ptr<f32>>"
    zeros = "\n".join(
        (
            op("tt.splat", "%out", "!tt.ptr<f32>", "%at", wide),
            op("tt.store", "%at, %zeros", f"{wide}, tensor<128x128xf32>", properties=PLAIN),
        )
    )
    text = print_module(split(kernel(zeros)), locations=False)
    check(text, 'CHECK: "tt.store"{{.*}} : (tensor<64x128x!tt.ptr<f32>>, tensor<64x128xf32>)')


def test_the_pass_says_what_it_split() -> None:
    module = parse_module(kernel())
    result = SplitRows(chosen(module, 2)[1]).run(module)
    assert [(remark.kind, remark.reason) for remark in result.remarks] == [
        ("note", "128 rows are split over 2 groups of 64")
    ]


def test_four_groups_share_256_rows() -> None:
    text = print_module(split(kernel(rows=256), 4), locations=False)
    assert "tensor<64x128xf32>" in text
    assert "256x" not in text


def test_a_declined_module_is_not_touched() -> None:
    text = kernel(op("tt.print", "", "", properties='prefix = "x"'))
    module = parse_module(text)
    before = print_module(module)
    refusal = choose_split(module, 2, Plan())
    assert isinstance(refusal, Remark) and refusal.kind == "declined"
    assert print_module(module) == before


@pytest.mark.parametrize(
    ("text", "dim", "part"),
    [
        ("tensor<128x64xf16>", 0, "tensor<64x64xf16>"),
        ("tensor<128x64x!tt.ptr<f16>, #blocked>", 1, "tensor<128x32x!tt.ptr<f16>, #blocked>"),
        ("!tt.tensordesc<tensor<128x64xf16>>", 0, "!tt.tensordesc<tensor<64x64xf16>>"),
        ("!tt.tensordesc<1x128x64xsi8>", 1, "!tt.tensordesc<1x64x64xsi8>"),
    ],
)
def test_a_part_of_a_type_is_spelled_as_the_whole(text: str, dim: int, part: str) -> None:
    assert part_type(text, dim, 2) == part


def test_the_marker_is_told_from_other_inline_assembly() -> None:
    module = split(kernel())
    markers = [found for found in module.walk() if GroupIndexOp.matches(found)]
    assert len(markers) == 1
    marker = markers[0]
    assert GroupIndexOp.of(marker) is not None
    marker.properties["asm_string"] = '"mov.u32 $0, $1;"'
    assert not GroupIndexOp.matches(marker)
    assert GroupIndexOp.of(marker) is None
    with pytest.raises(ValueError, match="GroupIndexOp does not read this"):
        GroupIndexOp(marker)


def test_the_marker_is_pure_and_takes_the_number_of_groups() -> None:
    module = parse_module(kernel())
    function = module.body.ops[0]
    value = GroupIndexOp.create(Builder.at_start(function.regions[0].block), 3)
    marker = value.defining_op
    assert marker is not None and marker.properties["pure"] == "true"
    source = marker.operands[0].defining_op
    assert source is not None and source.properties["value"] == "3 : i32"
