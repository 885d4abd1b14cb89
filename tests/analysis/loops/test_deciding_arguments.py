"""Which arguments decide how much work a program does."""

from __future__ import annotations

from tawa.analysis.loops.deciding_arguments import deciding_arguments
from tawa.ir import Block, Builder, Region, Value
from tests.analysis.tile_programs import TileProgram


def program() -> TileProgram:
    return TileProgram(counts="!tt.ptr<i32>", m="i32", k="i32", stride="i32", scale="f32")


def names(made: TileProgram) -> list[str]:
    return [it.hint for it in deciding_arguments(made.finish().walk())]


def nothing(args: list[Value]) -> list[Value]:
    return args[1:]


def test_bounds_of_loops_decide_through_arithmetic() -> None:
    made = program()
    made.loop((made.number(0), made.mul(made.args["k"], made.pid()), made.number(64)), [], nothing)
    assert names(made) == ["k"]


def test_the_condition_of_a_branch_decides() -> None:
    made = program()
    far = made.compare(made.mul(made.pid(), made.number(64)), made.args["m"])
    branch = Builder.at_end(made.block).create("scf.if", [far], ())
    for _ in range(2):
        branch.add_region(Region([block := Block()]))
        Builder.at_end(block).create("scf.yield", [], ())
    assert names(made) == ["m"]


def test_addresses_and_masks_do_not_decide() -> None:
    made = program()
    at = made.add(made.args["counts"], made.mul(made.pid(), made.args["stride"]))
    made.effect("tt.store", [at, made.args["m"]], boundaryCheck="array<i32>", cache="1 : i32", evict="1 : i32")
    assert names(made) == []


def test_what_is_read_from_memory_is_not_known_to_a_launch() -> None:
    made = program()
    length = made.scalar_load(made.add(made.args["counts"], made.args["stride"]))
    upper = made.add(length, made.args["m"])
    made.loop((made.number(0), upper, made.number(64)), [], nothing)
    assert names(made) == ["m"]
