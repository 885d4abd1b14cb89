"""Binding of arguments to the kernel's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.ir import parse_module
from tawa.sim import Descriptor, from_floats, simulate
from tawa.sim.errors import (
    ArgumentError,
)
from tests.sim.small import kernel


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 1}, "no argument 'x'"),
        ({"x": 3, "n": 1}, "takes an array"),
        ({"x": np.zeros(4, np.float16), "n": 1}, "float16"),
        ({"x": np.zeros((8, 8), np.float32)[:, ::2], "n": 1}, "not contiguous"),
        ({"x": np.zeros(4, np.float32), "n": np.zeros(4)}, "is a number"),
    ],
)
def test_arguments_that_do_not_match_the_parameters_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        simulate(kernel(), arguments, (1,))  # type: ignore[arg-type]


def test_the_dtype_of_a_descriptor_is_checked_if_given() -> None:
    with pytest.raises(Exception, match="described as bf16"):
        from tests.cases.programs import ttgir as programs

        desc = Descriptor(from_floats(np.zeros((64, 64)), "bf16"), dtype="bf16")
        arguments: dict[str, Any] = dict.fromkeys(("a_desc", "b_desc", "c_desc"), desc)
        simulate(parse_module(programs.tile_gemm()), {**arguments, "out": np.zeros(1, np.float16), "n": 0, "m": 0}, [1])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": "soon"}, "unknown order 'soon'"),
        ({"grid": (1, 1, 1, 1)}, "invalid grid"),
        ({"grid": (-1,)}, "invalid grid"),
        ({"programs": [(2, 0, 0)]}, r"program \(2, 0, 0\) is outside the grid \(2,\)"),
    ],
)
def test_an_invalid_grid_order_or_program_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        simulate(kernel(), **{"arguments": {"x": np.zeros(4, np.float32), "n": 1}, "grid": (2,), **options})


def test_only_the_chosen_programs_run() -> None:
    arguments = {"x": np.zeros(4, np.float32), "n": 1}
    assert simulate(kernel(), arguments, (3,)).programs == 3
    assert simulate(kernel(), arguments, (3,), programs=[(1, 0, 0)]).programs == 1


ADDING = """
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<i32>, !tt.ptr<i32>) -> (), sym_name = "kernel"}> ({
  ^bb0(%tickets: !tt.ptr<i32> loc("tickets"(unknown)), %counter: !tt.ptr<i32> loc("counter"(unknown))):
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %yes = "arith.constant"() <{value = true}> : () -> i1
    %five = "arith.constant"() <{value = 5 : i32}> : () -> i32
    %id = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    "scf.for"(%zero, %five, %one) ({
    ^bb1(%k: i32):
      %ring = "ttg.local_alloc"() : () -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
      "ttng.init_barrier"(%ring) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()
      %ticket = "tt.atomic_rmw"(%counter, %one, %yes) <{atomic_rmw_op = 4 : i32}> : (!tt.ptr<i32>, i32, i1) -> i32
      %at = "tt.addptr"(%tickets, %ticket) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>
      "tt.store"(%at, %id) : (!tt.ptr<i32>, i32) -> ()
      "ttng.inval_barrier"(%ring) : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
"""Each program takes five tickets and writes its number at each of them."""


def owners(**options: Any) -> list[int]:
    """The program that got each ticket."""
    tickets, counter = np.full(15, -1, np.int32), np.zeros(1, np.int32)
    arguments = {"tickets": tickets, "counter": counter}
    result = simulate(parse_module(ADDING), arguments, (3,), "random", **options)
    assert result.programs == 3 and counter[0] == 15
    return tickets.tolist()


def test_programs_run_one_after_the_other_or_interleaved() -> None:
    assert owners() == [0] * 5 + [1] * 5 + [2] * 5
    found = [owners(together=True, seed=seed) for seed in range(4)]
    assert all(sorted(it) == [0] * 5 + [1] * 5 + [2] * 5 for it in found)
    assert len({tuple(it) for it in found}) == 4 and found[0] == owners(together=True, seed=0)
