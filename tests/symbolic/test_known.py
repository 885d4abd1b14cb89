"""The lattice of the interpreter: sums, products, joins, and the premises that bounds rest on."""

from __future__ import annotations

from math import inf

import pytest

from tawa.ir import Block
from tawa.symbolic.known import DIVISORS, LOADED, UNKNOWN, Known, Proof, Trust

M, K = Block(["i32", "i32"]).args
SIZE = Known(0, inf, 16, Proof((M,)))


def test_a_sum_has_the_bounds_and_the_common_divisor_of_its_parts() -> None:
    assert Known(0, 7, 4) + Known(-3, 5, 6) == Known(-3, 12, 2)
    assert Known(0, 7, 4) + Known.number(0) == Known(0, 7, 4)


def test_a_product_has_the_bounds_of_its_corners_and_both_divisors() -> None:
    assert Known(-2, 3, 2) * Known(-5, 4, 3) == Known(-15, 12, 6)
    assert Known.number(0) * UNKNOWN == Known.number(0)
    assert Known(0, inf) * Known.number(-1) == Known(-inf, 0)


def test_a_join_holds_of_both() -> None:
    assert Known(0, 7, 4).join(Known(8, 9, 6)) == Known(0, 9, 2)


@pytest.mark.parametrize("made", [SIZE + Known(1, 2), SIZE * Known(1, 2), SIZE.join(Known(1, 2))])
def test_bounds_rest_on_the_premises_of_the_operands(made: Known) -> None:
    assert made.premises == Proof((M,))


def test_without_bounds_there_is_no_premise() -> None:
    assert SIZE + UNKNOWN == UNKNOWN
    assert Known.from_operands([SIZE], multiple=8, taken=LOADED) == Known(multiple=8)


def test_premises_come_once_in_the_order_in_which_they_are_met() -> None:
    both = Proof((M,), (LOADED,)).and_(Proof((K, M), (DIVISORS, LOADED)))
    assert both == Proof((M, K), (LOADED, DIVISORS))


def test_each_level_of_trust_allows_what_those_before_it_allow() -> None:
    assert list(Trust) == [Trust.NOTHING, Trust.ARGUMENTS, Trust.QUOTIENTS, Trust.MEMORY] == sorted(Trust)
