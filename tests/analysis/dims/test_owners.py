"""`analysis.dims.owners`: which dots one group computes for all of them."""

from __future__ import annotations

from tawa.analysis.dims.owners import find_owners, owned_dots
from tawa.ir import Module, parse_module
from tawa.transforms.ttir.exchange_operands import ExchangeOperands
from tests.cases.programs.ttgir import op
from tests.cases.programs.ttir import constant, dot, kernel

TILE = "tensor<128x128xf32>"
HALF = "tensor<128x128xf16>"
BOX = f"!tt.tensordesc<{TILE}>"


def halved(tile: str, half: str) -> str:
    return op("arith.truncf", f"%{tile}", TILE, f"%{half}", HALF)


def product(result: str, a: str, b: str) -> str:
    return dot(result, a, b, "none", 128, 128, 128)


def both(name: str, result: str, a: str, b: str) -> str:
    return op(name, f"%{a}, %{b}", f"{TILE}, {TILE}", f"%{result}", TILE)


def program(*middle: str, stored: str) -> Module:
    """S = A B and T = A A, each also in 16 bits, what is computed from them, and a store of one tile."""
    first = (
        constant("none", "dense<0.000000e+00>", TILE),
        product("t", "a", "a"),
        halved("s", "hs"),
        halved("t", "ht"),
    )
    end = op("tt.descriptor_store", f"%c_desc, %{stored}, %row, %zero", f"{BOX}, {TILE}, i32, i32")
    return parse_module(kernel("\n".join((*first, *middle)), end, inner=128))


def found(module: Module, groups: int = 2) -> tuple[dict[str, int], list[str]] | None:
    """The owners of the tiles, and the divided dots, by name."""
    made = find_owners(module, groups)
    if made is None:
        return None
    return {tile.hint: owner for tile, owner in made.owners.items()}, [it.op.result.hint for it in made.divided]


SUM = both("arith.addf", "z", "x", "y")
TWO = (product("x", "hs", "b"), product("y", "ht", "a"), SUM)
"""X = half(S) B, Y = half(T) A, and their sum."""


def test_independent_dots_whose_results_are_left_operands_get_an_owner_each() -> None:
    assert found(program(*TWO, stored="z")) == ({"hs": 0, "ht": 1}, ["x", "y"])


def test_what_is_computed_from_an_exchanged_tile_belongs_to_the_group_of_the_other_dots_in_it() -> None:
    again = (op("arith.extf", "%hs", HALF, "%wide", TILE), both("arith.mulf", "u", "wide", "t"), halved("u", "hu"))
    module = program(*again, product("x", "hs", "b"), product("y", "hu", "a"), SUM, stored="z")
    assert found(module) == ({"hs": 0, "hu": 1}, ["x", "y"])
    made = find_owners(module, 2)
    assert made is not None
    read = {tile.hint: sorted(use.op.name for use in uses) for tile, uses in made.users.items()}
    assert read == {"hs": ["arith.extf", "tt.dot"], "hu": ["tt.dot"]}


def test_tiles_of_32_bits_that_meet_make_one_chain_of_two_dots() -> None:
    met = (both("arith.mulf", "u", "s", "t"), halved("u", "hu"))
    module = program(*met, product("x", "hs", "b"), product("y", "hu", "a"), SUM, stored="z")
    assert found(module) is None  # a chain for each group is needed
    assert found(module, groups=1) == ({"hs": 0, "hu": 0}, ["x", "y"])


def test_a_transposed_tile_is_exchanged_as_it_is() -> None:
    turned = op("tt.trans", "%ht", HALF, "%turned", HALF, properties="order = array<i32: 1, 0>")
    module = program(turned, product("x", "hs", "b"), product("y", "turned", "a"), SUM, stored="z")
    assert found(module) == ({"hs": 0, "ht": 1}, ["x", "y"])


def test_what_every_group_executes_must_not_need_what_one_of_them_has_in_registers() -> None:
    assert found(program(*TWO, both("arith.addf", "w", "z", "s"), stored="w")) is None  # a store
    onto = dot("w", "hs", "b", "t", 128, 128, 128)
    assert found(program(*TWO[:2], onto, both("arith.addf", "z", "x", "w"), stored="z")) is None


def test_a_left_operand_of_other_bits_is_not_exchanged() -> None:
    wide = op("tt.dot", "%s, %t, %none", f"{TILE}, {TILE}, {TILE}", "%w", TILE,
              properties="inputPrecision = 0 : i32, maxNumImpreciseAcc = 0 : i32")  # fmt: skip
    assert found(program(*TWO, wide, both("arith.addf", "v", "z", "w"), stored="v")) is None


def test_dots_behind_a_marked_tile_are_the_owned_ones() -> None:
    module = program(*TWO, stored="z")
    assert ExchangeOperands(2, "columns").run(module).changed
    assert sorted(it.result.hint for it in owned_dots(module)) == ["s", "t"]
