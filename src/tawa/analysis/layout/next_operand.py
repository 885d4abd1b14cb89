"""The order of a dot's columns in which its result is the left operand of the next dot, by renaming registers only.

    result of wgmma, 8-bit operand A               in each 16 columns, thread q of a row
      has places     2q, 2q+1, 8+2q, 8+2q+1        place 8j + 2q + c
      needs columns  4q … 4q+3                     column 4q + 2c + j

A thread may use its own registers in any order. So the bits of a place that select the thread must be those bits of the
column that select it in the operand; the other bits may stand anywhere, and are chosen such that one box of TMA loads
the rows of the first dot's operand in this order, with the fewest conditions on the tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import permutations

from tawa.machine.distribution import Distribution, distribution
from tawa.machine.machines import WGMMA
from tawa.machine.row_order import RowOrder

_REGISTER_BITS = 32
_ACCUMULATOR = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8, 16]}>"
_OPERAND = "#ttg.dot_op<{opIdx = 0, parent = #accumulator, kWidth = %d}>"


@functools.lru_cache(256)
def order_for_next_operand(columns: int, element_bits: int, room: int) -> RowOrder | None:
    """The order for a dot with so many columns, whose result becomes an operand of such elements.

    room: the dimensions that a descriptor has left for rows. None if the columns can stand as they are, or if no order
    fits.
    """
    if columns & (columns - 1) or element_bits > _REGISTER_BITS:
        return None
    aliases = {"#accumulator": _ACCUMULATOR}
    shape = (WGMMA.rows, columns)
    result = distribution(aliases, shape, "#accumulator")
    operand = distribution(aliases, shape, _OPERAND % (_REGISTER_BITS // element_bits))
    if result is None or operand is None or result.holds(operand):
        return None
    fitting = [it for it in _orders(result, operand) if len(it.runs) <= room]
    return min(fitting, key=lambda it: (it.unit, len(it.runs), it.bits), default=None)


def _orders(result: Distribution, operand: Distribution) -> Iterator[RowOrder]:
    """Every order in which each thread has the columns that it needs."""
    fixed = _of_threads(result, operand)
    if fixed is None:
        return
    bits = range((max(base[1] for base in (*result.registers, *result.lanes))).bit_length())
    places = [bit for bit in bits if bit not in fixed]
    for columns in permutations(bit for bit in bits if bit not in fixed.values()):
        found = {**fixed, **dict(zip(places, columns, strict=True))}
        yield RowOrder(tuple(found[bit] for bit in bits))


def _of_threads(result: Distribution, operand: Distribution) -> dict[int, int] | None:
    """The bit of the column for each bit of a place that selects a thread; None if rows differ."""
    found: dict[int, int] = {}
    pairs = zip((*result.lanes, *result.warps), (*operand.lanes, *operand.warps), strict=True)
    for (row, place), (its_row, column) in pairs:
        if row != its_row or bool(place) != bool(column):
            return None
        if place:
            found[_bit(place)] = _bit(column)
    return found


def _bit(coordinate: int) -> int:
    return coordinate.bit_length() - 1
