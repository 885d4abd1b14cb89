"""The values of an operand for which an operation gives a required result."""

from __future__ import annotations

import pytest

from tawa.verify.barriers.inputs.preimages import preimage


@pytest.mark.parametrize(
    ("name", "by", "low", "high", "pieces", "exact"),
    [
        ("arith.addi", 3, 10, 12, [(7, 9)], True),
        ("arith.divsi", 4, 2, 2, [(8, 11)], True),
        ("arith.muli", 3, 4, 9, [(2, 3)], True),
        ("arith.shrsi", 2, 3, 3, [(12, 15)], True),
    ],
)
def test_the_preimage_of_a_range(
    name: str, by: int, low: int, high: int, pieces: list[tuple[int, int]], exact: bool
) -> None:
    assert preimage(name, low, high, by) == (pieces, exact)


def test_the_preimage_of_a_remainder_is_periodic_and_inexact() -> None:
    pieces, exact = preimage("arith.remsi", 5, 5, 8)
    assert pieces[:3] == [(5, 5), (13, 13), (21, 21)] and not exact
