"""`conflicts`: which accesses of groups that keep no order may meet in global memory."""

from __future__ import annotations

import pytest

from tawa.analysis.dims.split_memory import conflicts
from tawa.ir import Block, Builder, Region, Value
from tests.analysis.tile_programs import TileProgram

_LOAD, _STORE = (
    "a group may load what another one has already overwritten",
    "a store may overwrite what another one wrote",
)


def program() -> tuple[TileProgram, dict[str, Value]]:
    """Pointers to 64 elements of %a and of %b."""
    p = TileProgram(a="!tt.ptr<f32>", b="!tt.ptr<f32>", flag="i1")
    return p, {name: p.add(p.splat(p.args[name], 64), p.range(64)) for name in "ab"}


def reasons(p: TileProgram, *split: Value) -> list[str]:
    """What is found where the first dimension of these tiles is split."""
    return [it.reason for it in conflicts(p.finish(), dict.fromkeys(split, 0))]


@pytest.mark.parametrize(("target", "found"), [("a", [_LOAD]), ("b", [])])
def test_what_a_group_loads_no_other_may_store(target: str, found: list[str]) -> None:
    p, at = program()
    tile = p.load(at["a"])
    again = p.add(p.splat(p.args[target], 64), p.range(64))
    p.store(again, tile)
    assert reasons(p, tile) == found


def test_a_group_may_store_where_it_loaded_the_same_elements_once() -> None:
    p, at = program()
    tile = p.load(at["a"])
    p.store(at["a"], tile)
    assert reasons(p, tile) == []


@pytest.mark.parametrize(
    ("second", "commute"), [({}, True), ({"kind": 6}, False), ({"sem": 4}, False), ({"kind": 10}, False)]
)
def test_relaxed_additions_to_the_same_elements_commute_with_their_kind_alone(
    second: dict[str, int], commute: bool
) -> None:
    """kind: of `RMWOp`: 5 adds floats, 6 is the maximum, 10 exchanges. sem: 1 is relaxed."""
    p, at = program()
    tile = p.load(at["b"])
    for it in ({}, second):
        kind, sem = it.get("kind", 5), it.get("sem", 1)
        p.op("tt.atomic_rmw", [at["a"], tile], tile.type, atomic_rmw_op=f"{kind} : i32", scope="1 : i32",
             sem=f"{sem} : i32")  # fmt: skip
    assert (reasons(p) == []) == commute


def test_a_group_may_not_load_what_groups_add_up() -> None:
    p, at = program()
    tile = p.load(at["a"])
    p.op("tt.atomic_rmw", [at["a"], tile], tile.type, atomic_rmw_op="5 : i32", scope="1 : i32", sem="1 : i32")
    assert _LOAD in reasons(p, tile)


def test_elements_that_are_not_split_are_loaded_by_every_group() -> None:
    p, at = program()
    p.store(at["a"], p.load(at["a"]))
    assert reasons(p) == [_LOAD]


def test_in_a_loop_the_next_iteration_loads_what_was_stored() -> None:
    p, at = program()
    tiles: list[Value] = []

    def body(_: list[Value]) -> list[Value]:
        tiles.append(p.load(at["a"]))
        p.store(at["a"], tiles[0])
        return []

    p.loop((p.number(0), p.number(4), p.number(1)), [], body)
    assert reasons(p, *tiles) == [_LOAD]


@pytest.mark.parametrize(("split", "count"), [(True, 0), (False, 1)])
def test_two_stores_to_one_place_are_of_one_group_where_their_rows_are_split_alike(split: bool, count: int) -> None:
    p, at = program()
    tile = p.load(at["a"])
    p.store(at["b"], tile)
    p.store(at["b"], tile)
    found = reasons(p, *([tile] if split else []))
    assert len(found) == count and all(it.startswith(_STORE) for it in found)


def test_stores_in_both_branches_of_an_if_never_both_happen() -> None:
    p, at = program()
    tile = p.load(at["a"])
    choice = Builder.at_end(p.block).create("scf.if", [p.args["flag"]], ())
    outer = p.block
    for _ in range(2):
        p.block = Block()
        choice.add_region(Region([p.block]))
        p.store(at["b"], tile)
        p.effect("scf.yield", [])
    p.block = outer
    assert reasons(p) == []
