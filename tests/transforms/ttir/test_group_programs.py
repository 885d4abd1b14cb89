"""`group_programs`: programs of the grid as groups of one CTA."""

from __future__ import annotations

from tawa.dialects import structure_rules
from tawa.ir import Module, Value, parse_module, print_module, verify_structure
from tawa.symbolic.host.launch_spec import Grouped
from tawa.transforms.ttir.group_programs import GroupedResult, GroupPrograms
from tests.analysis.tile_programs import TileProgram
from tests.support.filecheck import brief, check


def made(module: Module, groups: int = 3) -> GroupedResult:
    """The result of the pass; checks the structure of the module and its round trip through text."""
    result = GroupPrograms(groups).run(module)
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    return result


def program(*, atomic: bool = False) -> TileProgram:
    """Loads tiles of one column in a loop, and stores at its row."""
    p = TileProgram(a="!tt.ptr<f32>", n="i32")
    row, column = p.pid(0), p.pid(1)

    def body(args: list[Value]) -> list[Value]:
        start = p.add(p.mul(column, p.number(64)), args[0])
        p.load(p.add(p.splat(p.args["a"], 64), p.add(p.splat(start, 64), p.range(64))))
        return []

    p.loop((p.number(0), p.args["n"], p.number(1)), [], body)
    one = p.op("arith.constant", [], "f32", value="1.000000e+00 : f32")
    size = p.op("tt.get_num_programs", [], "i32", axis="0 : i32")
    p.effect("tt.store", [p.add(p.args["a"], p.add(row, size)), one])
    if atomic:
        p.op("tt.atomic_rmw", [p.args["a"], p.number(1)], "i32", sem="1 : i32", scope="1 : i32")
    return p


def test_a_group_is_a_program_and_stores_only_if_the_grid_has_it() -> None:
    module = program().finish()
    result = made(module)
    assert result.grouped == Grouped(0, 3) and result.decided.split == "programs"
    check(
        brief(module),
        """
        CHECK: [[CTA:%\\w+]] = "tt.get_program_id"() <{axis = 0 : i32}>
        CHECK: [[GROUP:%\\w+]] = "tt.elementwise_inline_asm"
        CHECK: [[FIRST:%\\w+]] = "arith.muli"([[CTA]], {{%\\w+}})
        CHECK: [[OWN:%\\w+]] = "arith.addi"([[FIRST]], [[GROUP]])
        CHECK: [[LAST:%\\w+]] = "arith.subi"(%tawa_grid_programs_0, {{%\\w+}})
        CHECK: [[PROGRAM:%\\w+]] = "arith.minsi"([[OWN]], [[LAST]])
        CHECK: [[HERE:%\\w+]] = "arith.cmpi"([[OWN]], %tawa_grid_programs_0)
        CHECK: "arith.addi"([[PROGRAM]], %tawa_grid_programs_0)
        CHECK: "scf.if"([[HERE]])
        CHECK: "tt.store"
        """,
    )
    assert brief(module).count("tt.get_num_programs") == 0


def test_a_kernel_whose_programs_cannot_share_is_left_as_it_is() -> None:
    module = program(atomic=True).finish()
    before = print_module(module)
    result = made(module)
    assert result.grouped is None and not result.changed and print_module(module) == before
    assert "may give programs an order" in result.remarks[0].reason


def test_the_grid_is_divided_and_rounded_up() -> None:
    assert Grouped(0, 3).ctas((7, 4)) == (3, 4, 1)
    assert Grouped(1, 2).ctas((7, 4, 5)) == (7, 2, 5)
    assert Grouped(1, 2).size((7,)) == 1
