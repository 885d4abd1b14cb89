"""How often a program executes each block."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.analysis.work.visits import USUAL_TRIPS, Visits, count_visits
from tawa.ir import Block, Builder, Operation, Region, Value
from tests.analysis.tile_programs import TileProgram

Body = Callable[[list[Value]], list[Value]]


def nothing(_: list[Value]) -> list[Value]:
    return []


def visits(p: TileProgram, *arguments: int | None, program: int = 0, grid: int = 8) -> Visits:
    p.finish()
    return count_visits(p.function, arguments, (program,), (grid,))


def branch(p: TileProgram, condition: Value) -> Operation:
    op = Builder.at_end(p.block).create("scf.if", [condition], ())
    for _ in range(2):
        block = Block()
        Builder.at_end(block).create("scf.yield", [], ())
        op.add_region(Region([block]))
    return op


@pytest.mark.parametrize(("n", "trips"), [(0, None), (-3, None), (1, 1), (64, 1), (65, 2), (640, 10)])
def test_a_counted_loop_has_its_trips(n: int, trips: int | None) -> None:
    p = TileProgram(n="i32")
    loop = p.loop((p.number(0), p.args["n"], p.number(64)), [], nothing)
    found = visits(p, n)
    assert found.blocks.get(loop.regions[0].block) == trips
    assert found.entries.get(loop) == (1 if trips else None)


def test_bounds_may_depend_on_the_program() -> None:
    p = TileProgram()
    loop = p.loop((p.number(0), p.mul(p.pid(), p.number(3)), p.number(1)), [], nothing)
    p.finish()
    counts = [count_visits(p.function, (), (at,), (8,)).blocks[loop.regions[0].block] for at in (1, 5)]
    assert counts == [3, 15]


def test_an_unknown_number_of_trips_is_the_usual_one() -> None:
    p = TileProgram(n="i32")
    loop = p.loop((p.number(0), p.args["n"], p.number(1)), [], nothing)
    assert visits(p, None).blocks[loop.regions[0].block] == USUAL_TRIPS


def test_a_triangle_of_nested_loops_is_sampled() -> None:
    p, inner = TileProgram(n="i32"), list[Operation]()

    def outer(args: list[Value]) -> list[Value]:
        inner.append(p.loop((p.number(0), args[0], p.number(1)), [], nothing))
        return []

    loop = p.loop((p.number(0), p.args["n"], p.number(1)), [], outer)
    found = visits(p, 100)
    assert found.blocks[loop.regions[0].block] == 100
    assert found.blocks[inner[0].regions[0].block] == pytest.approx(100 * 99 / 2, rel=0.02)
    assert found.entries[inner[0]] == 100


@pytest.mark.parametrize(("flag", "shares"), [(1, (1, None)), (0, (None, 1)), (None, (0.5, 0.5))])
def test_a_branch_is_taken_as_its_condition_says_or_half(flag: int | None, shares: tuple[float | None, ...]) -> None:
    p = TileProgram(flag="i1")
    op = branch(p, p.args["flag"])
    found = visits(p, flag)
    assert tuple(found.blocks.get(region.block) for region in op.regions) == shares


def test_a_branch_that_changes_along_a_loop_is_sampled() -> None:
    p, inner = TileProgram(n="i32"), list[Operation]()

    def body(args: list[Value]) -> list[Value]:
        inner.append(branch(p, p.compare(args[0], p.number(25))))
        return []

    p.loop((p.number(0), p.args["n"], p.number(1)), [], body)
    found = visits(p, 100)
    assert [found.blocks[region.block] for region in inner[0].regions] == [25, 75]


def test_a_while_loop_has_the_usual_number_of_trips() -> None:
    p = TileProgram(flag="i1")
    op = Builder.at_end(p.block).create("scf.while", [], ())
    for name, operands in (("scf.condition", [p.args["flag"]]), ("scf.yield", [])):
        block = Block()
        Builder.at_end(block).create(name, operands, ())
        op.add_region(Region([block]))
    assert visits(p, 1).blocks[op.regions[1].block] == USUAL_TRIPS


def test_programs_are_added_by_weight() -> None:
    p = TileProgram(n="i32")
    loop = p.loop((p.number(0), p.args["n"], p.number(1)), [], nothing)
    p.finish()
    mean = Visits()
    for n in (2, 6):
        mean.add(count_visits(p.function, (n,), (0,), (1,)), 0.5)
    assert mean.blocks[loop.regions[0].block] == 4 and mean.entries[loop] == 1
