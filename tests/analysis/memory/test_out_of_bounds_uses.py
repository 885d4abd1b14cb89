"""`seen_by`: who sees the rows that a wrap-around reads from elsewhere, where TMA has zeros."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.analysis.memory.out_of_bounds_uses import seen_by
from tawa.ir import Operation, Value
from tests.analysis.tma.test_boxes import Tile, finder, tile


def wrapped_dot(end: Callable[[Tile, Value], object]) -> tuple[Tile, Operation]:
    """Rows that wrap around, their dot with a square tile, and what `end` does with it."""
    t = tile()
    p = t.p
    wrapped = Tile(p, p.binary("remsi", t.rows, p.splat(p.args["m"], 64)), t.columns, t.stride)
    load = p.load(wrapped.address())
    square = p.op("arith.constant", [], "tensor<32x32xf16>", value="dense<1.000000e+00> : tensor<32x32xf16>")
    end(t, p.op("arith.truncf", [p.dot(load, square)], "tensor<64x32xf16>"))
    assert load.defining_op is not None
    return t, load.defining_op


def who_sees(t: Tile, load: Operation) -> str | None:
    found = finder(t.p)
    ((guard,),) = (dim.guards for dim in found.find(load).dims if dim.guards)
    return seen_by(t.p.module, found.affine, load, 0, guard.room)


def test_rows_that_no_store_writes_are_seen_by_nobody() -> None:
    t, load = wrapped_dot(lambda t, c: t.p.store(t.address("out"), c, t.below()))
    assert who_sees(t, load) is None


def test_a_store_without_a_mask_sees_all_rows() -> None:
    t, load = wrapped_dot(lambda t, c: t.p.store(t.address("out"), c))
    assert who_sees(t, load) == "store"


def test_a_store_with_another_bound_sees_them() -> None:
    t, load = wrapped_dot(lambda t, c: t.p.store(t.address("out"), c, t.below("k", "m")))
    assert who_sees(t, load) == "store"


def test_a_store_whose_mask_wraps_around_too_sees_them() -> None:
    def store(t: Tile, c: Value) -> None:
        p = t.p
        wrapped = Tile(p, p.binary("remsi", t.rows, p.splat(p.args["m"], 64)), t.columns, t.stride)
        p.store(t.address("out"), c, wrapped.below())

    t, load = wrapped_dot(store)
    assert who_sees(t, load) == "store"


def test_a_transposed_tile_is_followed() -> None:
    def transpose(t: Tile, c: Value) -> None:
        p = t.p
        transposed = p.op("tt.trans", [c], "tensor<32x64xf16>", order="array<i32: 1, 0>")
        mask = p.compare(p.expand(t.rows, 0), p.splat(p.args["m"], 1, 64))
        address = p.op("tt.trans", [t.address("out")], "tensor<32x64x!tt.ptr<f16>>", order="array<i32: 1, 0>")
        p.store(address, transposed, p.broadcast(mask, 32, 64))

    t, load = wrapped_dot(transpose)
    assert who_sees(t, load) is None


@pytest.mark.parametrize(
    ("sem", "masked", "used", "sees"),
    [(4, True, False, True), (1, True, False, False), (1, False, False, True), (1, True, True, True)],
)
def test_an_atomic_sees_them_unless_it_only_adds_those_inside(sem: int, masked: bool, used: bool, sees: bool) -> None:
    """sem: 1 is relaxed, 4 acquires and releases. used: what was in memory before is stored."""

    def count(t: Tile, c: Value) -> None:
        operands = [t.address("out"), c, *([t.below()] if masked else [])]
        old = t.p.op("tt.atomic_rmw", operands, c.type, atomic_rmw_op="5 : i32", sem=f"{sem} : i32")
        if used:
            t.p.store(t.address("out"), old, t.below())

    t, load = wrapped_dot(count)
    assert who_sees(t, load) == ("atomic_rmw" if sees else None)


def test_an_address_made_of_them_sees_them() -> None:
    def chase(t: Tile, c: Value) -> None:
        p = t.p
        index = p.op("arith.fptosi", [c], "tensor<64x32xi32>")
        p.load(p.add(p.splat(p.args["a"], 64, 32), index), t.below())

    t, load = wrapped_dot(chase)
    assert who_sees(t, load) == "load"
