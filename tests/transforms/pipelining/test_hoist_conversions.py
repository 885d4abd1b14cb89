"""`hoist_conversions`: a loop carries and loads tiles in the layout in which it computes with them."""

from __future__ import annotations

import pytest

from tawa.ir import Module, parse_module, print_module
from tawa.transforms.pipelining.hoist_conversions import HoistConversions
from tawa.verify.layouts import difference
from tests.support.filecheck import check

A, B = "tensor<16x64xf32, #a>", "tensor<16x64xf32, #b>"
ROW_A, ROW_B = "tensor<64xf32, #a1>", "tensor<64xf32, #b1>"
POINTERS = "tensor<64x!tt.ptr<f32>, #a1>"


def loop(body: str, carried: str, yielded: str, type: str, more: str = "") -> Module:
    """A loop over `%n` that carries one tile; what follows it reads the last one in `#b`."""
    return parse_module(f"""
#a = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [1, 0]}}>
#b = #ttg.blocked<{{sizePerThread = [1, 2], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]}}>
#a1 = #ttg.blocked<{{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
#b1 = #ttg.slice<{{dim = 0, parent = #a}}>
"builtin.module"() ({{
  "tt.func"() <{{function_type = (i32, {A}, {B}, !tt.ptr<f32>, {ROW_B}) -> (), sym_name = "kernel"}}> ({{
  ^bb0(%n: i32, %x: {A}, %init: {B}, %base: !tt.ptr<f32>, %row: {ROW_B}):
    %p = "tt.splat"(%base) : (!tt.ptr<f32>) -> {POINTERS}
    %zero = "arith.constant"() <{{value = 0 : i32}}> : () -> i32
    %one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32
    %step = "arith.constant"() <{{value = dense<64> : tensor<64xi32, #a1>}}> : () -> tensor<64xi32, #a1>
    {more}
    %r = "scf.for"(%zero, %n, %one, {carried}) ({{
    ^bb1(%i: i32, %s: {type}):
      {body}
      "scf.yield"({yielded}) : ({type}) -> ()
    }}) : (i32, i32, i32, {type}) -> {type}
    "gpu.barrier"() : () -> ()
    "test.use"(%r) : ({type}) -> ()
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) {{"ttg.num-warps" = 1 : i32}} : () -> ()
""")


def hoisted(module: Module) -> str:
    before = parse_module(print_module(module))
    HoistConversions().run(module)
    assert difference(before, module) == ""
    return print_module(module, locations=False)


def converted(value: str, result: str) -> str:
    return f'{result} = "ttg.convert_layout"({value}) : ({A}) -> {B}'


TERM = f'%y = "test.term"() : () -> {A}\n%e = "math.exp2"(%y) : ({A}) -> {A}\n' + converted("%e", "%c")
SUM = f'%t = "arith.addf"(%s, %c) : ({B}, {B}) -> {B}'


def test_a_sum_is_carried_in_the_layout_of_its_terms() -> None:
    check(
        hoisted(loop(f"{TERM}\n{SUM}", "%init", "%t", B)),
        """
        CHECK: "ttg.convert_layout"(%init_0) : ({{.*}}#b>) -> {{.*}}#a>
        CHECK: "scf.for"
        CHECK-NOT: convert_layout
        CHECK: "arith.addf"({{.*}}#a>) -> {{.*}}#a>
        CHECK-NOT: convert_layout
        CHECK: "scf.yield"
        CHECK: "ttg.convert_layout"({{.*}}#a>) -> {{.*}}#b>
        CHECK: "test.use"({{.*}}#b>)
        """,
    )


def test_a_sum_that_another_operation_of_the_loop_reads_stays() -> None:
    module = loop(f'{TERM}\n{SUM}\n"test.use"(%t) : ({B}) -> ()', "%init", "%t", B)
    before = print_module(module)
    assert not HoistConversions().run(module).changed and print_module(module) == before


CHOSEN = f"""
      %m = "arith.cmpf"(%y, %x) <{{predicate = 1 : i64}}> : ({A}, {A}) -> tensor<16x64xi1, #a>
      %w = "arith.select"(%m, %q, %x) : (tensor<16x64xi1, #a>, {A}, {A}) -> {A}
"""


@pytest.mark.parametrize(("more", "value"), [("", "%q"), (CHOSEN, "%w")], ids=["a product", "a product that is chosen"])
def test_a_product_that_loses_its_conversion_is_rounded_apart(more: str, value: str) -> None:
    product = f"""
      %y = "test.term"() : () -> {A}
      %q = "arith.mulf"(%y, %x) : ({A}, {A}) -> {A}
      {more}
    """
    text = hoisted(loop(f"{product}\n{converted(value, '%c')}\n{SUM}", "%init", "%t", B))
    assert "mul.rn.f32" in text and "arith.mulf" not in text


def test_a_product_of_what_no_iteration_changes_is_computed_in_the_layout_of_the_sum() -> None:
    product = f'%q = "arith.mulf"(%x, %x) : ({A}, {A}) -> {A}'
    check(
        hoisted(loop(f"{product}\n{converted('%q', '%c')}\n{SUM}", "%init", "%t", B)),
        """
        CHECK: "ttg.convert_layout"(%x_0)
        CHECK: "scf.for"
        CHECK-NOT: convert_layout
        CHECK: mul.rn.f32{{.*}}#b>
        CHECK: "arith.addf"({{.*}}#b>
        CHECK-NOT: convert_layout
        """,
    )


def test_a_product_that_is_also_added_elsewhere_keeps_its_conversion() -> None:
    product = f"""
      %q = "arith.mulf"(%x, %x) : ({A}, {A}) -> {A}
      %u = "arith.addf"(%q, %x) : ({A}, {A}) -> {A}
      "test.use"(%u) : ({A}) -> ()
    """
    assert not HoistConversions().run(loop(f"{product}\n{converted('%q', '%c')}\n{SUM}", "%init", "%t", B)).changed


def test_a_row_is_loaded_in_the_layout_in_which_it_is_used() -> None:
    row = f"""
      %l = "tt.load"(%s) <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : ({POINTERS}) -> {ROW_A}
      %c = "ttg.convert_layout"(%l) : ({ROW_A}) -> {ROW_B}
      %e = "math.exp2"(%c) : ({ROW_B}) -> {ROW_B}
      %t = "tt.addptr"(%s, %step) : ({POINTERS}, tensor<64xi32, #a1>) -> {POINTERS}
    """
    check(
        hoisted(loop(row, "%p", "%t", POINTERS)),
        """
        CHECK: "tt.splat"(%base_0) : (!tt.ptr<f32>) -> {{.*}}#b1>
        CHECK: "scf.for"
        CHECK-NOT: convert_layout
        CHECK: "tt.load"({{.*}}#b1>) -> tensor<64xf32, #b1>
        CHECK-NOT: convert_layout
        CHECK: "scf.yield"
        """,
    )


def test_a_tile_of_several_rows_is_loaded_as_before() -> None:
    tile = "tensor<16x64x!tt.ptr<f32>, #a>"
    body = f"""
      %g = "test.pointers"() : () -> {tile}
      %e = "tt.load"(%g) <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : ({tile}) -> {A}
      {converted("%e", "%c")}
      "test.use"(%c) : ({B}) -> ()
    """
    assert not HoistConversions().run(loop(body, "%init", "%s", B)).changed


STORED = f"""
      %y = "tt.reduce"(%x) <{{axis = 0 : i32}}> ({{
      ^bb2(%u: f32, %v: f32):
        %w = "arith.addf"(%u, %v) : (f32, f32) -> f32
        "tt.reduce.return"(%w) : (f32) -> ()
      }}) : ({A}) -> {ROW_B}
      %q = "arith.mulf"(%y, %row) : ({ROW_B}, {ROW_B}) -> {ROW_B}
      %c = "ttg.convert_layout"(%q) : ({ROW_B}) -> {ROW_A}
      "tt.store"(%s, %c) : ({POINTERS}, {ROW_A}) -> ()
      %t = "tt.addptr"(%s, %step) : ({POINTERS}, tensor<64xi32, #a1>) -> {POINTERS}
"""


def test_a_row_is_stored_in_the_layout_in_which_it_is_computed() -> None:
    check(
        hoisted(loop(STORED, "%p", "%t", POINTERS)),
        """
        CHECK: "tt.splat"(%base_0) : (!tt.ptr<f32>) -> {{.*}}#b1>
        CHECK: "scf.for"
        CHECK-NOT: convert_layout
        CHECK: "arith.mulf"({{.*}}#b1>
        CHECK: "tt.store"({{.*}}#b1>, {{.*}}#b1>) -> ()
        CHECK-NOT: convert_layout
        CHECK: "scf.yield"
        """,
    )


READ = f'%z = "tt.load"(%p) <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : ({POINTERS}) -> {ROW_A}'


@pytest.mark.parametrize(("between", "moves"), [("", False), ('"gpu.barrier"() : () -> ()', True)])
def test_a_row_that_the_program_also_reads_is_stored_by_other_threads_only_behind_a_barrier(
    between: str, moves: bool
) -> None:
    module = loop(STORED, "%p", "%t", POINTERS, more=f"{READ}\n{between}")
    assert HoistConversions().run(module).changed == moves


def test_a_row_that_its_own_loop_reads_is_stored_by_the_same_threads() -> None:
    module = loop(f"{READ.replace('%p', '%s')}\n{STORED}", "%p", "%t", POINTERS)
    assert not HoistConversions().run(module).changed


def test_the_conversion_of_a_single_element_stays_because_it_costs_nothing() -> None:
    text = print_module(loop(STORED, "%p", "%t", POINTERS)).replace("tensor<64x", "tensor<1x")
    module = parse_module(text)
    assert not HoistConversions().run(module).changed
