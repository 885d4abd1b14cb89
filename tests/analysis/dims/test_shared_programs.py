"""The axis of the grid along which programs load the same tiles."""

from __future__ import annotations

import pytest

from tawa.analysis.dims.shared_programs import SharedInfo, find_shared
from tawa.bridge.triton.generic_print import read_ttir
from tawa.ir import Value
from tawa.remarks import Remark
from tests.analysis.tile_programs import TileProgram
from tests.cases.gemm.cases import find
from tests.matrix.compiling import signature
from tests.support.fronts import front

BYTES = 64 * 2


def program(rows: int | None, columns: int | None, *, upper: int | None = None) -> TileProgram:
    """Loads tiles at the program ids along two axes (None: at a number), in a loop; upper: its bound is an id, too."""
    p = TileProgram(a="!tt.ptr<f16>", b="!tt.ptr<f16>", n="i32")
    places: list[Value] = [p.number(7) if axis is None else p.pid(axis) for axis in (rows, columns)]
    end = p.args["n"] if upper is None else p.pid(upper)

    def body(args: list[Value]) -> list[Value]:
        for base, place in zip(("a", "b"), places, strict=True):
            start = p.add(p.mul(place, p.number(64)), args[0])
            offsets = p.add(p.splat(start, 64), p.range(64))
            p.load(p.add(p.splat(p.args[base], 64), offsets))
        return []

    p.loop((p.number(0), end, p.number(1)), [], body)
    return p


def test_a_tile_is_shared_along_an_axis_that_it_does_not_depend_on() -> None:
    assert find_shared(program(0, 1).finish()) == SharedInfo(0, BYTES)
    assert find_shared(program(1, None).finish()) == SharedInfo(1, BYTES)


def test_a_trip_count_may_depend_on_the_axis() -> None:
    assert find_shared(program(1, None, upper=1).finish()) == SharedInfo(1, BYTES)


@pytest.mark.parametrize("places", [(0, 0), (None, None)])
def test_programs_that_share_nothing_are_declined(places: tuple[int | None, int | None]) -> None:
    found = find_shared(program(*places).finish())
    assert isinstance(found, Remark) and "no axis of the grid" in found.reason


def test_programs_that_may_wait_for_each_other_are_declined() -> None:
    p = program(0, 1)
    p.op("tt.atomic_rmw", [p.args["a"], p.number(1)], "i32", atomic_rmw_op="4 : i32", sem="1 : i32", scope="1 : i32")
    found = find_shared(p.finish())
    assert isinstance(found, Remark) and "tl.atomic_add may give programs an order" in found.reason


def test_a_loop_over_the_tiles_of_a_program_shares_nothing() -> None:
    """Its trip count differs between programs, and so do the tiles of the loops inside."""
    case = find("persistent_nn")
    made = front(case.kernel, signature(case), num_warps=4)
    found = find_shared(read_ttir(made.ttir, made.context))
    assert isinstance(found, Remark) and "no axis of the grid" in found.reason
