"""Control flow: loops, branches and calls."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import Module, parse_module
from tawa.sim import simulate
from tawa.sim.errors import EndlessLoop, UnsupportedOp
from tests.cases.programs.ttgir import op
from tests.sim.small import kernel, run

POINTER = "!tt.ptr<f32>"


def add_to_x(value: str) -> str:
    return op("tt.atomic_rmw", f"%x, {value}", f"{POINTER}, f32", "%old", "f32", properties="atomic_rmw_op = 5 : i32")


def constant(name: str, value: str, type: str) -> str:
    return op("arith.constant", "", "", name, type, properties=f"value = {value} : {type}")


def loop(step: int) -> Module:
    """Adds 1 to x[0] for each trip of a loop from 0 to n."""
    return kernel(
        constant("%zero", "0", "i32"),
        constant("%step", str(step), "i32"),
        constant("%one", "1.0", "f32"),
        '"scf.for"(%zero, %n, %step) ({\n^bb0(%i: i32):',
        add_to_x("%one"),
        '"scf.yield"() : () -> ()\n}) : (i32, i32, i32) -> ()',
    )


@pytest.mark.parametrize(("step", "upper", "trips"), [(1, 0, 0), (1, 5, 5), (2, 5, 3), (7, 5, 1), (0, 0, 0)])
def test_the_trip_count_of_a_loop(step: int, upper: int, trips: int) -> None:
    assert run(loop(step), n=upper)[0] == trips


def test_a_loop_with_trips_and_without_a_positive_step_traps() -> None:
    with pytest.raises(EndlessLoop, match="a loop with step 0 from 0 to 3 never ends"):
        run(loop(0), n=3)


@pytest.mark.parametrize(("n", "wanted"), [(0, 2), (5, 1)])
def test_an_if_executes_one_of_its_regions(n: int, wanted: int) -> None:
    module = kernel(
        constant("%zero", "0", "i32"),
        constant("%one", "1.0", "f32"),
        constant("%two", "2.0", "f32"),
        op("arith.cmpi", "%n, %zero", "i32, i32", "%p", "i1", properties="predicate = 4 : i64"),
        '%value = "scf.if"(%p) ({\n"scf.yield"(%one) : (f32) -> ()\n}, {\n"scf.yield"(%two) : (f32) -> ()\n})'
        " : (i1) -> f32",
        add_to_x("%value"),
    )
    assert run(module, n=n)[0] == wanted


def test_a_call_of_an_undefined_function_is_unsupported() -> None:
    with pytest.raises(UnsupportedOp, match="a call of missing, which is not defined in the module"):
        run(kernel(op("tt.call", "", "", properties="callee = @missing")))


def test_branches_between_blocks_are_followed() -> None:
    module = parse_module(
        '"builtin.module"() ({\n"tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel"}> ({\n'
        f"^bb0(%x: !tt.ptr<f32>, %n: i32):\n{constant('%one', '1.0', 'f32')}\n"
        '"cf.br"(%one)[^bb1] : (f32) -> ()\n'
        f'^bb1(%value: f32):\n{add_to_x("%value")}\n"tt.return"() : () -> ()\n'
        '}) : () -> () loc("kernel.py":1:0)\n}) : () -> ()\n'
    )
    x = np.zeros(64, np.float32)
    simulate(module, {"x": x, "n": 0}, (2,))
    assert x[0] == 2
