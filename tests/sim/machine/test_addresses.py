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


def test_an_address_is_that_of_an_element_of_its_array() -> None:
    other, x = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    simulate(kernel(), {"table": Addresses(other, (5, 0)), "x": x}, (1,))
    assert other.tolist() == [5, 1, 2, 3, 4, 5, 6, 7] and not x.any()


def test_an_argument_that_is_also_reached_by_address_is_one_array() -> None:
    x = np.arange(4, dtype=np.float32)
    back = op("tt.load", "%x", F32, "%old", "f32")
    simulate(kernel(back), {"table": Addresses(x, (3, 0)), "x": x}, (1,))
    assert x.tolist() == [3, 1, 2, 3]


@pytest.mark.parametrize(
    ("place", "text"), [(9, "element 9 of array 0, which has 8"), (1 << 40, "in no array"), (-1, "in no array")]
)
def test_an_address_outside_of_every_array_traps(place: int, text: str) -> None:
    arguments = {"table": Addresses(np.zeros(8, np.float32), (place, 0)), "x": np.zeros(4, np.float32)}
    with pytest.raises(OutOfBounds, match=text):
        simulate(kernel(), arguments, (1,))


def test_an_address_between_two_elements_traps() -> None:
    between = (op("arith.constant", "", "", "%two", "i64", properties="value = 2 : i64"),
               op("arith.addi", "%first, %two", "i64, i64", "%odd", "i64"))  # fmt: skip
    text = "not aligned to an element"
    module = kernel(*between, op("tt.int_to_ptr", "%odd", "i64", "%off", F32))
    with pytest.raises(OutOfBounds, match=text):
        simulate(module, {"table": Addresses(np.zeros(8, np.float32), (0, 0)), "x": np.zeros(4, np.float32)}, (1,))


def test_an_address_of_elements_of_another_width_is_refused() -> None:
    with pytest.raises(ArgumentError, match="float16"):
        arguments = {"table": Addresses(np.zeros(8, np.float16), (0, 0)), "x": np.zeros(4, np.float32)}
        simulate(kernel(), arguments, (1,))
