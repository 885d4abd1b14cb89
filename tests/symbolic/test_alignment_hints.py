"""Promises: what `tl.multiple_of` on tiles of addresses says of the scalars they are made of."""

from __future__ import annotations

import pytest

from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.alignment_hints import hinted_divisors
from tests.analysis.tile_programs import TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "b": "!tt.ptr<i8>", "s": "i32", "t": "i32", "first": "i32", "m": "i32"}


def program() -> TileProgram:
    return TileProgram((), **ARGUMENTS)


def addresses(p: TileProgram, *, base: str = "a", stride: Value | None = None, first: Value | None = None) -> Value:
    """64 rows of 32 elements, from `first` on."""
    stride = stride if stride is not None else p.args["s"]
    rows = p.broadcast(p.mul(p.expand(p.range(64), 1), p.splat(stride, 64, 1)), 64, 32)
    columns = p.range(32) if first is None else p.add(p.splat(first, 32), p.range(32))
    return p.add(p.splat(p.args[base], 64, 32), p.add(rows, p.spread(columns, 0, 64, 32)))


def hinted(value: Value, *numbers: int) -> Value:
    op = value.defining_op
    assert op is not None
    text = f"[{', '.join(map(str, numbers))}]" if len(set(numbers)) > 1 else str(numbers[0])
    op.attributes["tt.divisibility"] = f"dense<{text}> : tensor<{len(numbers)}xi32>"
    return value


def promised(p: TileProgram, pointers: Value) -> dict[str, int]:
    load = p.load(pointers).defining_op
    assert load is not None
    return {value.hint: number for value, number in hinted_divisors(load, p.function, Affine()).items() if number > 1}


def test_rows_that_begin_at_multiples_of_16_bytes_say_it_of_the_stride_and_the_pointer() -> None:
    p = program()
    assert promised(p, hinted(addresses(p), 16, 16)) == {"s": 8, "a": 16}


def test_elements_of_one_byte_need_a_stride_of_16() -> None:
    p = program()
    assert promised(p, hinted(addresses(p, base="b"), 16, 16)) == {"s": 16, "b": 16}


@pytest.mark.parametrize(
    ("numbers", "expected"), [((16, 1), {}), ((1, 16), {"s": 8, "a": 16}), ((16, 8), {"s": 4, "a": 8})]
)
def test_the_hint_for_what_lies_side_by_side_counts(numbers: tuple[int, int], expected: dict[str, int]) -> None:
    p = program()
    assert promised(p, hinted(addresses(p), *numbers)) == expected


def test_without_a_hint_nothing_is_said() -> None:
    p = program()
    assert promised(p, addresses(p)) == {}


def test_where_a_tile_begins_at_any_element_the_pointer_may_lie_anywhere() -> None:
    p = program()
    assert promised(p, hinted(addresses(p, first=p.args["first"]), 16, 16)) == {"s": 8, "a": 2}


def test_a_factor_of_the_stride_is_no_longer_the_scalars_own() -> None:
    p = program()
    assert promised(p, hinted(addresses(p, stride=p.mul(p.args["s"], p.number(2))), 16, 16)) == {"s": 4, "a": 16}


def test_of_a_product_of_scalars_neither_is_known() -> None:
    p = program()
    assert promised(p, hinted(addresses(p, stride=p.mul(p.args["s"], p.args["t"])), 16, 16)) == {"a": 16}


def test_what_holds_in_part_of_a_tile_only_says_nothing() -> None:
    p = program()
    rows = p.binary("remsi", p.range(64), p.splat(p.args["m"], 64))
    rows = p.broadcast(p.mul(p.expand(rows, 1), p.splat(p.args["s"], 64, 1)), 64, 32)
    tile = p.add(p.splat(p.args["a"], 64, 32), p.add(rows, p.spread(p.range(32), 0, 64, 32)))
    assert promised(p, hinted(tile, 16, 16)) == {}


def test_a_hint_on_addresses_before_they_are_moved_counts() -> None:
    p = program()
    moved = p.add(hinted(addresses(p), 16, 16), p.splat(p.args["t"], 64, 32))
    assert promised(p, moved) == {"s": 8, "a": 16}


@pytest.mark.parametrize(("on_start", "expected"), [(True, {"s": 8, "a": 16}), (False, {})])
def test_a_hint_on_what_a_loop_begins_with_counts_and_one_on_what_follows_does_not(
    on_start: bool, expected: dict[str, int]
) -> None:
    p = program()
    start = addresses(p)
    carried: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        following = p.add(args[1], p.splat(p.args["t"], 64, 32))
        hinted(start if on_start else following, 16, 16)
        carried.append(args[1])
        return [following]

    loop = p.loop((p.number(0), p.args["m"], p.number(1)), [start], body)
    p.block = loop.regions[0].block
    assert promised(p, carried[0]) == expected
