"""Bound choices: a bound beside another is one of the whole tile, if tiles do not cross it."""

from __future__ import annotations

import pytest

from tawa.analysis.tma.bound_choices import BoundChoices, Whole
from tawa.ir import Block, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import Bound, Guard
from tawa.symbolic.polynomial import Atom, Poly, constant
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import TileProgram

SHAPE = (64, 32)


def is_argument(atom: Atom) -> bool:
    return isinstance(atom, Value) and isinstance(atom.owner, Block)


class Chunk:
    """``k + r < chunk`` and ``chunk·pid + k + r < length``; k is `step` times the second program id."""

    def __init__(self, step: int = 64, divisible: tuple[str, ...] = ()) -> None:
        p = TileProgram(divisible, chunk="i32", length="i32")
        affine = Affine()
        self.chunk, self.length = (affine.poly(it) for it in p.args.values())
        start = affine.poly(p.mul(p.pid(1), p.number(step)))
        self.pid = affine.poly(p.pid())
        self.inner = Bound("upper", self.chunk - start)
        self.outer = Bound("upper", self.length - self.chunk * self.pid - start)
        self.choices = BoundChoices(affine, ValueRanges(p.function, affine), is_argument)

    def found(self, *bounds: Bound) -> list[tuple[tuple[Bound, ...], tuple[Whole, ...]]]:
        return [(it.bounds, it.wholes) for it in self.choices.of(bounds, SHAPE)]


def alone(bound: Bound) -> Bound:
    return Bound("uniform", bound.room)


def test_the_bounds_as_they_are_come_first() -> None:
    c = Chunk()
    assert c.found(c.inner, c.outer)[0] == ((c.inner, c.outer), ())


def test_a_launch_checks_that_tiles_do_not_cross_a_bound() -> None:
    c = Chunk()
    assert c.found(c.inner, c.outer)[1:] == [((alone(c.inner), c.outer), (Whole(c.chunk, 64),))]


def test_what_is_known_is_not_checked() -> None:
    c = Chunk()
    known = Bound("upper", constant(128) - (c.chunk - c.inner.room))
    assert ((alone(known), c.outer), ()) in c.found(known, c.outer)
    cut = Bound("upper", constant(96) - (c.chunk - c.inner.room))
    assert c.found(cut, c.outer) == [((cut, c.outer), ())]


@pytest.mark.parametrize("step", [32, 16, 1])
def test_a_tile_that_begins_anywhere_may_cross_a_bound(step: int) -> None:
    c = Chunk(step)
    assert c.found(c.inner, c.outer) == [((c.inner, c.outer), ())]


def test_bounds_that_do_not_hold_everywhere_stay() -> None:
    c = Chunk()
    guarded = Bound("upper", c.inner.room, guards=(Guard(0, c.length),))
    low = Bound("upper", c.inner.room, low=8)
    for bound in (guarded, low, Bound("lower", c.inner.room)):
        assert all(bound in bounds for bounds, _ in c.found(bound, c.outer))


def test_a_minimum_that_the_size_cannot_hold_is_taken_apart() -> None:
    p, affine = TileProgram(m="i32", k="i32"), Affine()
    m, k = p.args.values()
    moving = p.binary("minsi", m, p.binary("subi", k, p.pid()))
    choices = BoundChoices(affine, ValueRanges(p.function, affine), is_argument)

    def rooms(room: Poly) -> list[str]:
        return [affine.atoms.text(bound.room) for bound in choices.taken_apart([Bound("upper", room, 1)])]

    assert rooms(affine.poly(moving)) == ["m", "k - (a program id)"]
