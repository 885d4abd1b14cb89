"""`scale_behind_max`: a positive scale moves from the operand of a max reduction to its result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tawa.ir import Module, print_module
from tawa.sim import Descriptor, simulate
from tawa.transforms.pipelining.scale_behind_max import ScaleBehindMax
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, binary, kernel, load, op, ops_named, store

ROWS = "tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>"
COLUMN = "tensor<64x1xf32, #mma>"
HALVES = "tensor<64x64xf16, #mma>"

ANY = st.floats(width=32, allow_nan=False)
SCALES = st.floats(width=32, min_value=2.0**-149, allow_infinity=False)


def softmax_like(scale: str = "1.250000e+00", combine: str = "maxnumf", *extra: str) -> str:
    """Each row minus its largest number, all scaled. extra: another use of the scaled tile."""
    spread = op("tt.broadcast", "%column", COLUMN, "%spread", ACC)
    return kernel(
        "\n".join(
            (
                load("t", "a_desc", "%zero, %zero"),
                op("ttg.convert_layout", "%t", programs.TILE, "%u", HALVES),
                op("arith.extf", "%u", HALVES, "%x", ACC),
                op("arith.constant", "", "", "%scale", ACC, properties=f"value = dense<{scale}> : {ACC}"),
                binary("s", "mulf", "x", "scale", ACC),
                f'%m = "tt.reduce"(%s) <{{axis = 1 : i32}}> ({{\n^bb0(%l: f32, %r: f32):\n'
                f'%p = "arith.{combine}"(%l, %r) : (f32, f32) -> f32\n"tt.reduce.return"(%p) : (f32) -> ()\n'
                f"}}) : ({ACC}) -> {ROWS}",
                op("tt.expand_dims", "%m", ROWS, "%column", COLUMN, properties="axis = 1 : i32"),
                spread,
                binary("d", "subf", "s", "spread", ACC),
                *extra,
                store("d"),
            )
        )
    )


MASKED = "\n".join(
    (
        op(
            "arith.constant",
            "",
            "",
            "%seen",
            "tensor<64x64xi1, #mma>",
            properties="value = dense<true> : tensor<64x64xi1, #mma>",
        ),
        op("arith.constant", "", "", "%lowest", ACC, properties=f"value = dense<0xFF800000> : {ACC}"),
        f'%masked = "arith.select"(%seen, %x, %lowest) : (tensor<64x64xi1, #mma>, {ACC}, {ACC}) -> {ACC}',
    )
)


def masked(*extra: str) -> str:
    """`softmax_like` with a select between the numbers and the product. extra: another use of the selected tile."""
    text = softmax_like("1.250000e+00", "maxnumf", *extra)
    product = binary("s", "mulf", "x", "scale", ACC)
    return text.replace(product, MASKED + "\n" + product.replace("%x", "%masked"))


def bits(module: Module) -> bytes:
    """The result of the program for a random tile."""
    tile = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float16)
    tile[5, 6], tile[7] = np.inf, -np.inf
    out = np.full((64, 64), np.nan, np.float16)
    arguments = {"a_desc": Descriptor(tile), "b_desc": Descriptor(tile), "c_desc": Descriptor(out)}
    simulate(module, {**arguments, "out": np.zeros(1, np.float16), "n": 0, "m": 0}, (1,))
    return out.tobytes()


@pytest.mark.parametrize("combine", ["maxnumf", "maximumf", "minnumf", "minimumf"])
def test_the_product_moves_after_the_reduction_and_no_bit_changes(combine: str) -> None:
    module = programs.parse(softmax_like("1.250000e+00", combine))
    before = bits(module)
    assert ScaleBehindMax().run(module).changed
    (reduce,) = ops_named(module, "tt.reduce")
    assert reduce.operands[0].hint == "x"
    (user,) = reduce.result.users
    assert user.name == "arith.mulf" and user.result.type == ROWS
    assert bits(module) == before


def test_a_product_without_uses_is_erased() -> None:
    text = softmax_like().replace("(%s, %spread)", "(%x, %spread)")
    module = programs.parse(text)
    assert ScaleBehindMax().run(module).changed
    assert [each.result.type for each in ops_named(module, "arith.mulf")] == [ROWS]


@pytest.mark.parametrize(
    "text",
    [
        softmax_like("-1.250000e+00"),
        softmax_like("0.000000e+00"),
        softmax_like("0x7F800000"),
        softmax_like("1.250000e+00", "addf"),
        softmax_like("1.250000e+00", "maxnumf", store("s", at="%one, %zero")),
        masked(),
    ],
    ids=[
        "negative",
        "zero",
        "infinity",
        "a sum",
        "the product is stored",
        "the back end moves the product into a select",
    ],
)
def test_a_reduction_that_would_differ_or_gain_nothing_does_not_change(text: str) -> None:
    module = programs.parse(text)
    before = print_module(module)
    assert not ScaleBehindMax().run(module).changed
    assert print_module(module) == before


def test_a_select_with_another_use_keeps_its_product_in_the_back_end_too() -> None:
    module = programs.parse(masked(store("masked", at="%one, %zero")))
    before = bits(module)
    assert ScaleBehindMax().run(module).changed
    assert bits(module) == before


@given(arrays.arrays(np.float32, 16, elements=ANY), SCALES)
def test_rounded_products_keep_the_order(numbers: np.ndarray, scale: float) -> None:
    factor = np.float32(scale)
    with np.errstate(over="ignore", under="ignore"):
        assert (numbers * factor).max() == numbers.max() * factor
        assert (numbers * factor).min() == numbers.min() * factor
