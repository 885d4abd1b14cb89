"""`added_arguments`: a descriptor is followed by its sizes and strides, and the function's type says so."""

from __future__ import annotations

import pytest

from tawa.dialects import structure_rules
from tawa.ir import verify_structure
from tawa.symbolic.host.expr import Number
from tawa.symbolic.host.launch_spec import DescriptorSpec
from tawa.transforms.ttir.added_arguments import add_descriptor, add_number, descriptor_type
from tests.analysis.tile_programs import TileProgram

SPEC = DescriptorSpec(
    base=1,
    offset=Number(0),
    shape=(Number(256), Number(128)),
    strides=(Number(128), Number(1)),
    block=(64, 32),
    element="f16",
    element_bytes=2,
    argument=2,
)


def program() -> TileProgram:
    p = TileProgram(("a",), n="i32", a="!tt.ptr<f16>")
    p.finish()
    return p


def test_a_descriptor_comes_behind_the_arguments_with_its_sizes_and_strides() -> None:
    p = program()
    descriptor = add_descriptor(p.function, SPEC, 0, nested=False)
    args = p.function.body.args
    assert args[2] is descriptor
    types = ["i32", "!tt.ptr<f16>", "!tt.tensordesc<64x32xf16>", "i32", "i32", "i64", "i64"]
    assert [arg.type for arg in args] == types
    assert p.function.op.properties["function_type"] == f"({', '.join(types)}) -> ()"
    assert verify_structure(p.module, structure_rules()) == []


def test_the_memory_of_a_descriptor_is_that_of_its_base_and_attributes_of_others_stay() -> None:
    p = program()
    add_descriptor(p.function, SPEC, 0, nested=False)
    attributes = p.function.op.properties["arg_attrs"]
    assert attributes == "[{}, {tt.divisibility = 16 : i32}, {tawa.base = 1 : i32}, {}, {}, {}, {}]"


def test_a_number_is_one_argument() -> None:
    p = program()
    number = add_number(p.function, "tiles")
    assert number is p.function.body.args[-1] and (number.type, number.index) == ("i32", 2)
    assert p.function.op.properties["function_type"] == "(i32, !tt.ptr<f16>, i32) -> ()"


@pytest.mark.parametrize(
    ("element", "nested", "text"),
    [
        ("f16", True, "!tt.tensordesc<tensor<64x32xf16>>"),
        ("f16", False, "!tt.tensordesc<64x32xf16>"),
        ("i8", True, "!tt.tensordesc<tensor<64x32xsi8>>"),
    ],
)
def test_elements_that_are_integers_have_a_sign(element: str, nested: bool, text: str) -> None:
    assert descriptor_type((64, 32), element, nested) == text
