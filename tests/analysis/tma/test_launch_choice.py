"""Which kernel a launch gets: the specialised one, or stock Triton's."""

from __future__ import annotations

import pytest

from tawa.analysis.tma.launch_choice import (
    MOST_TILES,
    clauses_of,
    fits,
    grid_domain,
    grid_values,
    why_not_launchable,
)
from tawa.symbolic.host.expr import Apply, Argument, Condition, Number
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec

K = Argument(1, "K")
POSITIVE = Condition(K, "sizes are positive", 1)
SPEC = LaunchSpec(conditions=(POSITIVE,))
QUOTIENT = LaunchSpec(
    (DescriptorSpec(0, Apply("divide", (Number(64), K)), (Number(8),), (Number(1),), (8,), "f16", 2, 3),)
)


@pytest.mark.parametrize(("k", "why"), [(1, ""), (0, "the arguments do not satisfy K >= 1")])
def test_conditions_decide_whether_it_can_be_launched(k: int, why: str) -> None:
    assert why_not_launchable(SPEC, [0, k], (1,)) == why


def test_a_divisor_of_zero_leaves_the_launch_to_stock() -> None:
    assert why_not_launchable(QUOTIENT, [0, 4], (1,)) == ""
    assert "a divisor is zero" in why_not_launchable(QUOTIENT, [0, 0], (1,))


@pytest.mark.parametrize(
    ("grid", "axes", "known"),
    [((8,), 1, True), ((8, 1, 1), 1, True), ((8, 2), 1, False), ((8, 2), 2, True), ((8, 2, 2), 2, False),
     ((MOST_TILES,), 1, True), ((MOST_TILES + 1,), 1, False)],
)  # fmt: skip
def test_a_persistent_kernel_knows_a_grid_by_its_first_sizes(grid: tuple[int, ...], axes: int, known: bool) -> None:
    assert fits(grid, axes) is known
    assert bool(why_not_launchable(LaunchSpec(axes=axes), [], grid)) is not known


@pytest.mark.parametrize("spec", [SPEC, QUOTIENT, LaunchSpec(axes=1), LaunchSpec(axes=2)])
def test_clauses_hold_of_just_the_launches_that_get_the_kernel(spec: LaunchSpec) -> None:
    seen: set[bool] = set()
    clauses = clauses_of(spec, 2)
    for k in (0, 1, 4, 9, 10):
        for grid in ((1,), (2,), (3,), (8,), (2, 2), (1, 1, 2)):
            values = [0, k]
            taken = not why_not_launchable(spec, values, grid)
            seen.add(taken)
            assert all(it.holds([*values, *grid_values(grid)]) for it in clauses) is taken, (k, grid)
    assert seen == {True, False}


def test_a_grid_has_at_least_one_program() -> None:
    assert {limits.low for limits in grid_domain(2).values()} == {1} and set(grid_domain(2)) == {2, 3, 4}
