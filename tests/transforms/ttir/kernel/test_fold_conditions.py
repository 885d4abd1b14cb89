"""`fold_conditions`: comparisons that follow from constants and loop bounds become constants."""

from __future__ import annotations

import pytest

from tawa.dialects import structure_rules
from tawa.ir import Module, parse_module, print_module, verify_structure
from tawa.transforms.ttir.kernel.fold_conditions import FoldConditions

POINTERS, MASK, TILE = "tensor<64x!tt.ptr<f32>>", "tensor<64xi1>", "tensor<64xf32>"
LOADED = f"({POINTERS}, {MASK}, {TILE}) -> {TILE}"


def kernel(size: int, condition: str, trips: str = "%two") -> Module:
    """A loop over blocks of 64 of a row of `size`, with a masked load whose sum a branch adds up."""
    return parse_module(f"""
"builtin.module"() ({{
  "tt.func"() <{{function_type = ({POINTERS}, i32, f32) -> (), sym_name = "kernel"}}> ({{
  ^bb0(%p: {POINTERS}, %n: i32, %x: f32):
    %zero = "arith.constant"() <{{value = 0 : i32}}> : () -> i32
    %one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32
    %two = "arith.constant"() <{{value = 2 : i32}}> : () -> i32
    %64 = "arith.constant"() <{{value = 64 : i32}}> : () -> i32
    %size = "arith.constant"() <{{value = dense<{size}> : tensor<64xi32>}}> : () -> tensor<64xi32>
    %other = "arith.constant"() <{{value = dense<0.0> : {TILE}}}> : () -> {TILE}
    %lanes = "tt.make_range"() <{{start = 0 : i32, end = 64 : i32}}> : () -> tensor<64xi32>
    %r = "scf.for"(%zero, {trips}, %one, %x) ({{
    ^bb1(%i: i32, %s: f32):
      %first = "arith.muli"(%i, %64) : (i32, i32) -> i32
      %block = "tt.splat"(%first) : (i32) -> tensor<64xi32>
      %at = "arith.addi"(%block, %lanes) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
      %m = "arith.cmpi"(%at, %size) <{{predicate = 2 : i64}}> : (tensor<64xi32>, tensor<64xi32>) -> {MASK}
      %q = "tt.addptr"(%p, %at) : ({POINTERS}, tensor<64xi32>) -> {POINTERS}
      %t = "tt.load"(%q, %m, %other) <{{operandSegmentSizes = array<i32: 1, 1, 1>}}> : {LOADED}
      {condition}
      %y = "scf.if"(%c) ({{
        %v = "test.sum"(%t, %s) : ({TILE}, f32) -> f32
        "scf.yield"(%v) : (f32) -> ()
      }}, {{
        "scf.yield"(%s) : (f32) -> ()
      }}) : (i1) -> f32
      "scf.yield"(%y) : (f32) -> ()
    }}) : (i32, i32, i32, f32) -> f32
    "test.use"(%r) : (f32) -> ()
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
""")  # fmt: skip


def compared(with_: str, predicate: int) -> str:
    return f'%c = "arith.cmpi"(%i, {with_}) <{{predicate = {predicate} : i64}}> : (i32, i32) -> i1'


LESS, AT_LEAST = 2, 5
UNKNOWN = compared("%one", AT_LEAST)


def folded(module: Module) -> str:
    FoldConditions().run(module)
    assert not verify_structure(module, structure_rules())
    return print_module(module, locations=False).replace("_0", "")


@pytest.mark.parametrize("trips", ["%two", "%n"])
def test_a_branch_that_may_be_taken_or_not_stays(trips: str):
    module = kernel(128, UNKNOWN, trips)
    before = print_module(module)
    assert not FoldConditions().run(module).changed and print_module(module) == before


def test_a_condition_beside_one_that_always_holds_decides_alone():
    both = f"""
      {UNKNOWN.replace("%c", "%d")}
      {compared("%zero", AT_LEAST).replace("%c", "%e")}
      %c = "arith.andi"(%d, %e) : (i1, i1) -> i1
    """
    text = folded(kernel(128, both))
    assert '"scf.if"(%d)' in text and "arith.andi" not in text


def test_a_branch_that_is_always_taken_leaves_its_operations():
    text = folded(kernel(100, compared("%zero", AT_LEAST)))
    assert "scf.if" not in text and '"scf.yield"(%v)' in text and "%m, %other" in text


def test_an_index_is_less_than_the_end_of_its_loop():
    assert "scf.if" not in folded(kernel(100, compared("%n", LESS), "%n"))


def test_a_branch_that_is_never_taken_leaves_the_values_of_the_other():
    text = folded(kernel(100, compared("%two", AT_LEAST)))
    assert "test.sum" not in text and '"scf.yield"(%s)' in text


def test_a_bound_by_an_argument_is_no_premise():
    assert "scf.if" in folded(kernel(100, compared("%n", AT_LEAST)))
