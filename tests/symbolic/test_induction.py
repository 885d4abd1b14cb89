"""Induction: induction variables as polynomials, and what holds of a carried value in every iteration."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from tawa.dialects.scf import ForOp
from tawa.ir import Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.induction import Induction, InductionVariables, first_and_next
from tawa.symbolic.known import DIVISORS, LOADED, UNKNOWN, Known, Proof
from tawa.symbolic.polynomial import Trip, constant
from tests.analysis.tile_programs import TileProgram

EIGHT = Known.number(8)
Following = Callable[[list[Known]], list[Known]]


def proved(firsts: list[Known], following: Following, running: Known = UNKNOWN) -> list[Known]:
    """What induction proves of the values that a loop carries: what is known of each at first, and of the next ones."""
    p, arguments = TileProgram(m="i32"), list[Value]()
    inits = [p.number(0) for _ in firsts]

    def body(args: list[Value]) -> list[Value]:
        arguments.extend(args[1:])
        return [p.number(0) for _ in firsts]

    yielded = p.loop((p.number(0), p.args["m"], p.number(1)), inits, body).regions[0].block.terminator.operands

    def known_of(value: Value) -> Known:
        if value in inits:
            return firsts[inits.index(value)]
        return following([induction.hypothesis(it) for it in arguments])[yielded.index(value)]

    induction = Induction(known_of, lambda: None, lambda _, multiple: Known(running.low, inf, multiple))
    induction.hypothesis(arguments[0])
    induction.settle()
    return [induction.hypothesis(it) for it in arguments]


@pytest.mark.parametrize(("first", "following", "expected"), [
    (Known.number(0), lambda it: it + EIGHT, Known(0, inf, 8)),
    (Known.number(4), lambda it: it + EIGHT, Known(4, inf, 4)),
    (Known.number(0), lambda it: it, Known(0, inf, 0)),
    (Known.number(8), lambda it: it.join(Known.number(0)), Known(multiple=8)),
    (Known.number(8), lambda it: it + Known.number(-8), Known(multiple=8)),
    (Known(0, 9), lambda it: UNKNOWN, UNKNOWN),
])  # fmt: skip
def test_what_holds_at_first_and_is_kept_holds_always(
    first: Known, following: Callable[[Known], Known], expected: Known
) -> None:
    assert proved([first], lambda all: [following(all[0])]) == [expected]


def test_a_divisor_that_shrinks_in_every_round_is_given_up() -> None:
    assert proved([Known(0, 0, 1 << 30)], lambda all: [Known(0, inf, max(1, all[0].multiple // 2))]) == [Known(0)]


def test_values_that_depend_on_each_other_are_bounded_together() -> None:
    firsts = [Known.number(16), Known.number(48), Known.number(8)]
    following = proved(firsts, lambda all: [all[1], all[0] + Known.number(32), all[0] + EIGHT])
    assert following == [Known(16, inf, 16), Known(48, inf, 16), Known(8, inf, 8)]


def test_premises_are_those_of_what_a_value_follows_from() -> None:
    premise, other = Proof(taken=(LOADED,)), Proof(taken=(DIVISORS,))
    firsts = [Known(0, 0, 8, premise), Known.number(0)]
    bounded, unbounded = proved(firsts, lambda all: [all[0] + EIGHT, Known(-1, 0, 1, other)])
    assert (bounded, unbounded) == (Known(0, inf, 8, premise), UNKNOWN)


def test_a_lower_bound_that_does_not_hold_may_be_taken() -> None:
    assert proved([Known.number(0)], lambda all: [all[0] + Known.number(-8)], Known(0)) == [Known(0, inf, 8)]


def test_induction_variables_are_counted_by_iterations() -> None:
    p = TileProgram(m="i32", k="i32")
    loops: list[Operation] = []

    def body(args: list[Value]) -> list[Value]:
        loops.append(p.loop((args[0], p.args["m"], p.number(4)), [], lambda _: []))
        return []

    outer = p.loop((p.number(2), p.args["m"], p.args["k"]), [], body)
    affine = Affine()
    poly, atoms = affine.poly, affine.atoms
    first = constant(2) + poly(p.args["k"]) * atoms.poly(Trip(outer))
    variable = poly(ForOp(loops[0]).induction)
    expanded = InductionVariables(affine).expand(variable * constant(8))
    assert expanded == (first + atoms.poly(Trip(loops[0])) * constant(4)) * constant(8)


def test_only_arguments_that_a_loop_carries_have_a_first_and_a_next_value() -> None:
    p = TileProgram(m="i32")
    start, inside = p.number(0), list[Value]()

    def body(args: list[Value]) -> list[Value]:
        inside.extend(args)
        return [p.add(args[1], args[0])]

    loop = p.loop((start, p.args["m"], p.number(1)), [start], body)
    variable, carried = inside
    assert first_and_next(carried) == (start, loop.regions[0].block.terminator.operands[0])
    assert [first_and_next(it) for it in (variable, p.args["m"], loop.results[0], start)] == [None] * 4
