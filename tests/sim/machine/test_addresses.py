"""Addresses in memory: a table of them leads to the arrays that it was made for."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import Module, parse_module
from tawa.sim import Addresses, simulate
from tawa.sim.errors import ArgumentError, OutOfBounds
from tests.cases.programs.ttgir import op

I64, F32 = "!tt.ptr<i64>", "!tt.ptr<f32>"


def kernel(*lines: str) -> Module:
    """A kernel that copies one number: from the first address of a table, to the second one."""
    body = "\n".join(
        (
            op("arith.constant", "", "", "%one", "i32", properties="value = 1 : i32"),
            op("tt.load", "%table", I64, "%first", "i64"),
            op("tt.addptr", "%table, %one", f"{I64}, i32", "%place", I64),
            op("tt.load", "%place", I64, "%second", "i64"),
            *lines,
            op("tt.int_to_ptr", "%first", "i64", "%from", F32),
            op("tt.int_to_ptr", "%second", "i64", "%to", F32),
            op("tt.load", "%from", F32, "%number", "f32"),
            op("tt.store", "%to, %number", f"{F32}, f32"),
            '"tt.return"() : () -> ()',
        )
    )
    return parse_module(
        f'"builtin.module"() ({{\n"tt.func"() <{{function_type = ({I64}, {F32}) -> (), sym_name = "kernel"}}> ({{\n'
        f'^bb0(%table: {I64}, %x: {F32}):\n{body}\n}}) : () -> () loc("kernel.py":1:0)\n}}) : () -> ()\n'
    )


def test_an_address_leads_to_an_element_of_the_array_that_it_was_made_for() -> None:
    other, x = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    simulate(kernel(), {"table": Addresses(other, (5, 0)), "x": x}, (1,))
    assert other.tolist() == [5, 1, 2, 3, 4, 5, 6, 7] and not x.any()


def test_an_array_that_is_passed_and_led_to_is_one() -> None:
    x = np.arange(4, dtype=np.float32)
    back = op("tt.load", "%x", F32, "%old", "f32")
    simulate(kernel(back), {"table": Addresses(x, (3, 0)), "x": x}, (1,))
    assert x.tolist() == [3, 1, 2, 3]


@pytest.mark.parametrize(
    ("place", "text"), [(9, "element 9 of array 0, which has 8"), (1 << 40, "not one of an array"), (-1, "not one of")]
)
def test_an_address_outside_of_every_array_traps(place: int, text: str) -> None:
    arguments = {"table": Addresses(np.zeros(8, np.float32), (place, 0)), "x": np.zeros(4, np.float32)}
    with pytest.raises(OutOfBounds, match=text):
        simulate(kernel(), arguments, (1,))


def test_an_address_between_two_elements_traps() -> None:
    between = (op("arith.constant", "", "", "%two", "i64", properties="value = 2 : i64"),
               op("arith.addi", "%first, %two", "i64, i64", "%odd", "i64"))  # fmt: skip
    text = "not that of an element"
    module = kernel(*between, op("tt.int_to_ptr", "%odd", "i64", "%off", F32))
    with pytest.raises(OutOfBounds, match=text):
        simulate(module, {"table": Addresses(np.zeros(8, np.float32), (0, 0)), "x": np.zeros(4, np.float32)}, (1,))


def test_an_address_of_elements_of_another_width_is_refused() -> None:
    with pytest.raises(ArgumentError, match="float16"):
        arguments = {"table": Addresses(np.zeros(8, np.float16), (0, 0)), "x": np.zeros(4, np.float32)}
        simulate(kernel(), arguments, (1,))
