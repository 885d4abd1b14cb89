"""What a value is computed from."""

from __future__ import annotations

from tawa.ir import Block, Builder, Region, Value
from tawa.symbolic.origins import origins_of
from tests.analysis.tile_programs import TileProgram


def program() -> TileProgram:
    return TileProgram(m="i32", k="i32", list="!tt.ptr<i32>")


def operations(value: Value, **options: bool) -> set[str]:
    return {op.name for op in origins_of([value], **options).operations}


def arguments(value: Value, **options: bool) -> set[str]:
    return {argument.hint for argument in origins_of([value], **options).arguments}


def test_data_comes_through_operands() -> None:
    p = program()
    loaded = p.scalar_load(p.add(p.args["list"], p.pid()))
    value = p.add(loaded, p.args["m"])
    assert operations(value) == {"arith.addi", "tt.load", "tt.addptr", "tt.get_program_id"}
    assert arguments(value) == {"m", "list"}


def test_an_operation_that_is_not_followed_is_a_source_and_its_operands_are_not() -> None:
    p = program()
    value = p.add(p.scalar_load(p.args["list"]), p.args["m"])
    found = origins_of([value], follow=lambda op: op.name != "tt.load")
    assert [op.name for op in found.operations] == ["arith.addi", "tt.load"]
    assert found.arguments == (p.args["m"],)


def test_a_loop_hands_on_data_and_its_bounds_decide() -> None:
    p = program()
    inside: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend(args)
        return [p.add(args[1], p.args["k"])]

    loop = p.loop((p.number(0), p.args["m"], p.number(1)), [p.pid()], body)
    for value in (inside[1], loop.results[0]):
        assert (arguments(value), arguments(value, decisions=True)) == ({"k"}, {"k", "m"})
        assert "tt.get_program_id" in operations(value)
    assert (arguments(inside[0]), arguments(inside[0], decisions=True)) == (set(), {"m"})


def test_a_branch_hands_on_data_and_its_condition_decides() -> None:
    p = program()
    condition, zero = p.compare(p.args["m"], p.pid()), p.number(0)
    branch = Builder.at_end(p.block).create("scf.if", [condition], ("i32",))
    outer = p.block
    for value in (p.args["k"], zero):
        p.block = Block()
        branch.add_region(Region([p.block]))
        p.effect("scf.yield", [value])
    p.block = outer
    result = branch.results[0]
    assert (arguments(result), operations(result)) == ({"k"}, {"arith.constant"})
    assert arguments(result, decisions=True) == {"k", "m"}
    assert "arith.cmpi" in operations(result, decisions=True)
