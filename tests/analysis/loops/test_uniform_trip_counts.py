"""Whether all programs of a grid go through their loops equally often."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.analysis.loops.uniform_trip_counts import MOST_PROGRAMS, trip_counts_are_uniform
from tawa.ir import Block, Builder, Region, Value
from tests.analysis.tile_programs import TileProgram

Bound = Callable[[TileProgram], Value]


def looped(bound: Bound, carried: Bound | None = None) -> bool:
    """One dot in a loop to `bound`, or in one to the last number that a loop to `bound` carries."""
    program = TileProgram(counts="!tt.ptr<i32>", ks="i32", a="tensor<64x64xf16>", b="tensor<64x64xf16>")
    zero, one = program.number(0), program.number(1)
    upper = bound(program)
    if carried is not None:
        start = carried(program)
        upper = program.loop((zero, upper, one), [start], lambda args: [program.add(args[1], args[0])]).results[0]

    def body(args: list[Value]) -> list[Value]:
        program.dot(program.args["a"], program.args["b"])
        return args[1:]

    program.loop((zero, upper, one), [], body)
    return trip_counts_are_uniform(program.finish())


def counts(program: TileProgram, index: Value) -> Value:
    return program.scalar_load(program.add(program.args["counts"], index))


def blocks(programs: int) -> Bound:
    return lambda it: counts(it, it.binary("divsi", it.pid(), it.number(programs)))


def arguments(it: TileProgram) -> Value:
    return it.binary("divsi", it.add(it.args["ks"], it.number(63)), it.number(64))


def own(it: TileProgram) -> Value:
    return it.mul(it.add(it.pid(), it.number(1)), it.number(128))


@pytest.mark.parametrize(
    "bound", [arguments, lambda it: counts(it, it.number(3)), blocks(MOST_PROGRAMS), blocks(8 * MOST_PROGRAMS)]
)
def test_what_comes_from_arguments_and_from_memory_all_read_is_the_same(bound: Bound) -> None:
    assert looped(bound)


@pytest.mark.parametrize("bound", [own, lambda it: counts(it, it.pid()), blocks(MOST_PROGRAMS // 2), blocks(128)])
def test_what_comes_from_the_program_may_differ(bound: Bound) -> None:
    assert not looped(bound)


@pytest.mark.parametrize(("bound", "start", "alike"), [
    (arguments, arguments, True), (own, arguments, False), (arguments, own, False),
])  # fmt: skip
def test_what_a_loop_carries_depends_on_where_it_begins_and_how_often_it_goes_round(
    bound: Bound, start: Bound, alike: bool
) -> None:
    assert looped(bound, start) is alike


def test_loops_without_dots_do_not_matter() -> None:
    program = TileProgram(ks="i32")
    program.loop((program.number(0), program.pid(), program.number(1)), [], lambda args: args[1:])
    assert trip_counts_are_uniform(program.finish())


@pytest.mark.parametrize(("limit", "uniform"), [(arguments, True), (own, False)])
def test_what_a_while_decides_depends_on_its_condition(limit: Bound, uniform: bool) -> None:
    program = TileProgram(ks="i32", a="tensor<64x64xf16>", b="tensor<64x64xf16>")
    zero, one, bound = program.number(0), program.number(1), limit(program)
    repeat, outer = Builder.at_end(program.block).create("scf.while", [zero], ("i32",)), program.block
    before, after = Block(["i32"]), Block(["i32"])
    for block in (before, after):
        repeat.add_region(Region([block]))
    program.block = before
    program.effect("scf.condition", [program.compare(before.args[0], bound), before.args[0]])
    program.block = after
    program.effect("scf.yield", [program.add(after.args[0], one)])
    program.block = outer

    def body(args: list[Value]) -> list[Value]:
        program.dot(program.args["a"], program.args["b"])
        return args[1:]

    program.loop((zero, repeat.result, one), [], body)
    assert trip_counts_are_uniform(program.finish()) is uniform
