"""Accesses through pointers that TMA could copy at all."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.tma.accesses import (
    MAX_BLOCK_ELEMENTS,
    NotABox,
    bytes_of,
    element_of,
    is_operand_load,
    mask_of,
    tile_of,
)
from tawa.ir import Operation, Value
from tests.analysis.tile_programs import TileProgram


def access(element: str = "f16", size: int = 64, more: dict[str, str] | None = None) -> Operation:
    """A load of a row of such elements."""
    p = TileProgram(a=f"!tt.ptr<{element}>")
    made = p.load(p.add(p.splat(p.args["a"], size), p.range(size)), more=more)
    assert made.defining_op is not None
    return made.defining_op


def feeding(in_loop: bool) -> Operation:
    """A load of a tile that a dot multiplies."""
    p = TileProgram(a="!tt.ptr<f16>")
    at = p.splat(p.args["a"], 64, 64)
    found: list[Value] = []

    def body(_: list[Value]) -> list[Value]:
        found.append(p.load(at))
        p.dot(found[0], found[0])
        return []

    if in_loop:
        p.loop((p.number(0), p.number(4), p.number(1)), [], body)
    else:
        body([])
    p.finish()
    assert found[0].defining_op is not None
    return found[0].defining_op


def test_a_load_is_of_an_operand_where_it_feeds_a_dot_more_than_once() -> None:
    assert is_operand_load(feeding(in_loop=True))
    assert not is_operand_load(feeding(in_loop=False))
    assert is_operand_load(feeding(in_loop=False), persistent=True)
    assert not is_operand_load(access())


@pytest.mark.parametrize(("element", "size"), [("f16", 2), ("f32", 4), ("f8E5M2", 1), ("i8", 1), ("i64", 8)])
def test_elements_that_tma_copies_have_their_size(element: str, size: int) -> None:
    assert element_of(access(element)) == element and bytes_of(element) == size


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"more": {"isVolatile": "true"}}, "a volatile load"),
        ({"more": {"cache": "4 : i32"}}, "its cache modifier"),
        ({"element": "f64"}, "TMA does not copy elements of type f64"),
        ({"size": 2 * MAX_BLOCK_ELEMENTS}, "larger than Triton's limit"),
    ],
)
def test_what_tma_cannot_copy_has_a_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotABox, match=reason):
        element_of(access(**changes))


def test_the_largest_tile_is_still_one() -> None:
    assert element_of(access(size=MAX_BLOCK_ELEMENTS)) == "f16"


def test_the_tile_of_a_store_is_what_it_writes() -> None:
    p = TileProgram(a="!tt.ptr<f16>")
    at = p.add(p.splat(p.args["a"], 64), p.range(64))
    mask = p.compare(p.range(64), p.splat(p.number(8), 64))
    load = p.load(at, mask)
    store = p.store(at, load)
    assert tile_of(store) is load and mask_of(store) is None
    assert load.defining_op is not None and mask_of(load.defining_op) is mask
