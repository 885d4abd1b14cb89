"""Extremes: what is said of a minimum or a maximum is said of its operands."""

from __future__ import annotations

from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.extremes import parts_of
from tawa.symbolic.polynomial import Poly
from tests.analysis.tile_programs import TileProgram

ARGUMENTS = {"m": "i32", "k": "i32", "s": "i32"}


def texts(affine: Affine, poly: Poly, *kept: Value) -> list[str]:
    return [affine.atoms.text(part) for part in parts_of(affine, poly, lambda atom: atom in kept)]


def test_a_minimum_is_above_what_all_of_its_operands_are_above() -> None:
    p, affine = TileProgram((), **ARGUMENTS), Affine()
    m, k, s = p.args.values()
    least = p.binary("minsi", m, p.binary("minsi", k, s))
    assert texts(affine, affine.poly(least) - affine.poly(p.number(1))) == ["-1 + m", "-1 + k", "-1 + s"]
    assert texts(affine, affine.poly(least), least) == [affine.atoms.text(affine.poly(least))]


def test_a_maximum_is_below_what_all_of_its_operands_are_below() -> None:
    p, affine = TileProgram((), **ARGUMENTS), Affine()
    m, k, s = p.args.values()
    room = affine.poly(s) - affine.poly(p.binary("maxsi", m, k))
    assert sorted(texts(affine, room)) == ["s - k", "s - m"]


def test_the_other_direction_says_nothing_of_the_operands() -> None:
    """m > min(k, s) holds if it is more than one of them."""
    p, affine = TileProgram((), **ARGUMENTS), Affine()
    m, k, s = p.args.values()
    for name, sign in (("minsi", -1), ("maxsi", 1)):
        extreme = affine.poly(p.binary(name, k, s))
        room = affine.poly(m) + (extreme if sign > 0 else -extreme)
        assert parts_of(affine, room) == (room,)


def test_an_extreme_that_appears_twice_stays() -> None:
    p, affine = TileProgram((), **ARGUMENTS), Affine()
    m, k, s = p.args.values()
    least = affine.poly(p.binary("minsi", m, k))
    room = least - least * affine.poly(s)
    assert parts_of(affine, room) == (room,)


def test_a_sum_of_many_extremes_stays() -> None:
    p, affine = TileProgram((), **ARGUMENTS), Affine()
    m, k, _ = p.args.values()
    total = affine.poly(m)
    for number in range(4):
        total = total + affine.poly(p.binary("minsi", k, p.add(m, p.number(number))))
    assert parts_of(affine, total) == (total,)
