"""The order of columns in which the result of a dot becomes the operand of the next by renaming registers."""

from __future__ import annotations

import pytest

from tawa.analysis.layout.next_operand import order_for_next_operand
from tawa.machine.distribution import distribution
from tawa.machine.row_order import RowOrder

ALIASES = {
    "#acc": "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 32]}>"
}
SIZES = (16, 32, 64, 128, 256)


def columns_of_threads(columns: int, encoding: str) -> list[set[int]]:
    """The columns of row 0 that each of its four threads holds."""
    found = distribution(ALIASES, (64, columns), encoding)
    assert found is not None
    held: list[set[int]] = []
    for lane in range(4):
        at = 0
        for bit, base in enumerate(found.lanes):
            at ^= base[1] * (lane >> bit & 1)
        places = {at}
        for row, column in found.registers:
            places |= set() if row else {it ^ column for it in places}
        held.append(places)
    return held


@pytest.mark.parametrize("columns", SIZES)
@pytest.mark.parametrize(("bits", "room"), [(8, 2), (8, 3), (32, 2), (32, 3)])
def test_each_thread_then_has_the_columns_that_it_needs(columns: int, bits: int, room: int) -> None:
    order = order_for_next_operand(columns, bits, room)
    assert order is not None and len(order.runs) <= room
    has = columns_of_threads(columns, "#acc")
    needs = columns_of_threads(columns, f"#ttg.dot_op<{{opIdx = 0, parent = #acc, kWidth = {32 // bits}}}>")
    assert has != needs
    assert [{order.rows[place] for place in places} for places in has] == needs


@pytest.mark.parametrize("columns", SIZES)
def test_operands_of_16_bits_are_results_as_they_stand(columns: int) -> None:
    assert order_for_next_operand(columns, 16, 3) is None


@pytest.mark.parametrize("columns", SIZES)
def test_8_bits_take_the_even_rows_and_then_the_odd_ones(columns: int) -> None:
    bits = columns.bit_length() - 1
    assert order_for_next_operand(columns, 8, 2) == RowOrder((*range(1, bits), 0))


def test_more_room_gives_fewer_conditions_on_the_number_of_rows() -> None:
    narrow, wide = (order_for_next_operand(128, 32, room) for room in (2, 3))
    assert narrow is not None and wide is not None and (narrow.unit, wide.unit) == (64, 8)


def test_an_order_needs_a_dimension_for_each_of_its_runs() -> None:
    assert order_for_next_operand(128, 8, 1) is None


def test_columns_that_are_not_a_power_of_two_have_no_order() -> None:
    assert order_for_next_operand(192, 8, 3) is None
