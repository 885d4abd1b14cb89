"""Orders of rows: their runs, and the box that loads rows in such an order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tawa.machine.row_order import RowOrder, Run

EVEN_THEN_ODD = RowOrder((1, 2, 3, 0))


def test_a_place_has_the_row_with_its_bits_moved() -> None:
    assert EVEN_THEN_ODD.rows == (0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
    assert EVEN_THEN_ODD.runs == (Run(0, 1), Run(1, 3))
    assert (EVEN_THEN_ODD.size, EVEN_THEN_ODD.unit, EVEN_THEN_ODD.by_place) == (16, 2, (2, 8))


def test_rows_in_their_own_order_are_one_run() -> None:
    order = RowOrder((0, 1, 2))
    assert (order.runs, order.unit, order.rows) == ((Run(0, 3),), 1, tuple(range(8)))


@pytest.mark.parametrize("bits", [(0, 0), (1, 2), (0, 2)])
def test_bits_that_are_not_those_of_a_row_are_refused(bits: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not an order of rows"):
        RowOrder(bits)


@pytest.mark.parametrize("bits", list(permutations(range(4))))
def test_every_order_is_a_permutation_of_dimensions_and_back(bits: tuple[int, ...]) -> None:
    order, rows = RowOrder(bits), np.arange(16)
    places = rows.reshape(order.by_row).transpose(order.to_places).reshape(-1)
    assert tuple(places) == order.rows
    assert (places.reshape(order.by_place).transpose(order.to_rows).reshape(-1) == rows).all()


@pytest.mark.parametrize("bits", list(permutations(range(4))))
def test_a_box_over_the_runs_has_the_rows_in_order_at_every_tile(bits: tuple[int, ...]) -> None:
    order, rows = RowOrder(bits), np.arange(64)
    sizes = [run.size for run in order.runs]
    sizes[order.top] = 64 // order.unit
    strides = [run.stride * rows.itemsize for run in order.runs]
    tensor = np.lib.stride_tricks.as_strided(rows, sizes, strides)
    for first in range(0, 64, 16):
        start = [first // order.unit if at == order.top else 0 for at in range(len(sizes))]
        box = tensor[tuple(slice(low, low + run.size) for low, run in zip(start, order.runs, strict=True))]
        assert tuple(box.reshape(-1) - first) == order.rows
