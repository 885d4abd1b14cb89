"""Affine tiles: sums, quotients, where they hold; masks as bounds."""

from __future__ import annotations

from dataclasses import replace

from tawa.ir import Operation
from tawa.symbolic.affine_tile import AffineTile, Bound, Guard, Mask, Run, less
from tawa.symbolic.polynomial import ONE, ZERO, Atoms, Poly, constant

ATOMS = Atoms()
M, K = (ATOMS.poly(it) for it in Operation("test.numbers", result_types=["i32", "i32"], hints=("m", "k")).results)
ROWS = AffineTile(K, {0: ONE})


def below(room: Poly, modulus: Poly | None = None, whole: bool = True) -> Guard:
    return Guard(0, room, modulus, whole)


def test_lanes_that_cancel_are_gone() -> None:
    found = ROWS.plus(ROWS.times(constant(-1)))
    assert found is not None and found == AffineTile(ZERO) and found.uniform


def test_a_sum_holds_where_both_parts_do() -> None:
    left, right = ROWS.guarded([below(M, M)]), AffineTile(M).guarded([below(K)])
    found = left.plus(right)
    assert found is not None and found.guards == (below(M, M), below(K, whole=False))


def test_a_sum_of_what_wraps_and_what_does_not_wraps_in_part() -> None:
    found = ROWS.guarded([below(M, M)]).plus(ROWS)
    assert found is not None and found.guards == (below(M, M, whole=False),)


def test_a_quotient_shares_numbers_in_runs() -> None:
    tile = AffineTile(K * constant(8), {0: ONE})
    found = tile.divided(8, (64,), towards_zero=True)
    assert found is not None and found.offset == K and found.runs == (Run(0, 8, K * constant(8)),)
    assert found.run(0) == 8 and found.run(1) == 1
    other = tile.divided(4, (64,), towards_zero=True)
    assert other is not None and found.plus(other) is None
    assert found.plus(found.times(constant(-1))) is None
    assert tile.divided(8, (60,), towards_zero=True) is None
    assert ROWS.divided(8, (64,), towards_zero=True) is None


def test_a_shift_asks_nothing_of_the_sign_of_what_it_divides() -> None:
    found = AffineTile(K * constant(8), {0: ONE}).divided(8, (64,), towards_zero=False)
    assert found is not None and found.runs == (Run(0, 8, ZERO),)


def test_dimensions_move_with_all_that_names_them() -> None:
    tile = AffineTile(K, {0: ONE}, guards=(below(M),), runs=(Run(0, 8, K),))
    found = tile.moved({0: 1})
    assert (found.lanes, found.guards, found.runs) == ({1: ONE}, (Guard(1, M),), (Run(1, 8, K),))


def test_a_comparison_is_a_bound_of_one_dimension() -> None:
    assert less(ROWS, AffineTile(M), or_equal=False) == Mask((Bound("upper", M - K),))
    assert less(AffineTile(M), ROWS, or_equal=True) == Mask((Bound("lower", K - M + ONE),))
    assert less(AffineTile(K), AffineTile(M), or_equal=False) == Mask((Bound("uniform", M - K),))
    assert less(ROWS, AffineTile(M, {1: ONE}), or_equal=False) is None
    assert less(ROWS.times(constant(2)), AffineTile(M), or_equal=False) is None


def test_a_comparison_of_quotients_is_one_of_what_they_divide() -> None:
    """r // 8 < m where r < 8·m, and r // 8 >= m where r >= 8·m."""
    quotient = AffineTile(ZERO, {0: ONE}, runs=(Run(0, 8, ZERO),))
    assert less(quotient, AffineTile(M), or_equal=False) == Mask((Bound("upper", M * constant(8)),))
    lower = less(AffineTile(M), quotient, or_equal=True)
    assert lower == Mask((Bound("lower", constant(1) - M * constant(8)),))
    divided = replace(quotient, runs=(Run(0, 8, K),))
    assert less(divided, AffineTile(M), or_equal=False) == Mask((Bound("upper", M * constant(8), divided=(K,)),))


def test_a_comparison_of_places_in_runs_says_so() -> None:
    place = AffineTile(K, runs=(Run(0, 8, ZERO),), within={0: ONE})
    assert less(place, AffineTile(M), or_equal=False) == Mask((Bound("upper", M - K, low=8),))
    both = replace(place, lanes={0: ONE})
    assert less(both, AffineTile(M), or_equal=False) is None


def test_a_comparison_of_what_wraps_around_says_where_it_holds() -> None:
    found = less(ROWS.guarded([below(M, M)]), AffineTile(M), or_equal=False)
    assert found is not None
    assert found.bounds == (Bound("upper", M - K, 0, (below(M, M, whole=True),)),)
    assert found.as_guards() == (below(M - K), below(M, M))


def test_only_upper_bounds_guard_a_selection() -> None:
    assert Mask((Bound("upper", M), Bound("lower", K))).as_guards() is None
    assert Mask().as_guards() == ()


def test_a_conjunction_names_each_bound_once() -> None:
    upper, alone = Mask((Bound("upper", M),)), Mask((Bound("uniform", K),))
    assert upper.both(alone).both(upper) == Mask((Bound("upper", M), Bound("uniform", K)))
    assert upper.both(alone).moved({0: 1}).bounds == (Bound("upper", M, 1), Bound("uniform", K))
