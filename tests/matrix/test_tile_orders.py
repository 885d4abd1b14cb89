"""Kernels whose tiles have an order by blocks of the grid: proved, and with the bits of the kernel as written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.triton.read_module import read_levels
from tawa.errors import PlanError
from tawa.plan import Plan
from tawa.plan.plan import TileOrder, Tiles
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.simulated import simulated, unspecialised
from tests.matrix.test_dynamic_tiles import compiled, run
from tests.support.sample import sample
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

PERSISTENT = Plan(form="persistent")
CASE = find_gemm("plus_equals")
LINEAR = find_gemm("tile_64x64").with_sizes(M=256, N=192, K=128)


@pytest.mark.parametrize("tiles", ["strided", "dynamic"])
@pytest.mark.parametrize(("kind", "group"), sample([("grouped", 2), ("hilbert", None), ("l2_halves", 1)], 3))
def test_it_is_proved_and_gives_the_bits_of_the_kernel_as_written(
    kind: TileOrder, group: int | None, tiles: Tiles
) -> None:
    plan = replace(PERSISTENT, tile_order=kind, tile_group=group, tiles=tiles)
    made = compiled(CASE, plan)
    record = made.metadata.tawa
    assert passes(record["verdict"])
    found = Plan.of(record["plan"])
    assert (found.tile_order, found.tile_group, found.tiles) == (kind, group, tiles)
    wanted = simulated(CASE, unspecialised(CASE, made))
    for programs in (1, 3):
        arrays, counter = run(CASE, made, read_levels(made)[1], "late", programs, 1)
        assert counter == 0
        assert [it for it in wanted if arrays[it].tobytes() != wanted[it].tobytes()] == []


def test_a_group_that_is_left_open_follows_from_what_programs_share() -> None:
    found = Plan.of(compiled(CASE, replace(PERSISTENT, tile_order="grouped")).metadata.tawa["plan"])
    assert found.tile_group in (8, 16)  # of 132 programs with square tiles


def test_a_kernel_that_orders_its_tiles_itself_has_halves_but_no_blocks() -> None:
    made = compiled(LINEAR, replace(PERSISTENT, tile_order="l2_halves"))
    assert passes(made.metadata.tawa["verdict"]) and launch_spec(made).axes == 1
    wanted = simulated(LINEAR, unspecialised(LINEAR, made))
    arrays, _ = run(LINEAR, made, read_levels(made)[1], "random", 5, 1)
    assert [it for it in wanted if arrays[it].tobytes() != wanted[it].tobytes()] == []
    with pytest.raises(PlanError, match="along one only"):
        compiled(LINEAR, replace(PERSISTENT, tile_order="grouped"))
