"""What is known of scalars: signs, bounds, divisibility, and under which premises."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.ir import Block, Builder, Region, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import DIVISORS, LOADED, Proof, Trust
from tawa.symbolic.polynomial import Poly, Trip, constant
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import GREATER_EQUAL, TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "k": "i32", "s": "i32", "wide": "i64"}


def program(*divisible: str) -> TileProgram:
    return TileProgram(divisible, **ARGUMENTS)


def ranges_of(p: TileProgram) -> ValueRanges:
    return ValueRanges(p.function, Affine())


def test_program_ids_and_their_remainders_are_not_negative() -> None:
    p = program()
    pid = p.pid()
    tile = p.add(p.mul(p.binary("remsi", pid, p.args["m"]), p.number(64)), p.number(3))
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    assert known.not_negative(known.affine.poly(tile), end) == Proof()


def test_a_quotient_needs_a_positive_divisor() -> None:
    p = program()
    tile = p.binary("divsi", p.pid(), p.args["m"])
    tiles = p.binary("divsi", p.pid(), p.binary("divsi", p.add(p.args["m"], p.number(63)), p.number(64)))
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    for value in (tile, tiles):
        proof = known.not_negative(known.affine.poly(value), end)
        assert proof is not None and proof.taken == (DIVISORS,)


def test_an_argument_is_not_negative_if_the_launch_says_so() -> None:
    p = program()
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    assert known.not_negative(known.affine.poly(p.args["m"]), end) == Proof((p.args["m"],))
    assert known.not_negative(-known.affine.poly(p.args["m"]), end) is None


def test_an_assumption_is_believed() -> None:
    p = program()
    tile = p.binary("subi", p.binary("divsi", p.pid(), p.args["m"]), p.args["k"])
    p.effect("llvm.intr.assume", [p.compare(tile, p.number(0), GREATER_EQUAL)])
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    assert known.not_negative(known.affine.poly(p.mul(tile, p.number(64))), end) == Proof()


def test_an_index_from_memory_is_taken_to_be_none_under_zero() -> None:
    p = TileProgram((), list="!tt.ptr<i32>")
    block = p.scalar_load(p.args["list"])
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    assert known.not_negative(known.affine.poly(p.mul(block, p.number(64))), end) == Proof((), (LOADED,))
    assert known.not_negative(known.affine.poly(p.binary("subi", p.number(0), block)), end) is None


def test_a_loop_variable_lies_in_its_range() -> None:
    p = program()
    inside: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend((args[0], p.effect("tt.return", [])))
        return []

    p.loop((p.number(64), p.args["m"], p.number(32)), [], body)
    known = ranges_of(p)
    variable = known.affine.poly(inside[0])
    room = known.affine.poly(p.args["m"]) - variable
    assert known.not_negative(variable - constant(64), inside[1]) == Proof()
    assert known.positive(room, inside[1]) == Proof()
    assert known.multiple(variable) == 32
    assert known.multiple(known.affine.atoms.poly(Trip(p.block.ops[-1]))) == 1


@pytest.mark.parametrize("step", ["argument", "difference"])
def test_a_loop_variable_is_no_less_than_where_it_begins_whatever_the_step_is(step: str) -> None:
    p = program()
    inside: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend((args[0], p.effect("tt.return", [])))
        return []

    by = p.args["k"] if step == "argument" else p.binary("subi", p.args["k"], p.args["m"])
    p.loop((p.pid(), p.args["m"], by), [], body)
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    row = known.affine.poly(inside[0]) * constant(128)
    assert known.not_negative(row, inside[1]) == Proof()
    assert known.not_negative(row - constant(1), inside[1]) is None
    assert known.not_negative(known.affine.poly(by), end) != Proof()


def test_a_carried_counter_is_bounded_by_induction() -> None:
    p = program()
    found: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        last = p.compare(args[1], p.args["m"])
        following = p.op("arith.select", [last, p.add(args[1], p.number(8)), p.number(0)], "i32")
        found.extend((following, p.effect("tt.return", [])))
        return [following]

    p.loop((p.number(0), p.args["m"], p.number(1)), [p.number(-8)], body)
    known = ranges_of(p)
    assert known.not_negative(known.affine.poly(found[0]), found[1]) == Proof()
    assert known.multiple(known.affine.poly(found[0])) == 8


def test_divisibility_comes_from_the_arguments() -> None:
    p = program("m", "wide")
    known = ranges_of(p)
    poly = known.affine.poly
    assert known.multiple(poly(p.args["m"]) * constant(4)) == 64
    assert known.multiple(poly(p.args["m"]) + constant(8)) == 8
    assert known.multiple(poly(p.args["k"]) * constant(4)) == 4
    wide = p.binary("muli", p.op("arith.extsi", [p.args["m"]], "i64"), p.args["wide"])
    assert known.multiple(poly(wide)) == 256
    assert known.multiple(Poly()) == 0


@pytest.mark.parametrize(
    ("more", "by", "multiple"), [(0, 2, 32), (1, 2, 32), (9, 2, 4), (0, 3, 1), (0, 128, 1), (3, 4, 16), (-64, 2, 32)]
)
def test_a_quotient_by_a_divisor_is_a_multiple_of_what_remains(more: int, by: int, multiple: int) -> None:
    p = program()
    dividend = p.add(p.mul(p.pid(), p.number(64)), p.number(more))
    known = ranges_of(p)
    assert known.multiple(known.affine.poly(p.binary("divsi", dividend, p.number(by)))) == multiple
    if by & (by - 1) == 0:
        shifted = p.binary("shrsi", dividend, p.number(by.bit_length() - 1))
        assert known.multiple(known.affine.poly(shifted)) == multiple


def test_a_quotient_of_a_negative_number_is_rounded_up() -> None:
    p = program("k")
    known = ranges_of(p)
    dividend = p.add(p.args["k"], p.number(1))
    assert known.multiple(known.affine.poly(p.binary("divsi", p.args["k"], p.number(2)))) == 8
    assert known.multiple(known.affine.poly(p.binary("shrsi", dividend, p.number(1)))) == 8
    assert known.multiple(known.affine.poly(p.binary("divsi", dividend, p.number(2)))) == 1


def test_equal_numbers_are_one_but_for_what_hints_say_of_them() -> None:
    p = program()
    third = [p.binary("divsi", p.args["m"], p.number(3)) for _ in range(3)]
    op = third[2].defining_op
    assert op is not None
    op.attributes["tt.divisibility"] = "16 : i32"
    affine = Affine()
    polys = [affine.poly(value) for value in third]
    assert polys[0] == polys[1] != polys[2]
    facts = ValueRanges(p.function, affine)
    assert [facts.multiple(poly) for poly in polys] == [1, 1, 16]


def test_a_premise_that_no_bound_rests_on_is_not_named() -> None:
    p = program()
    tiles = p.binary("minsi", p.binary("subi", p.args["m"], p.args["k"]), p.number(8))
    place = p.binary("remsi", p.pid(), tiles)
    end = p.effect("tt.return", [])
    known = ranges_of(p)
    assert known.not_negative(known.affine.poly(place), end) == Proof()
    assert known.not_negative(known.affine.poly(p.binary("divsi", place, tiles)), end) == Proof((), (DIVISORS,))


def test_behind_a_loop_holds_what_holds_in_it_and_in_front_of_it() -> None:
    p = program("m")

    def body(args: list[Value]) -> list[Value]:
        return [p.op("arith.select", [p.compare(args[1], args[0]), args[1], p.number(48)], "i32")]

    loop = p.loop((p.number(0), p.args["k"], p.number(1)), [p.number(32)], body)
    ranges = ranges_of(p)
    behind = ranges.known(ranges.affine.poly(loop.results[0]))
    assert (behind.low, behind.multiple) == (32, 16)


def test_a_branch_gives_one_of_two_numbers() -> None:
    p = program("m")
    condition, number = p.compare(p.args["k"], p.args["s"]), p.number(48)
    branch, outer = Builder.at_end(p.block).create("scf.if", [condition], ("i32",)), p.block
    for value in (p.args["m"], number):
        p.block = Block()
        branch.add_region(Region([p.block]))
        p.effect("scf.yield", [value])
    p.block = outer
    ranges = ranges_of(p)
    found = ranges.known(ranges.affine.poly(branch.result), Trust.ARGUMENTS)
    assert (found.low, found.multiple, found.premises) == (0, 16, Proof((p.args["m"],)))


def test_a_number_that_a_while_carries_is_bounded_by_induction() -> None:
    p = program()
    start, step = p.number(32), p.number(16)
    repeat, outer = Builder.at_end(p.block).create("scf.while", [start], ("i32",)), p.block
    before, after = Block(["i32"]), Block(["i32"])
    for block in (before, after):
        repeat.add_region(Region([block]))
    p.block = before
    p.effect("scf.condition", [p.compare(before.args[0], p.args["m"]), before.args[0]])
    p.block = after
    p.effect("scf.yield", [p.add(after.args[0], step)])
    p.block = outer
    ranges = ranges_of(p)
    for value in (before.args[0], after.args[0], repeat.result):
        found = ranges.known(ranges.affine.poly(value))
        assert (found.low, found.multiple) == (32, 16)


def test_a_hint_counts_besides_what_the_operands_say() -> None:
    p = program("m")
    value = p.binary("remsi", p.args["m"], p.number(16))
    op = value.defining_op
    assert op is not None
    op.attributes["tt.divisibility"] = "dense<32> : tensor<1xi32>"
    ranges = ranges_of(p)
    assert ranges.value_multiple(value) == 32
    assert ValueRanges(p.function, Affine(), {value: 96}).value_multiple(value) == 96


def test_a_number_that_depends_on_a_loaded_one_is_from_memory() -> None:
    p = TileProgram((), list="!tt.ptr<i32>", m="i32")
    loaded = p.scalar_load(p.args["list"])
    ranges = ranges_of(p)
    for value, expected in ((loaded, True), (p.binary("divsi", p.args["m"], loaded), True), (p.args["m"], False)):
        assert ranges.from_memory(ranges.affine.poly(value)) is expected
