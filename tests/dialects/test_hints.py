"""Hints: attributes that say how numbers and addresses are aligned."""

from __future__ import annotations

import pytest

from tawa.dialects.hints import argument_divisibility, hint_of
from tawa.ir import Operation
from tests.analysis.tile_programs import TileProgram

TILE = "tensor<64x32xi32>"


def hinted(text: str, type: str = TILE, name: str = "tt.addptr", results: int = 1) -> Operation:
    return Operation(name, result_types=[type] * results, attributes={"tt.divisibility": text})


@pytest.mark.parametrize(("text", "type", "expected"), [
    ("dense<[16, 1]> : tensor<2xi32>", TILE, (16, 1)),
    ("dense<16> : tensor<2xi32>", TILE, (16, 16)),
    ("dense<16> : tensor<1xi32>", "i32", (16,)),
    ("16 : i32", "i32", (16,)),
    ("dense<[16, 1, 1]> : tensor<3xi32>", TILE, None),
    ("dense<0> : tensor<1xi32>", "i32", (1,)),
])  # fmt: skip
def test_a_hint_has_a_number_for_each_dimension_or_one_for_all(
    text: str, type: str, expected: tuple[int, ...] | None
) -> None:
    assert hint_of(hinted(text, type), "divisibility") == expected


def test_each_hint_has_an_attribute_of_its_own() -> None:
    assert hint_of(hinted("16 : i32", "i32"), "contiguity") is None
    assert hint_of(Operation("tt.addptr", result_types=["i32"]), "divisibility") is None


def test_a_hint_that_may_be_about_another_result_does_not_count() -> None:
    p = TileProgram(m="i32")
    loop = p.loop((p.number(0), p.args["m"], p.number(1)), [p.args["m"]], lambda args: args[1:])
    loop.attributes["tt.divisibility"] = "16 : i32"
    assert hint_of(loop, "divisibility") is None
    assert hint_of(hinted("16 : i32", "i32", "tt.split", 2), "divisibility") is None


def test_arguments_have_the_divisor_that_triton_found() -> None:
    p = TileProgram(("m",), m="i32", k="i32")
    assert [argument_divisibility(p.function, it) for it in p.args.values()] == [16, 1]
