"""Quotients: a remainder that is written as a difference is 0 or more if the dividend is."""

from __future__ import annotations

import pytest

from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Proof
from tawa.symbolic.quotients import quotients_in
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import TileProgram

ARGUMENTS = {"m": "i32", "k": "i32"}


def proof(p: TileProgram, value: Value) -> Proof | None:
    end = p.effect("tt.return", [])
    known = ValueRanges(p.function, Affine())
    return known.not_negative(known.affine.poly(value), end)


def left_over(p: TileProgram, dividend: Value, divisor: Value, factor: Value | None = None) -> Value:
    return p.binary("subi", dividend, p.mul(p.binary("divsi", dividend, divisor), factor or divisor))


def test_a_quotient_knows_what_it_takes_and_leaves() -> None:
    p, affine = TileProgram((), **ARGUMENTS), Affine()
    poly = affine.poly(left_over(p, p.pid(), p.args["m"]))
    (quotient,) = quotients_in(affine, poly)
    assert quotient.remainder == poly and not quotient.rounds_down
    times = quotient.times_in(poly * affine.poly(p.args["k"]))
    assert times == affine.poly(p.args["k"])
    assert quotient.times_in(-poly) is None and quotient.times_in(affine.poly(p.args["k"])) is None


def test_what_is_left_of_a_program_id_is_not_negative() -> None:
    p = TileProgram((), **ARGUMENTS)
    assert proof(p, left_over(p, p.pid(), p.args["m"])) == Proof()


def test_nor_is_a_sum_of_such_remainders_scaled_by_arguments() -> None:
    p = TileProgram((), **ARGUMENTS)
    both = p.binary("divsi", p.pid(), p.args["m"])
    parts = [left_over(p, p.pid(), p.args["m"]), p.mul(left_over(p, both, p.args["k"]), p.args["k"])]
    found = proof(p, p.add(p.mul(parts[0], p.number(64)), parts[1]))
    assert found is not None and p.args["k"] in found.arguments


@pytest.mark.parametrize("factor", ["k", "-m"])
def test_the_factor_must_be_the_divisor(factor: str) -> None:
    p = TileProgram((), **ARGUMENTS)
    by = p.args["k"] if factor == "k" else p.binary("subi", p.number(0), p.args["m"])
    less = left_over(p, p.pid(), p.args["m"], by)
    value = less if factor == "k" else p.binary("subi", p.number(0), less)
    assert proof(p, value) is None


def test_what_is_left_of_a_negative_number_is_negative() -> None:
    p = TileProgram((), **ARGUMENTS)
    before = p.binary("subi", p.pid(), p.number(5))
    assert proof(p, left_over(p, before, p.args["m"])) is None


def test_a_shift_rounds_down_so_that_something_is_left_of_every_number() -> None:
    p = TileProgram((), **ARGUMENTS)
    before = p.binary("subi", p.pid(), p.number(5))
    for amount, positive in ((3, True), (2, False)):
        taken = p.mul(p.binary("shrsi", before, p.number(amount)), p.number(8))
        assert (proof(p, p.binary("subi", before, taken)) is not None) == positive
