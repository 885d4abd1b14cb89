"""Trip counts of the skeleton's loops, and the unknown that a loop needs next."""

from __future__ import annotations

import pytest

from tawa.verify.numbers.loops import is_positive, steps_to_try, trip_count
from tawa.verify.run.state import ImpossibleError, NeedError
from tawa.verify.skeleton.program import Terms

TERMS = Terms()
N, S = TERMS(("argument", 0), "n"), TERMS(("argument", 1), "s")
PROGRAMS = TERMS(("tt.get_num_programs", "axis", "0 : i32"))


def test_known_bounds_give_the_trip_count() -> None:
    assert [trip_count(0, upper, 2, None) for upper in (-1, 0, 1, 2, 3)] == [0, 0, 1, 1, 2]


def test_a_step_below_one_is_infeasible() -> None:
    with pytest.raises(ImpossibleError):
        trip_count(0, 4, 0, None)


@pytest.mark.parametrize(
    ("bounds", "term", "role", "range"),
    [
        ((0, N, 2), N, "end", (0, 2)),
        ((N, 8, 2), N, "end", (8, -2)),
        ((N, S, 1), N, "start", (0, 1)),
        ((0, 8, TERMS(("arith.muli", S, 2))), S, "step", (8, 1)),
    ],
)
def test_an_unknown_operand_is_asked_for_with_its_role(
    bounds: tuple[object, ...], term: object, role: str, range: tuple[int, int]
) -> None:
    with pytest.raises(NeedError) as caught:
        trip_count(*bounds, None)  # type: ignore[arg-type]
    assert (caught.value.term, caught.value.role, caught.value.range) == (term, role, range)


def test_steps_to_try_give_one_trip_two_trips_and_so_on() -> None:
    assert list(steps_to_try(8, 3)) == [1, 2, 3, 4, 8]
    assert list(steps_to_try(0, 3)) == [1, 2]


def test_grid_sizes_and_sums_of_positive_numbers_are_positive() -> None:
    assert is_positive(PROGRAMS) and is_positive(TERMS(("arith.addi", PROGRAMS, 1)))
    assert not is_positive(N) and not is_positive(TERMS(("arith.addi", PROGRAMS, -1)))
    assert is_positive(TERMS(("arith.maxsi", N, 1))) and not is_positive(TERMS(("arith.minsi", N, 1)))
