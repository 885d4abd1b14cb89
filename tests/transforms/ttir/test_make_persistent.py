"""`make_persistent`: a loop over tiles around the body of the kernel."""

from __future__ import annotations

import pytest

from tawa.dialects import structure_rules
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, Value, parse_module, print_module, verify_structure
from tawa.transforms.ttir.make_persistent import MakePersistent, PersistentResult
from tests.analysis.tile_programs import TileProgram
from tests.support.filecheck import brief, check


def made(module: Module) -> PersistentResult:
    """The result of the pass; checks the structure of the module and its round trip through text."""
    result = MakePersistent().run(module)
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    return result


def program(*axes: int) -> TileProgram:
    """Stores 1.0 at the sum of the program ids of some axes."""
    p = TileProgram(a="!tt.ptr<f32>", k="i32")
    at = p.add(p.args["k"], p.number(7))
    for axis in axes:
        at = p.add(at, p.pid(axis))
    value = p.op("arith.constant", [], "f32", value="1.000000e+00 : f32")
    p.effect("tt.store", [p.add(p.args["a"], at), value])
    return p


def test_a_grid_of_one_axis_is_counted() -> None:
    module = program(0).finish()
    assert made(module) == PersistentResult(True, axes=1)
    check(
        brief(module),
        """
        CHECK: [[FIRST:%\\w+]] = "tt.get_program_id"() <{axis = 0 : i32}>
        CHECK: [[STEP:%\\w+]] = "tt.get_num_programs"() <{axis = 0 : i32}>
        CHECK: [[SAME:%\\d+]] = "arith.addi"(%k_0,
        CHECK: "scf.for"([[FIRST]], %tawa_grid_0_0, [[STEP]])
        CHECK-NEXT: ^{{\\w+}}([[TILE:%\\w+]]: i32):
        CHECK-NEXT: "arith.addi"([[SAME]], [[TILE]])
        CHECK: "tt.store"
        CHECK-NEXT: "scf.yield"()
        CHECK: "tt.return"
        """,
    )


def test_the_first_axis_varies_fastest() -> None:
    module = program(2, 0).finish()
    assert made(module) == PersistentResult(True, axes=3)
    check(
        brief(module),
        """
        CHECK: [[PLANE:%\\w+]] = "arith.muli"(%tawa_grid_0_0, %tawa_grid_1_0)
        CHECK: [[ALL:%\\w+]] = "arith.muli"([[PLANE]], %tawa_grid_2_0)
        CHECK: "scf.for"({{%\\w+}}, [[ALL]], {{%\\w+}})
        CHECK-NEXT: ^{{\\w+}}([[TILE:%\\w+]]: i32):
        CHECK: [[X:%\\w+]] = "arith.remsi"([[TILE]], %tawa_grid_0_0)
        CHECK: [[REST:%\\w+]] = "arith.divsi"([[TILE]], %tawa_grid_0_0)
        CHECK: [[Z:%\\w+]] = "arith.divsi"([[REST]], %tawa_grid_1_0)
        CHECK: [[SUM:%\\w+]] = "arith.addi"({{%\\w+}}, [[Z]])
        CHECK: "arith.addi"([[SUM]], [[X]])
        """,
    )


def test_the_size_of_the_grid_is_that_of_the_launch() -> None:
    p = program(0)
    size = p.op("tt.get_num_programs", [], "i32", axis="1 : i32")
    p.effect("tt.store", [p.add(p.args["a"], size), p.op("arith.constant", [], "f32", value="2.000000e+00 : f32")])
    module = p.finish()
    assert made(module).axes == 2
    check(brief(module), 'CHECK: "tt.addptr"(%a_0, %tawa_grid_1_0)')
    assert brief(module).count("tt.get_num_programs") == 1


def test_descriptors_that_are_the_same_for_all_tiles_are_made_once() -> None:
    p = TileProgram(a="!tt.ptr<f16>", m="i32")
    stride = p.number(64, "i64")
    descriptor = "!tt.tensordesc<tensor<64x64xf16>>"
    for base in (p.args["a"], p.add(p.args["a"], p.pid())):
        made_of: list[Value] = [base, p.args["m"], p.args["m"], stride, p.number(1, "i64")]
        p.op("tt.make_tensor_descriptor", made_of, descriptor)
    module = p.finish()
    made(module)
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    loop = next(view for op in function.body.ops if (view := ForOp.of(op)))
    names = [[op.name for op in block.ops].count("tt.make_tensor_descriptor") for block in (function.body, loop.body)]
    assert names == [1, 1]


UNFIT = {
    "tt.print": lambda p: p.effect("tt.print", [p.args["k"]], prefix='"k"', hex="false"),
    "tt.load": lambda p: p.load(p.splat(p.args["a"], 64), more={"cache": "7 : i32"}),
    "tt.atomic_rmw": lambda p: p.op("tt.atomic_rmw", [p.args["a"], p.number(1)], "i32", sem="1 : i32", scope="1 : i32"),
    "tt.call": lambda p: p.effect("tt.call", [], callee="@other"),
    "tt.elementwise_inline_asm": lambda p: p.op("tt.elementwise_inline_asm", [p.args["k"]], "i32", pure="false"),
}


def test_assembly_that_reads_its_position_in_the_grid_is_declined() -> None:
    for text, changed in (
        ("mov.u32 $0, %ctaid.x;", False),
        ("mov.u32 $0, %nctaid.y;", False),
        ("mov.u32 $0, %clusterid.x;", False),
        ("mov.u32 $0, %cluster_ctarank;", False),
        ("add.u32 $0, $1;", True),
    ):
        p = program(0)
        p.op("tt.elementwise_inline_asm", [p.args["k"]], "i32", pure="true", asm_string=f'"{text}"')
        assert MakePersistent().run(p.finish()).changed is changed, text


@pytest.mark.parametrize("name", UNFIT)
def test_operations_that_may_order_programs_are_declined(name: str) -> None:
    p = program(0)
    UNFIT[name](p)
    module = p.finish()
    before = print_module(module)
    result = MakePersistent().run(module)
    assert not result.changed and print_module(module) == before
    word = {
        "tt.print": "tl.device_print",
        "tt.load": "tl.load",
        "tt.elementwise_inline_asm": "tl.inline_asm_elementwise",
    }
    assert result.remarks[0].reason.endswith(f": {word.get(name, name)} may give programs an order, which would change")


def test_an_assumption_does_not_order_programs() -> None:
    p = program(0)
    p.effect("llvm.intr.assume", [p.op("arith.constant", [], "i1", value="true")])
    assert made(p.finish()).changed


def test_a_barrier_orders_the_threads_of_one_program_and_no_programs() -> None:
    p = program(0)
    p.effect("gpu.barrier", [])
    assert made(p.finish()).changed
