"""Which partitions count as one function: the bodies of two functions stand for those of two partitions."""

from __future__ import annotations

import pytest

from tawa.dialects.tt import FuncOp
from tawa.emit.alike import compare, parameters_of
from tawa.ir import Block, parse_module
from tests.emit.random_ir import STORED


def block(*lines: str) -> Block:
    """A partition that is given a pointer, a number and a parity, and stores `%value` and `%wide`."""
    text = "\n".join(lines)
    return next(
        view.body
        for op in parse_module(
            '"builtin.module"() ({\n"tt.func"() <{function_type = (!tt.ptr<i32>, i32, i32) -> (), sym_name = "f"}> ({\n'
            f"^bb0(%at: !tt.ptr<i32>, %n: i32, %parity: i32):\n{text}\n"
            f'"tt.store"(%at, %value) <{{{STORED}}}> : (!tt.ptr<i32>, i32) -> ()\n'
            '"tt.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
        ).body.ops
        if (view := FuncOp.of(op))
    )


def constant(number: str, name: str = "%c", kind: str = "i32") -> str:
    return f'{name} = "arith.constant"() <{{value = {number} : {kind}}}> : () -> {kind}'


def binary(op: str, left: str, right: str, name: str = "%value") -> str:
    return f'{name} = "arith.{op}"({left}, {right}) : (i32, i32) -> i32'


def test_partitions_that_differ_in_a_number_are_one_function_with_a_parameter() -> None:
    one, two = (block(constant(number), binary("addi", "%n", "%c")) for number in ("64", "128"))
    found = compare(one, two)
    assert found is not None
    assert list(parameters_of(one, [found])) == [("64", "128")]


def test_a_value_counts_as_the_value_plus_zero() -> None:
    written = block(
        constant("64"), binary("addi", "%n", "%c", "%row"), constant("2", "%d"), binary("muli", "%row", "%d")
    )
    other = block(constant("2", "%d"), binary("muli", "%n", "%d"))
    found = compare(written, other)
    assert found is not None
    assert list(parameters_of(written, [found])) == [("64", "0")]
    assert compare(other, written) is None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((constant("2"), binary("addi", "%n", "%c")), (constant("2"), binary("muli", "%n", "%c"))),
        ((constant("1"), binary("divui", "%n", "%c")), (constant("2"), binary("divui", "%n", "%c"))),
        ((constant("1"), binary("xori", "%parity", "%c")), (constant("0"), binary("xori", "%parity", "%c"))),
        ((binary("addi", "%n", "%n"),), (binary("addi", "%n", "%parity"),)),
    ],
    ids=("another operation", "an unsigned operation", "the other parity", "one value in place of two"),
)
def test_partitions_that_differ_otherwise_are_not_alike(one: tuple[str, ...], two: tuple[str, ...]) -> None:
    assert compare(block(*one), block(*two)) is None


def test_partitions_that_differ_in_a_float_are_not_alike() -> None:
    def half(number: str) -> Block:
        return block(
            constant(number, kind="f32"),
            '%f = "arith.sitofp"(%n) : (i32) -> f32',
            '%g = "arith.mulf"(%f, %c) : (f32, f32) -> f32',
            '%value = "arith.fptosi"(%g) : (f32) -> i32',
        )

    assert compare(half("5.000000e-01"), half("5.000000e-01")) is not None
    assert compare(half("5.000000e-01"), half("2.500000e-01")) is None


def test_partitions_that_step_through_rings_of_other_depths_are_not_alike() -> None:
    def step(depth: str) -> Block:
        return block(
            constant("0", "%c0"), constant("1", "%c1"), constant(depth),
            binary("addi", "%n", "%c1", "%next"),
            '%around = "arith.cmpi"(%next, %c) <{predicate = 0 : i64}> : (i32, i32) -> i1',
            '%slot = "arith.select"(%around, %c0, %next) : (i1, i32, i32) -> i32',
            '%more = "arith.extui"(%around) : (i1) -> i32',
            binary("xori", "%parity", "%more", "%flip"),
            binary("addi", "%slot", "%flip"),
        )  # fmt: skip

    assert compare(step("3"), step("3")) is not None
    assert compare(step("3"), step("2")) is None


def test_partitions_with_other_effects_are_not_alike() -> None:
    once = block(binary("addi", "%n", "%n"))
    twice = block(binary("addi", "%n", "%n"), f'"tt.store"(%at, %n) <{{{STORED}}}> : (!tt.ptr<i32>, i32) -> ()')
    assert compare(once, twice) is None
