"""`grid_orders`: blocks of the grid whose tiles run at the same time."""

from __future__ import annotations

import functools
import itertools
from typing import get_args

import numpy as np
import pytest

from tawa.analysis.work.shared_tiles import SharedTiles
from tawa.dialects.parameters import TILE_COUNTER
from tawa.ir import Module, parse_module, print_module
from tawa.machine.machines import SM_90
from tawa.plan.plan import TileOrder
from tawa.sim import simulate
from tawa.transforms.ttir.dynamic_tiles import DynamicTiles, forget_order
from tawa.transforms.ttir.make_persistent import MakePersistent
from tests.analysis.tile_programs import TileProgram
from tests.support.sample import EVERY_CASE, sample
from tests.transforms.ttir.orders.test_tile_ids import order, program

BLOCKS: tuple[TileOrder, ...] = ("grouped", "hilbert", "l2_halves")
GRIDS = [(1, 1, 1), (4, 1, 1), (1, 5, 1), (4, 3, 2), (3, 2, 7), (5, 13, 1), (16, 16, 1), (19, 33, 1), (33, 18, 2)]


def ordered(kind: TileOrder, grid: tuple[int, int, int], group: int = 1, axes: int = 3) -> list[tuple[int, ...]]:
    """The ids of the tiles in an order."""
    module = program(0, grows=True, axes=axes)
    assert MakePersistent(kind, group).run(module).changed
    return order(module, grid, 132)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("group", sample([2, 1, 64, 5], 4))
@pytest.mark.parametrize("kind", BLOCKS)
def test_every_tile_of_any_grid_is_taken_once(kind: TileOrder, group: int, grid: tuple[int, int, int]) -> None:
    if kind == "hilbert" and group != 1:
        return
    assert sorted(ordered(kind, grid, group)) == sorted(itertools.product(*map(range, grid)))


def test_every_order_of_a_plan_is_tested() -> None:
    assert {*BLOCKS, "launch", "longest_first"} == set(get_args(TileOrder))


def test_groups_are_rows_of_blocks() -> None:
    found = [(x, y) for x, y, _ in ordered("grouped", (5, 3, 1), 2)]
    assert found[:6] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert found[-3:] == [(4, 0), (4, 1), (4, 2)]


def test_steps_of_the_curve_go_to_a_neighbour() -> None:
    """Also from one square to the next, and from one row of squares to the one behind it, which runs back."""
    found = np.array(ordered("hilbert", (16, 64, 1)))[:, :2]
    assert set(np.abs(np.diff(found, axis=0)).sum(axis=1)) == {1}
    rows = np.array(ordered("hilbert", (32, 32, 1)))[:, :2]
    steps = np.abs(np.diff(rows, axis=0)).sum(axis=1)
    assert sorted(steps)[:-1] == [1] * (len(steps) - 1)


def test_even_and_odd_places_have_halves_of_their_own() -> None:
    found = ordered("l2_halves", (4, 7, 1), 2)
    paired = found[: 2 * 4 * 3]
    assert {y for _, y, _ in paired[::2]} <= set(range(4)) and {y for _, y, _ in paired[1::2]} == {4, 5, 6}
    assert {y for _, y, _ in found[len(paired) :]} <= set(range(4))


def one_axis() -> Module:
    """Counts how often each program of a grid of one axis runs."""
    p = TileProgram(done="!tt.ptr<i32>")
    place = p.add(p.args["done"], p.pid(0))
    p.effect("tt.store", [place, p.add(p.scalar_load(place), p.number(1))])
    return p.finish()


@pytest.mark.parametrize("tiles", [1, 2, 7, 40])
def test_a_grid_of_one_axis_has_halves(tiles: int) -> None:
    module = one_axis()
    assert MakePersistent("l2_halves").run(module).changed
    done = np.zeros(tiles, np.int32)
    simulate(parse_module(print_module(module)), {"done": done, "tawa_grid_0": tiles}, (3,))
    assert done.tolist() == [1] * tiles


@pytest.mark.parametrize("kind", ["grouped", "hilbert"])
def test_a_grid_of_one_axis_has_no_blocks(kind: TileOrder) -> None:
    (remark,) = MakePersistent(kind).run(one_axis()).remarks
    assert kind in remark.reason and "along one only" in remark.reason


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("grid", [(3, 5, 1), (16, 17, 2)])
def test_tiles_from_a_counter_have_the_order_too(kind: TileOrder, grid: tuple[int, int, int]) -> None:
    p = TileProgram(done="!tt.ptr<i32>")
    rows = p.add(p.pid(1), p.mul(p.pid(2), p.number(grid[1])))
    place = p.add(p.args["done"], p.add(p.pid(0), p.mul(rows, p.number(grid[0]))))
    p.effect("tt.store", [place, p.add(p.scalar_load(place), p.number(1))])
    module = p.finish()
    assert MakePersistent(kind).run(module).changed and DynamicTiles().run(module).changed
    forget_order(module)
    done, counter = np.zeros(int(np.prod(grid)), np.int32), np.zeros(1, np.int32)
    sizes = {f"tawa_grid_{axis}": size for axis, size in enumerate(grid)}
    simulate(module, {"done": done, TILE_COUNTER: counter, **sizes}, (4,), seed=1, together=True)
    assert set(done.tolist()) == {1} and counter[0] == 0


@functools.cache
def wave(kind: TileOrder, grid: tuple[int, int, int], shared: SharedTiles, group: int | None = None) -> float:
    """Bytes that a mean wave of 132 programs loads in one iteration."""
    if kind == "launch":
        places = [(x, y) for y in range(grid[1]) for x in range(grid[0])]
    else:
        places = [(x, y) for x, y, _ in ordered(kind, grid, group)]
    waves = [places[first : first + 132] for first in range(0, len(places), 132)]
    columns, rows = (sum(len({place[axis] for place in it}) for it in waves) for axis in (0, 1))
    return (columns * shared.by_x + rows * shared.by_y) / len(waves)


def test_blocks_load_less_than_a_strip() -> None:
    """A result of 8192 x 8192 in tiles of 128 x 256, with 64 elements of fp16 along K in each iteration."""
    shared, grid = SharedTiles(128 * 64 * 2, 256 * 64 * 2, 0), (64, 32, 1)
    assert shared.group(SM_90.processors) == 16
    strip = wave("launch", grid, shared)
    assert wave("grouped", grid, shared, 16) < 0.6 * strip
    assert wave("hilbert", grid, shared) < 0.65 * strip
    others = {
        group: wave("grouped", grid, shared, group) for group in ((1, 2, 4, 8, 16, 32, 64) if EVERY_CASE else (8, 16))
    }
    assert min(others, key=others.__getitem__) == 16
