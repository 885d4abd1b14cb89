"""`shared_tiles`: what programs of a grid load in common."""

from __future__ import annotations

from tawa.analysis.work.shared_tiles import SharedTiles, find_shared_tiles
from tawa.ir import Value
from tests.analysis.tile_programs import TileProgram


def test_what_programs_share_follows_from_their_ids() -> None:
    p = TileProgram(a="!tt.ptr<f16>", b="!tt.ptr<f16>", n="i32")

    def body(args: list[Value]) -> list[Value]:
        a = p.load(p.splat(p.add(p.args["a"], p.pid(0)), 64, 32))
        b = p.load(p.splat(p.add(p.args["b"], p.pid(1)), 32, 64))
        p.dot(a, b)
        return []

    p.loop((p.number(0), p.args["n"], p.number(1)), [], body)
    found = find_shared_tiles(p.finish())
    assert found == SharedTiles(64 * 32 * 2, 32 * 64 * 2, 0)


def test_the_group_balances_rows_and_columns() -> None:
    assert [SharedTiles(1, it, 0).group(64) for it in (1, 4, 64, 1 << 20)] == [8, 16, 64, 64]
    assert SharedTiles(64, 1, 0).group(64) == 1
    assert SharedTiles(0, 0, 5).group(64) == SharedTiles(3, 0, 0).group(64) == 8  # nothing to balance
