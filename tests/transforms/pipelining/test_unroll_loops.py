"""`unroll_loops`: several iterations of a loop become one, and the rest of them follow."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import Module, parse_module
from tawa.plan import LoopPlan, Plan
from tawa.sim import simulate
from tawa.transforms.pipelining.unroll_loops import UnrollLoops


def summing(lower: int = 0, step: int = 1) -> Module:
    """Adds up numbers, and multiplies the sum in each iteration."""
    return parse_module(f"""
"builtin.module"() ({{
  "tt.func"() <{{function_type = (!tt.ptr<i32>, i32) -> (), sym_name = "kernel"}}> ({{
  ^bb0(%p: !tt.ptr<i32>, %n: i32):
    %first = "arith.constant"() <{{value = {lower} : i32}}> : () -> i32
    %step = "arith.constant"() <{{value = {step} : i32}}> : () -> i32
    %three = "arith.constant"() <{{value = 3 : i32}}> : () -> i32
    %r = "scf.for"(%first, %n, %step, %first) ({{
    ^bb1(%i: i32, %s: i32):
      %at = "tt.addptr"(%p, %i) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>
      %x = "tt.load"(%at) <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : (!tt.ptr<i32>) -> i32
      %m = "arith.muli"(%s, %three) : (i32, i32) -> i32
      %t = "arith.addi"(%m, %x) : (i32, i32) -> i32
      "scf.yield"(%t) : (i32) -> ()
    }}) {{tawa.loop = 0 : i32}} : (i32, i32, i32, i32) -> i32
    "tt.store"(%p, %r) : (!tt.ptr<i32>, i32) -> ()
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) {{"ttg.num-warps" = 1 : i32}} : () -> ()
""")


def output(module: Module, n: int) -> int:
    numbers = np.arange(5, 5 + max(1, n), dtype=np.int32)  # a load too many traps
    simulate(module, {"p": numbers, "n": n}, (1,))
    return int(numbers[0])


@pytest.mark.parametrize("times", [2, 3, 4])
@pytest.mark.parametrize("n", [-7, 0, 1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize(("lower", "step"), [(0, 1), (1, 1), (0, 2), (2, 3)])
def test_all_iterations_run_once_in_their_order(lower: int, step: int, n: int, times: int) -> None:
    made = summing(lower, step)
    assert UnrollLoops(Plan(loops=(LoopPlan(0, unrolled=times),))).run(made).changed
    assert output(made, n) == output(summing(lower, step), n)


def test_without_a_word_of_the_plan_nothing_changes() -> None:
    assert not UnrollLoops(Plan()).run(summing()).changed
