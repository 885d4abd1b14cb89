"""Which launches share a measurement."""

from __future__ import annotations

import pytest

from tawa.runtime.tuning.shape_class import shape_class

SIZES = [(3, "K")]


def named(k: object, *grid: int) -> str:
    return shape_class(SIZES, [0, 0, 0, k], grid, 132)


@pytest.mark.parametrize(
    ("k", "name"),
    [(4096, "K <= 4096"), (4095, "K <= 4096"), (2049, "K <= 4096"), (4097, "K <= 8192"), (1, "K = 1"), (0, "K = 0"),
     (-5, "K < 0"), (True, "K = 1")],
)  # fmt: skip
def test_deciding_arguments_are_rounded_up_to_a_power_of_two(k: int, name: str) -> None:
    assert named(k, 1) == f"{name}, 1 program"


@pytest.mark.parametrize(
    ("grid", "name"),
    [((3,), "4 programs"), ((64,), "64 programs"), ((100,), "128 programs"), ((132,), "132 programs"),
     ((133,), "2 waves"), ((11, 12, 3), "3 waves"), ((132 * 5,), "8 waves"), ((132 * 8 + 1,), "16 waves")],
)  # fmt: skip
def test_a_grid_is_its_waves_or_for_a_part_of_a_wave_its_programs(grid: tuple[int, ...], name: str) -> None:
    assert named(64, *grid) == f"K <= 64, {name}"


def test_arguments_that_decide_nothing_are_not_in_the_class() -> None:
    assert shape_class([], [1, 2, 3], (1,), 132) == shape_class([], [7, 8, 9], (1,), 132)
