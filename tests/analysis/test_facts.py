"""What is known of scalars: signs, bounds, multiples."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.facts import DIVISORS, LOADED, Facts, Proof
from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Poly, Trip, constant
from tests.analysis.tile_programs import GREATER_EQUAL, TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "k": "i32", "s": "i32", "wide": "i64"}


def program(*divisible: str) -> TileProgram:
    return TileProgram(divisible, **ARGUMENTS)


def facts(p: TileProgram) -> Facts:
    return Facts(p.function, Affine())


def test_program_ids_and_their_remainders_are_not_negative() -> None:
    p = program()
    pid = p.pid()
    tile = p.add(p.mul(p.binary("remsi", pid, p.args["m"]), p.number(64)), p.number(3))
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(tile), end) == Proof()


def test_a_quotient_needs_a_positive_divisor() -> None:
    p = program()
    tile = p.binary("divsi", p.pid(), p.args["m"])
    tiles = p.binary("divsi", p.pid(), p.binary("divsi", p.add(p.args["m"], p.number(63)), p.number(64)))
    end = p.effect("tt.return", [])
    known = facts(p)
    for value in (tile, tiles):
        proof = known.not_negative(known.affine.poly(value), end)
        assert proof is not None and proof.taken == (DIVISORS,)


def test_an_argument_is_not_negative_if_the_launch_says_so() -> None:
    p = program()
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(p.args["m"]), end) == Proof((p.args["m"],))
    assert known.not_negative(-known.affine.poly(p.args["m"]), end) is None


def test_an_assumption_is_believed() -> None:
    p = program()
    tile = p.binary("subi", p.binary("divsi", p.pid(), p.args["m"]), p.args["k"])
    p.effect("llvm.intr.assume", [p.compare(tile, p.number(0), GREATER_EQUAL)])
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(p.mul(tile, p.number(64))), end) == Proof()


def test_an_index_from_memory_is_taken_to_be_none_under_zero() -> None:
    p = TileProgram((), list="!tt.ptr<i32>")
    block = p.scalar_load(p.args["list"])
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(p.mul(block, p.number(64))), end) == Proof((), (LOADED,))
    assert known.not_negative(known.affine.poly(p.binary("subi", p.number(0), block)), end) is None


def test_a_loop_variable_lies_in_its_range() -> None:
    p = program()
    inside: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend((args[0], p.effect("tt.return", [])))
        return []

    p.loop((p.number(64), p.args["m"], p.number(32)), [], body)
    known = facts(p)
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
    known = facts(p)
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
    known = facts(p)
    assert known.not_negative(known.affine.poly(found[0]), found[1]) == Proof()
    assert known.multiple(known.affine.poly(found[0])) == 8


def test_divisibility_comes_from_the_arguments() -> None:
    p = program("m", "wide")
    known = facts(p)
    poly = known.affine.poly
    assert known.multiple(poly(p.args["m"]) * constant(4)) == 64
    assert known.multiple(poly(p.args["m"]) + constant(8)) == 8
    assert known.multiple(poly(p.args["k"]) * constant(4)) == 4
    wide = p.binary("muli", p.op("arith.extsi", [p.args["m"]], "i64"), p.args["wide"])
    assert known.multiple(poly(wide)) == 256
    assert known.multiple(Poly()) == 0


def test_equal_numbers_are_one_but_for_what_hints_say_of_them() -> None:
    p = program()
    third = [p.binary("divsi", p.args["m"], p.number(3)) for _ in range(3)]
    op = third[2].defining_op
    assert op is not None
    op.attributes["tt.divisibility"] = "16 : i32"
    affine = Affine()
    polys = [affine.poly(value) for value in third]
    assert polys[0] == polys[1] != polys[2]
    facts = Facts(p.function, affine)
    assert [facts.multiple(poly) for poly in polys] == [1, 1, 16]
