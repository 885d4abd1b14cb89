"""Axes: the strides of a tile, the contiguous one last."""

from __future__ import annotations

import pytest

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.axes import Axis, axes_of
from tawa.ir import Operation
from tawa.symbolic.affine_tile import AffineTile, Bound, Guard, Run
from tawa.symbolic.polynomial import ONE, ZERO, Atoms

ATOMS = Atoms()
S, H = (ATOMS.poly(it) for it in Operation("test.numbers", result_types=["i32", "i32"], hints=("s", "h")).results)
RUNS = (Run(0, 4, ZERO),)


def test_a_dimension_that_counts_two_things_has_two_axes() -> None:
    tile = AffineTile(ZERO, {0: S, 1: ONE}, runs=RUNS, within={0: H})
    assert axes_of(tile, (64, 32), 2) == [Axis(0, S, 16, run=4), Axis(0, H, 4, low=True), Axis(1, ONE, 32)]


def test_a_dimension_whose_elements_share_addresses_has_one_of_fewer_positions() -> None:
    assert axes_of(AffineTile(ZERO, {0: S, 1: ONE}, runs=RUNS), (64, 32), 2)[0] == Axis(0, S, 16, run=4)


def test_the_contiguous_axis_comes_last() -> None:
    transposed = AffineTile(ZERO, {0: ONE, 1: S})
    assert [axis.dim for axis in axes_of(transposed, (64, 32), 2)] == [1, 0]
    packed = AffineTile(ZERO, {0: S, 1: H}, runs=(Run(1, 8, ZERO),), within={1: ONE})
    assert [(axis.dim, axis.low) for axis in axes_of(packed, (64, 32), 2)] == [(0, False), (1, False), (1, True)]


@pytest.mark.parametrize(
    ("tile", "reason"),
    [
        (AffineTile(ZERO, {0: S, 1: H}), "no dimension of the tile is contiguous"),
        (AffineTile(ZERO, {1: ONE}), "all elements along dimension 0 of the tile have the same address"),
        (AffineTile(ZERO, {1: ONE}, runs=RUNS, within={0: H}), "repeat after 4 elements"),
        (
            AffineTile(ZERO, {0: S, 1: ONE}, guards=(Guard(0, S),), runs=RUNS, within={0: H}),
            "its index wraps around or is clamped",
        ),
        (AffineTile(ZERO, {0: S, 1: H}, runs=(Run(1, 4, ZERO),), within={1: ONE}), "4 elements in a row are fewer"),
    ],
)
def test_other_tiles_have_none(tile: AffineTile, reason: str) -> None:
    with pytest.raises(NotABox, match=reason):
        axes_of(tile, (64, 32), 2)


def test_an_axis_has_the_bounds_of_its_own_positions() -> None:
    number, place = Axis(0, S, 16, run=4), Axis(0, H, 4, low=True)
    plain, low = Bound("upper", S, 0), Bound("upper", S, 0, low=4)
    assert number.has(plain) and not number.has(low) and place.has(low) and not place.has(plain)
    assert not number.has(Bound("uniform", S)) and not number.has(Bound("lower", S, 1))
