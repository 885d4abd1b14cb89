"""What is known of the result of an operation, from what is known of its operands."""

from __future__ import annotations

from math import inf

import pytest

from tawa.ir import Operation
from tawa.symbolic.known import DIVISORS, LOADED, UNKNOWN, Known, Proof, Trust
from tawa.symbolic.transfer import transfer

INDEX, NEGATIVE = Known(0, 99, 16), Known(-8, -8, 8)
MOST = (1 << 31) - 1


def found(name: str, *operands: Known, trust: Trust = Trust.NOTHING, type: str = "i32", of: str = "i32") -> Known:
    values = Operation("test.numbers", result_types=[of] * len(operands)).results
    known = dict(zip(values, operands, strict=True))
    return transfer(Operation(name, values, [type]), known.__getitem__, trust)


def test_a_program_id_is_one_of_the_programs() -> None:
    assert found("tt.get_program_id") == Known(0, MOST)
    assert found("tt.get_num_programs") == Known(1, MOST)


def test_a_loaded_number_is_an_index_if_that_is_taken() -> None:
    assert found("tt.load", UNKNOWN) == UNKNOWN
    assert found("tt.load", UNKNOWN, trust=Trust.MEMORY) == Known(0, premises=Proof(taken=(LOADED,)))


@pytest.mark.parametrize(("left", "right", "expected"), [
    (INDEX, Known(1, 8, 4), Known(0, 7, 4)),
    (Known(0, 5), Known(1, 8), Known(0, 5)),
    (INDEX, UNKNOWN, Known(0, 99)),
    (NEGATIVE, Known(1, 8, 4), Known(multiple=4)),
])  # fmt: skip
def test_a_remainder_has_the_sign_of_the_dividend(left: Known, right: Known, expected: Known) -> None:
    assert found("arith.remsi", left, right) == expected


@pytest.mark.parametrize(("left", "right", "expected"), [
    (INDEX, Known(1, 8), Known(0, 99)),
    (Known(-7, 99), Known(8, 9), Known(0, 99)),
    (Known(-8, 99), Known(8, 9), UNKNOWN),
    (INDEX, UNKNOWN, UNKNOWN),
])  # fmt: skip
def test_a_quotient_is_rounded_towards_zero(left: Known, right: Known, expected: Known) -> None:
    assert found("arith.divsi", left, right) == expected


def test_a_divisor_is_positive_if_that_is_taken() -> None:
    assert found("arith.divsi", INDEX, UNKNOWN, trust=Trust.QUOTIENTS) == Known(0, premises=Proof(taken=(DIVISORS,)))


def test_the_smaller_and_the_greater_of_two() -> None:
    assert found("arith.minsi", INDEX, NEGATIVE) == Known(-8, -8, 8)
    assert found("arith.maxsi", INDEX, NEGATIVE) == Known(0, 99, 8)


def test_a_selected_number_is_one_of_two() -> None:
    assert found("arith.select", UNKNOWN, INDEX, NEGATIVE) == Known(-8, 99, 8)


@pytest.mark.parametrize(("number", "type", "expected"), [
    (INDEX, "i8", INDEX),
    (Known(0, 128, 48), "i8", Known(multiple=16)),
    (Known(0, inf, 48), "i32", Known(0, inf, 48)),
])  # fmt: skip
def test_only_a_number_of_fewer_than_32_bits_may_wrap_around(number: Known, type: str, expected: Known) -> None:
    assert found("arith.trunci", number, type=type, of="i64") == expected


def test_a_number_without_a_sign_is_not_negative() -> None:
    assert found("arith.extui", INDEX, type="i64") == INDEX
    assert found("arith.extui", Known(multiple=48), type="i64") == Known(0, multiple=16)
    assert found("arith.divui", UNKNOWN, UNKNOWN) == found("arith.shrui", UNKNOWN, UNKNOWN) == Known(0)
    assert found("arith.remui", INDEX, Known(1, 8, 48)) == Known(0, multiple=16)


def test_bits_of_an_index_are_an_index() -> None:
    assert found("arith.andi", INDEX, UNKNOWN) == Known(0)
    assert found("arith.andi", INDEX, Known(0, 7)) == Known(0, 99)
    assert found("arith.andi", NEGATIVE, UNKNOWN) == UNKNOWN
    assert found("arith.shrsi", INDEX, UNKNOWN) == Known(0, 99)
    assert found("arith.shrsi", NEGATIVE, UNKNOWN) == UNKNOWN


@pytest.mark.parametrize(("number", "factor", "expected"), [
    (INDEX, "5.000000e-01 : f32", Known(0)),
    (INDEX, "-5.000000e-01 : f32", UNKNOWN),
    (INDEX, "0x7FC00000 : f32", UNKNOWN),
    (NEGATIVE, "5.000000e-01 : f32", UNKNOWN),
])  # fmt: skip
def test_an_index_times_a_positive_float_is_an_index(number: Known, factor: str, expected: Known) -> None:
    source = Operation("test.number", result_types=["i32"]).result
    wide = Operation("arith.sitofp", [source], ["f32"]).result
    half = Operation("arith.constant", [], ["f32"], properties={"value": factor}).result
    product = Operation("arith.mulf", [wide, half], ["f32"]).result
    assert transfer(Operation("arith.fptosi", [product], ["i32"]), {source: number}.__getitem__, Trust(0)) == expected


def test_nothing_is_known_of_other_operations() -> None:
    assert found("arith.xori", INDEX, INDEX) == UNKNOWN
