"""Integer arithmetic where the GPU differs from Python and NumPy, on scalars and on tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.sim.ops import arithmetic


def both_forms(function: Any, a: int, b: int) -> list[int]:
    """The result on scalars and on tiles of i32."""
    tile = function(np.array([a], np.int32), np.array([b], np.int32))
    return [int(function(a, b)), int(tile[0])]


@pytest.mark.parametrize(("a", "b", "wanted"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (5, 0, -1)])
def test_division_rounds_towards_zero(a: int, b: int, wanted: int) -> None:
    assert both_forms(arithmetic.divide, a, b) == [wanted, wanted]


@pytest.mark.parametrize(("a", "b", "wanted"), [(7, 2, 1), (-7, 2, -1), (7, -2, 1), (5, 0, 5)])
def test_the_remainder_has_the_sign_of_the_dividend(a: int, b: int, wanted: int) -> None:
    assert both_forms(arithmetic.remainder, a, b) == [wanted, wanted]


@pytest.mark.parametrize(("a", "b", "wanted"), [(7, 2, 4), (-7, 2, -3), (6, 2, 3)])
def test_ceiling_division(a: int, b: int, wanted: int) -> None:
    assert both_forms(arithmetic.ceil_divide, a, b) == [wanted, wanted]


def test_a_shift_by_the_width_gives_zero_or_the_sign() -> None:
    tile, by = np.array([-8], np.int32), np.array([32], np.int32)
    assert arithmetic.shift_left(tile, by).tolist() == [0]
    assert arithmetic.shift_right(tile, by).tolist() == [-1]
    assert arithmetic.shift_right(tile.view(np.uint32), by.view(np.uint32)).tolist() == [0]
