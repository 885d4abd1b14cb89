"""Stores of tiles that another tile follows."""

from __future__ import annotations

import pytest

from tawa.analysis.memory.tile_stores import tile_stores
from tawa.ir import Value
from tests.analysis.tile_programs import TileProgram


def program(moves: str) -> TileProgram:
    """A loop over tiles, each of them a sum; the tile is stored at a place that moves with what `moves` says."""
    p = TileProgram(c="!tt.ptr<f32>", n="i32", a="tensor<64x64xf16>", b="tensor<64x64xf16>")
    zero, one = p.number(0), p.number(1)

    def tile(args: list[Value]) -> list[Value]:
        at = {"tile": args[0], "carried": args[1], "nothing": p.pid()}[moves]
        p.loop((zero, p.args["n"], one), [], lambda inner: [p.dot(p.args["a"], p.args["b"])][:0])
        pointers = p.add(p.splat(p.args["c"], 64, 64), p.splat(p.mul(at, p.number(4096)), 64, 64))
        p.store(pointers, p.zeros(pointers))
        return [p.add(args[1], one)]

    p.loop((zero, p.args["n"], one), [zero], tile)
    p.finish()
    return p


@pytest.mark.parametrize(("moves", "found"), [("tile", 1), ("carried", 1), ("nothing", 0)])
def test_a_tile_goes_to_another_place_each_time(moves: str, found: int) -> None:
    assert len(tile_stores(program(moves).function, persistent=False)) == found


@pytest.mark.parametrize("persistent", [True, False])
def test_a_store_behind_all_loops_is_followed_where_the_kernel_is_persistent(persistent: bool) -> None:
    p = TileProgram(c="!tt.ptr<f32>")
    pointers = p.splat(p.args["c"], 64, 64)
    p.store(pointers, p.zeros(pointers))
    p.finish()
    assert len(tile_stores(p.function, persistent)) == persistent
