"""Types and attributes, read on demand and written back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.ir import (
    MemDescType,
    OpaqueType,
    PointerType,
    ScalarType,
    TensorDescType,
    TensorType,
    is_scalar,
    parse_type,
)
from tawa.ir.attributes import (
    array_attr,
    bool_attr,
    int_attr,
    read_array,
    read_bool,
    read_int,
    read_string,
    string_attr,
)
from tawa.ir.text import match_bracket, parse_dictionary, print_dictionary, split_top_level

TILE = TensorType((128, 64), "f16", "#blocked")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i32", ScalarType("i32")),
        ("index", ScalarType("index")),
        ("f8E4M3FN", ScalarType("f8E4M3FN")),
        ("tensor<128x64xf16, #blocked>", TILE),
        ("tensor<4xf32>", TensorType((4,), "f32")),
        ("tensor<f32>", TensorType((), "f32")),
        ("tensor<64x!tt.ptr<f16>, #blocked>", TensorType((64,), "!tt.ptr<f16>", "#blocked")),
        (
            "tensor<8x8xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>",
            TensorType((8, 8), "f16", "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>"),
        ),
        ("!ttg.memdesc<128x64xf16, #shared, #smem>", MemDescType((128, 64), "f16", "#shared")),
        (
            "!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>",
            MemDescType((3, 128, 64), "f16", "#shared", mutable=True),
        ),
        (
            "!ttg.memdesc<64x64xf16, #shared, #smem, mutable, 3x64x64>",
            MemDescType((64, 64), "f16", "#shared", mutable=True, allocation="3x64x64"),
        ),
        (
            "!ttg.memdesc<64x64xf16, #shared, #smem, 3x64x64>",
            MemDescType((64, 64), "f16", "#shared", allocation="3x64x64"),
        ),
        ("!tt.tensordesc<tensor<128x64xf16, #blocked>>", TensorDescType(TILE)),
        ("!tt.ptr<f16>", PointerType("f16")),
        ("!tt.ptr<f16, 1>", PointerType("f16")),
        ("!aref.index<3>", OpaqueType("!aref.index<3>")),
        ("tuple<i32>", OpaqueType("tuple<i32>")),
        ("(i32) -> i32", OpaqueType("(i32) -> i32")),
    ],
)
def test_a_type_is_read(text: str, expected: object) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i32",
        "tensor<128x64xf16, #blocked>",
        "tensor<f32>",
        "!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>",
        "!ttg.memdesc<64x64xf16, #shared, #smem, mutable, 3x64x64>",
        "!tt.tensordesc<tensor<128x64xf16, #blocked>>",
        "!tt.tensordesc<128x64xf16, #blocked>",
        "!tt.ptr<f16>",
        "!async.token",
    ],
)
def test_a_type_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_type(text)) == text


@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_a_descriptor_of_whole_numbers_has_a_sign_and_its_block_has_none(sign: str, bits: int) -> None:
    for text in (f"!tt.tensordesc<tensor<64x32x{sign}i{bits}, #s>>", f"!tt.tensordesc<64x32x{sign}i{bits}, #s>"):
        found = parse_type(text)
        assert isinstance(found, TensorDescType)
        assert (found.sign, found.block.element, found.described) == (sign, f"i{bits}", f"{sign}i{bits}")
        assert (str(found), found.bytes) == (text, 64 * 32 * bits // 8)


def test_the_descriptor_of_triton_3_8_is_the_same_type() -> None:
    assert parse_type("!tt.tensordesc<128x64xf16, #blocked>") == TensorDescType(TILE, nested=False)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("tensor<128x64xf16, #blocked>", 16384),
        ("tensor<128x64xf8E4M3FN, #blocked>", 8192),
        ("tensor<4xi1>", 4),
        ("tensor<4xtf32>", 16),
        ("tensor<2x!tt.ptr<f16>, #b>", 16),
        ("!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>", 49152),
        ("!ttg.memdesc<3x1xi64, #s, #smem, mutable>", 24),
        ("!tt.tensordesc<tensor<128x64xbf16, #shared>>", 16384),
    ],
)
def test_sizes_are_in_bytes(text: str, size: int) -> None:
    type = parse_type(text)
    assert isinstance(type, TensorType | MemDescType | TensorDescType)
    assert type.bytes == size


def test_a_ring_of_a_buffer_has_a_leading_dimension_and_is_mutable() -> None:
    buffer = parse_type("!ttg.memdesc<128x64xf16, #shared, #smem>")
    assert isinstance(buffer, MemDescType)
    assert str(buffer.with_slots(3)) == "!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>"


@pytest.mark.parametrize(
    ("text", "scalar"),
    [("i32", True), ("!tt.ptr<f16>", True), ("tensor<4xi32>", False), ("!ttg.memdesc<4xi8, #s, #smem>", False)],
)
def test_numbers_and_pointers_are_scalars(text: str, scalar: bool) -> None:
    assert is_scalar(text) is scalar


def test_reading_a_type_never_fails() -> None:
    for text in ("", "tensor<>", "tensor<, #x>", "!ttg.memdesc<>", "!tt.tensordesc<>", "tensor<1x2xf16, #a, #b>"):
        assert isinstance(parse_type(text), OpaqueType | ScalarType | TensorType)


# -- attributes --------------------------------------------------------------------------------------------------------


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["i1", "i32", "i64", "index"]))
def test_an_integer_comes_back(value: int, type: str) -> None:
    assert read_int(int_attr(value, type)) == value


@pytest.mark.parametrize(("text", "value"), [("true", 1), ("false", 0), ("7", 7), ("-1 : i8", -1)])
def test_truth_values_and_bare_numbers_are_integers(text: str, value: int) -> None:
    assert read_int(text) == value


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_an_array_comes_back(values: list[int]) -> None:
    assert read_array(array_attr(values)) == tuple(values)


@given(st.text())
def test_a_string_comes_back(value: str) -> None:
    assert read_string(string_attr(value)) == value


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_comes_back(value: bool) -> None:
    assert read_bool(bool_attr(value)) is value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_int, "1.0 : f32"),
        (read_int, "dense<0> : tensor<4xi32>"),
        (read_int, "0xFF : i32"),
        (read_bool, "1 : i1"),
        (read_array, "[1, 2]"),
        (read_array, "array<f32: 1.0>"),
        (read_string, "x"),
        (read_string, '"'),
    ],
)
def test_another_kind_of_attribute_is_refused(read: object, text: str) -> None:
    with pytest.raises(ValueError):
        read(text)  # type: ignore[operator]


# -- brackets and commas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a", ["a"]),
        (" a , b ", ["a", "b"]),
        ("a<b, c>, (d, [e, {f, g}])", ["a<b, c>", "(d, [e, {f, g}])"]),
        ('"x, y", "\\", z"', ['"x, y"', '"\\", z"']),
        ("(i32, i1) -> f16, i8", ["(i32, i1) -> f16", "i8"]),
    ],
)
def test_commas_split_outside_brackets_and_strings_only(text: str, parts: list[str]) -> None:
    assert split_top_level(text) == parts


def test_a_bracket_is_matched_over_arrows_and_strings() -> None:
    text = '<(a) -> b, ">">c'
    assert match_bracket(text, 0) == len(text) - 1
    with pytest.raises(ValueError, match="never closes"):
        match_bracket("(a -> b", 0)


@given(
    st.dictionaries(
        st.one_of(st.from_regex(r"[a-z][a-zA-Z_.]*", fullmatch=True), st.from_regex(r'"[a-z-. ]*"', fullmatch=True)),
        st.sampled_from(["", "3 : i32", "[1, 2]", '"a = b, c"', "{x = 1}", "#ttg.blocked<{a = [1, 0]}>"]),
    )
)
def test_a_dictionary_comes_back_in_order(entries: dict[str, str]) -> None:
    assert list(parse_dictionary(print_dictionary(entries)).items()) == list(entries.items())
