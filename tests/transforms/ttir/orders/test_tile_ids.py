"""`tile_ids`: the tile at each place of an order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tawa.dialects.parameters import TILE_COUNTER
from tawa.ir import Builder, Module, Value, print_module
from tawa.plan.defaults import SECTION_WAVES
from tawa.sim import simulate
from tawa.transforms.ttir.dynamic_tiles import DynamicTiles, forget_order
from tawa.transforms.ttir.make_persistent import NOT_LONGER, MakePersistent
from tests.analysis.tile_programs import TileProgram


def program(axis: int, grows: bool, axes: int = 3) -> Module:
    """Stores the ids of a tile, whose loop of dots gets longer with the id along an axis, at the place of the tile.

    The place is counted in memory: one program runs all tiles in order.
    """
    p = TileProgram(ids="!tt.ptr<i32>", place="!tt.ptr<i32>", n="i32")
    own = p.mul(p.pid(axis), p.number(64))
    bounds = (p.number(0), own, p.number(64)) if grows else (own, p.args["n"], p.number(64))
    ones = p.op("arith.constant", [], "tensor<16x16xf16>", value="dense<1.000000e+00> : tensor<16x16xf16>")

    def body(args: list[Value]) -> list[Value]:
        p.dot(ones, ones)
        return []

    p.loop(bounds, [], body)
    at = p.scalar_load(p.args["place"])
    for number in range(axes):
        p.effect("tt.store", [p.add(p.args["ids"], p.add(p.mul(at, p.number(axes)), p.number(number))), p.pid(number)])
    p.effect("tt.store", [p.args["place"], p.add(at, p.number(1))])
    return p.finish()


def order(module: Module, grid: tuple[int, int, int], programs: int) -> list[tuple[int, ...]]:
    """The ids of the tiles in the order in which `programs` programs would take them."""
    count = int(np.prod(grid))
    ids, place = np.full((max(count, 1), 3), -1, np.int32), np.zeros(1, np.int32)
    step = next(op for op in module.walk() if op.name == "tt.get_num_programs")
    loop = next(op for op in module.walk() if op.name == "scf.for" and step.result in op.operands)
    loop.set_operand(2, Builder.before(loop).constant(1))  # one program takes all tiles
    loop.set_operand(0, Builder.before(loop).constant(0))
    step.result.replace_all_uses_with(Builder.before(step).constant(programs))
    sizes = {f"tawa_grid_{axis}": size for axis, size in enumerate(grid)}
    simulate(module, {"ids": ids, "place": place, "n": 64 * grid[0], **sizes}, (1,))
    assert place[0] == count
    return [tuple(map(int, it)) for it in ids[:count]]


GRIDS = [(1, 1, 1), (4, 1, 1), (1, 5, 1), (4, 3, 2), (3, 2, 7), (5, 13, 1), (2, 9, 3)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("programs", [1, 2, 4, 132])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_longest_first_takes_every_tile_once(grid: tuple[int, int, int], programs: int, axis: int) -> None:
    module = program(axis, grows=True)
    assert MakePersistent("longest_first").run(module).changed
    found = order(module, grid, programs)
    assert sorted(found) == sorted(itertools.product(*map(range, grid)))


@pytest.mark.parametrize("grows", [True, False])
def test_the_longest_tiles_of_a_section_come_first_and_those_of_one_length_together(grows: bool) -> None:
    grid, programs = (4, 12, 1), 4
    module = program(0, grows)
    assert MakePersistent("longest_first").run(module).changed
    found = order(module, grid, programs)
    heads = SECTION_WAVES * programs // grid[0]
    for start in range(0, len(found), heads * grid[0]):
        section = found[start : start + heads * grid[0]]
        assert len({head for _, head, _ in section}) == heads
        lengths = [tile for tile, _, _ in section]
        assert lengths == sorted(lengths, reverse=grows)


def test_the_last_section_is_a_whole_one() -> None:
    """With 7 heads in sections of 3 the one head that is left comes first, not behind all others."""
    grid, programs = (4, 7, 1), 6
    module = program(0, grows=True)
    MakePersistent("longest_first").run(module)
    found = order(module, grid, programs)
    last = {head for _, head, _ in found[-3 * grid[0] :]}
    assert len(last) >= 3


def test_a_kernel_whose_tiles_are_equally_long_has_no_longest_tile() -> None:
    p = TileProgram(a="!tt.ptr<f32>")
    p.effect("tt.store", [p.add(p.args["a"], p.pid()), p.op("arith.constant", [], "f32", value="1.0 : f32")])
    (remark,) = MakePersistent("longest_first").run(p.finish()).remarks
    assert remark.reason == f"tile_order='longest_first': {NOT_LONGER}"


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("programs", [1, 3, 8])
def test_with_tiles_from_a_counter_every_tile_is_taken_once_too(grid: tuple[int, int, int], programs: int) -> None:
    p = TileProgram(done="!tt.ptr<i32>", n="i32")
    ones = p.op("arith.constant", [], "tensor<16x16xf16>", value="dense<1.000000e+00> : tensor<16x16xf16>")

    def body(args: list[Value]) -> list[Value]:
        p.dot(ones, ones)
        return []

    p.loop((p.number(0), p.mul(p.pid(0), p.number(64)), p.number(64)), [], body)
    rows = p.add(p.pid(1), p.mul(p.pid(2), p.number(grid[1])))
    place = p.add(p.args["done"], p.add(p.pid(0), p.mul(rows, p.number(grid[0]))))
    p.effect("tt.store", [place, p.add(p.scalar_load(place), p.number(1))])
    module = p.finish()
    assert MakePersistent("longest_first").run(module).changed and DynamicTiles().run(module).changed
    forget_order(module)
    assert "tawa.tile_id" not in print_module(module)
    done, counter = np.zeros(int(np.prod(grid)), np.int32), np.zeros(1, np.int32)
    sizes = {f"tawa_grid_{axis}": size for axis, size in enumerate(grid)}
    for seed in range(2):
        simulate(module, {"done": done, "n": 64, TILE_COUNTER: counter, **sizes}, (programs,), seed=seed, together=True)
    assert done.tolist() == [2] * len(done) and counter[0] == 0


def test_a_program_that_takes_tiles_from_a_counter_carries_the_tile_and_not_its_place() -> None:
    module = program(0, grows=True)
    MakePersistent("longest_first").run(module)
    DynamicTiles().run(module)
    (loop,) = [op for op in module.walk() if op.name == "scf.while"]
    body = [op.name for op in loop.regions[1].block.ops]
    assert body[-2] == "arith.select" and body.index("tt.atomic_rmw") < body.index("arith.select")
