"""Scalar integer operations, against what MLIR's arith dialect says."""

from __future__ import annotations

import pytest

from tawa.dialects.scalars import evaluate, scalar_of, width_of, wrap
from tawa.ir import Block, Operation

CASES = [
    ("addi", "i32", (2**31 - 1, 1), -(2**31)),
    ("addi", "i64", (2**31 - 1, 1), 2**31),
    ("subi", "i32", (-(2**31), 1), 2**31 - 1),
    ("muli", "i32", (65536, 65536), 0),
    ("addi", "i1", (1, 1), 0),
    ("divsi", "i32", (-7, 2), -3),
    ("divsi", "i32", (7, 0), None),
    ("divui", "i32", (-1, 2), 2**31 - 1),
    ("remsi", "i32", (-7, 2), -1),
    ("remsi", "i32", (7, -2), 1),
    ("remui", "i32", (-1, 10), (2**32 - 1) % 10),
    ("remui", "i32", (1, 0), None),
    ("floordivsi", "i32", (-7, 2), -4),
    ("ceildivsi", "i32", (7, 2), 4),
    ("ceildivsi", "i32", (-7, 2), -3),
    ("ceildivui", "i32", (7, 2), 4),
    ("minsi", "i32", (-1, 3), -1),
    ("minui", "i32", (-1, 3), 3),
    ("maxsi", "i32", (-1, 3), 3),
    ("maxui", "i32", (-1, 3), -1),
    ("andi", "i32", (6, 3), 2),
    ("ori", "i32", (6, 3), 7),
    ("xori", "i1", (1, 1), 0),
    ("shli", "i32", (1, 31), -(2**31)),
    ("shli", "i32", (1, 32), None),
    ("shrsi", "i32", (-8, 1), -4),
    ("shrui", "i32", (-8, 1), 2**31 - 4),
]


def make(name: str, types: tuple[str, ...], result: str, **properties: str) -> Operation:
    block = Block(types)
    return Operation(f"arith.{name}", block.args, (result,), properties=properties)


@pytest.mark.parametrize(("name", "type", "inputs", "expected"), CASES)
def test_arithmetic_wraps_as_two_s_complement(
    name: str, type: str, inputs: tuple[int, int], expected: int | None
) -> None:
    assert evaluate(make(name, (type, type), type), inputs) == (expected,)


@pytest.mark.parametrize(
    ("predicate", "holds"), list(enumerate([False, True, True, True, False, False, False, False, True, True]))
)
def test_comparisons_read_the_sign_as_their_predicate_says(predicate: int, holds: bool) -> None:
    compare = make("cmpi", ("i32", "i32"), "i1", predicate=f"{predicate} : i64")
    assert evaluate(compare, (-1, 1)) == (int(holds),)


def test_a_signed_comparison_reads_a_true_as_minus_one() -> None:
    assert evaluate(make("cmpi", ("i1", "i1"), "i1", predicate="2 : i64"), (1, 0)) == (1,)
    assert evaluate(make("cmpi", ("i1", "i1"), "i1", predicate="6 : i64"), (1, 0)) == (0,)


@pytest.mark.parametrize(
    ("name", "taken", "given", "number", "expected"),
    [
        ("extsi", "i1", "i32", 1, -1),
        ("extui", "i1", "i32", 1, 1),
        ("extui", "i32", "i64", -1, 2**32 - 1),
        ("extsi", "i32", "i64", -1, -1),
        ("trunci", "i64", "i32", 2**32 + 5, 5),
        ("trunci", "i32", "i1", 3, 1),
        ("index_cast", "i32", "index", -2, -2),
        ("index_castui", "i32", "index", -2, 2**32 - 2),
    ],
)
def test_casts_extend_as_their_name_says(name: str, taken: str, given: str, number: int, expected: int) -> None:
    assert evaluate(make(name, (taken,), given), (number,)) == (expected,)


def test_what_is_not_known_spreads_except_where_it_does_not_matter() -> None:
    select = make("select", ("i1", "i32", "i32"), "i32")
    assert evaluate(select, (1, 4, None)) == (4,)
    assert evaluate(select, (None, 4, 4)) == (4,)
    assert evaluate(select, (None, 4, 5)) == (None,)
    assert evaluate(make("muli", ("i32", "i32"), "i32"), (None, 0)) == (0,)
    assert evaluate(make("addi", ("i32", "i32"), "i32"), (None, 0)) == (None,)


def test_constants_are_read_and_other_types_are_not_scalars() -> None:
    assert evaluate(make("constant", (), "i1", value="true"), ()) == (1,)
    assert evaluate(make("constant", (), "f32", value="1.0 : f32"), ()) == (None,)
    assert scalar_of(make("addi", ("tensor<4xi32>",) * 2, "tensor<4xi32>")) is None
    assert scalar_of(make("select", ("tensor<4xi1>", "i32", "i32"), "i32")) is None
    assert (width_of("index"), width_of("i8"), width_of("f16")) == (64, 8, None)
    assert wrap(255, 8) == -1
