"""`unroll_masked`: loops whose masks keep some rows become straight code in which a thread has whole columns."""

from __future__ import annotations

import pytest

from tawa.ir import Module, copy_module, parse_module, print_module
from tawa.transforms.pipelining.unroll_masked import UnrollMasked
from tawa.verify.layouts import difference
from tests.support.filecheck import check

TILE, ROW, COLUMN = "tensor<4x64xf32, #a>", "tensor<64xf32, #row>", "tensor<4xf32, #column>"
TERM = f'"tt.broadcast"(%e) : (tensor<1x64xf32, #a>) -> {TILE}'
SUM = f"""%m = "arith.select"(%mask, %t, %z) : (tensor<4x64xi1, #a>, {TILE}, {TILE}) -> {TILE}
      %n = "arith.addf"(%s, %m) : ({TILE}, {TILE}) -> {TILE}"""


def of_tiles(name: str, result: str, *operands: str) -> str:
    """An operation of tiles of floats; a select is by the mask."""
    mask = "%mask, " * (name == "arith.select")
    types = ", ".join(["tensor<4x64xi1, #a>"] * bool(mask) + [TILE] * len(operands))
    return f'{result} = "{name}"({mask}{", ".join(operands)}) : ({types}) -> {TILE}\n'


COLUMNS = (
    "tensor<4x64xf32, #ttg.blocked<"
    "{sizePerThread = [4, 2], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]}>>"
)
PRODUCT, MASKED = of_tiles("arith.mulf", "%p", "%t", "%x"), of_tiles("arith.select", "%m", "%t", "%z")
INTS = TILE.replace("f32", "i32")
ONES = f'%ones = "arith.constant"() <{{value = dense<1.0> : {TILE}}}> : () -> {TILE}\n'
ROUNDED_OTHERWISE = {
    "a mask makes a factor 1": ONES
    + PRODUCT
    + of_tiles("arith.select", "%f", "%t", "%ones")
    + of_tiles("arith.mulf", "%o", "%p", "%f")
    + of_tiles("arith.addf", "%n", "%s", "%o"),
    "a mask makes what is taken away 0": PRODUCT
    + MASKED
    + of_tiles("arith.subf", "%o", "%p", "%m")
    + of_tiles("arith.addf", "%n", "%s", "%o"),
    "a mask decides about the bits of a product": PRODUCT
    + f"""%b = "tt.bitcast"(%p) : ({TILE}) -> {INTS}
      %i = "arith.constant"() <{{value = dense<0> : {INTS}}}> : () -> {INTS}
      %m = "arith.select"(%mask, %b, %i) : (tensor<4x64xi1, #a>, {INTS}, {INTS}) -> {INTS}
      %o = "tt.bitcast"(%m) : ({INTS}) -> {TILE}
"""
    + of_tiles("arith.addf", "%n", "%s", "%o"),
    "the number of an iteration is a factor": ONES
    + f"""%jf = "arith.sitofp"(%j) : (i32) -> f32
      %js0 = "tt.splat"(%jf) : (f32) -> {TILE}
"""
    + MASKED
    + of_tiles("arith.addf", "%o", "%s", "%m")
    + of_tiles("arith.mulf", "%p", "%t", "%js0")
    + of_tiles("arith.addf", "%n", "%o", "%p"),
    "a mask is a factor": f"""%mf = "arith.uitofp"(%there) : (tensor<4x64xi1, #a>) -> {TILE}
"""
    + PRODUCT
    + MASKED
    + of_tiles("arith.mulf", "%f", "%p", "%mf")
    + of_tiles("arith.addf", "%o", "%s", "%f")
    + of_tiles("arith.addf", "%n", "%o", "%m"),
    "the number of iterations is a factor": f"""%uf = "arith.sitofp"(%upper) : (i32) -> f32
      %us = "tt.splat"(%uf) : (f32) -> {TILE}
"""
    + MASKED
    + of_tiles("arith.mulf", "%p", "%m", "%us")
    + of_tiles("arith.addf", "%n", "%s", "%p"),
    "ptxas would compute an approximation": f"""%jf = "arith.sitofp"(%j) : (i32) -> f32
      %e0 = "math.exp2"(%jf) : (f32) -> f32
      %es = "tt.splat"(%e0) : (f32) -> {TILE}
"""
    + MASKED
    + of_tiles("arith.addf", "%o", "%m", "%es")
    + of_tiles("arith.addf", "%n", "%s", "%o"),
    "ptxas would compute a reciprocal": ONES
    + of_tiles("arith.select", "%f", "%x", "%ones")
    + of_tiles("arith.divf", "%o", "%t", "%f")
    + of_tiles("arith.addf", "%n", "%s", "%o"),
    "an iteration adds to the product of the last one": MASKED
    + of_tiles("arith.addf", "%o", "%s", "%m")
    + of_tiles("arith.mulf", "%n", "%o", "%x"),
    "two products are added": PRODUCT
    + MASKED
    + of_tiles("arith.mulf", "%o", "%m", "%x")
    + of_tiles("arith.addf", "%b", "%p", "%o")
    + of_tiles("arith.addf", "%n", "%s", "%b"),
    "a product from before the loop is added": MASKED
    + of_tiles("arith.addf", "%o", "%m", "%xx")
    + of_tiles("arith.addf", "%n", "%s", "%o"),
}


def kernel(
    term: str = TERM, sums: str = SUM, more: str = "", *, most: int = 4, columns: int = 64, init: str = "%x"
) -> Module:
    """A loop over at most `most` rows of %p, which adds terms to the rows from its own on."""
    text = f"""
#a = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [1, 0]}}>
#row = #ttg.slice<{{dim = 0, parent = #a}}>
#column = #ttg.slice<{{dim = 1, parent = #a}}>
"builtin.module"() ({{
  "tt.func"() <{{arg_attrs = [{{}}, {{}}, {{}}, {{}}], function_type = (i32, {TILE}, !tt.ptr<f32>, !tt.ptr<f32>) -> (), sym_name = "kernel"}}> ({{
  ^bb0(%n0: i32, %x: {TILE}, %p: !tt.ptr<f32>, %q: !tt.ptr<f32>):
    %zero = "arith.constant"() <{{value = 0 : i32}}> : () -> i32
    %one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32
    %most = "arith.constant"() <{{value = {most} : i32}}> : () -> i32
    %upper = "arith.minsi"(%n0, %most) : (i32, i32) -> i32
    %z = "arith.constant"() <{{value = dense<0.0> : {TILE}}}> : () -> {TILE}
    %range = "tt.make_range"() <{{end = 4 : i32, start = 0 : i32}}> : () -> tensor<4xi32, #column>
    %rows = "tt.expand_dims"(%range) <{{axis = 1 : i32}}> : (tensor<4xi32, #column>) -> tensor<4x1xi32, #a>
    %ps = "tt.splat"(%p) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>, #row>
    %cs = "tt.make_range"() <{{end = 64 : i32, start = 0 : i32}}> : () -> tensor<64xi32, #row>
    %ns = "tt.splat"(%n0) : (i32) -> tensor<4x1xi32, #a>
    %ts = "arith.cmpi"(%rows, %ns) <{{predicate = 2 : i64}}> : (tensor<4x1xi32, #a>, tensor<4x1xi32, #a>) -> tensor<4x1xi1, #a>
    %there = "tt.broadcast"(%ts) : (tensor<4x1xi1, #a>) -> tensor<4x64xi1, #a>
    %xc = "ttg.convert_layout"(%x) : ({TILE}) -> {COLUMNS}
    %pc = "arith.mulf"(%xc, %xc) : ({COLUMNS}, {COLUMNS}) -> {COLUMNS}
    %cc = "ttg.convert_layout"(%pc) : ({COLUMNS}) -> {TILE}
    %xx = "arith.mulf"(%x, %x) : ({TILE}, {TILE}) -> {TILE}
    %r = "scf.for"(%zero, %upper, %one, {init}) ({{
    ^bb1(%j: i32, %s: {TILE}):
      %js = "tt.splat"(%j) : (i32) -> tensor<64xi32, #row>
      %at = "arith.addi"(%cs, %js) : (tensor<64xi32, #row>, tensor<64xi32, #row>) -> tensor<64xi32, #row>
      %ptr = "tt.addptr"(%ps, %at) : (tensor<64x!tt.ptr<f32>, #row>, tensor<64xi32, #row>) -> tensor<64x!tt.ptr<f32>, #row>
      %k = "tt.load"(%ptr) <{{isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}}> : (tensor<64x!tt.ptr<f32>, #row>) -> {ROW}
      %e = "tt.expand_dims"(%k) <{{axis = 0 : i32}}> : ({ROW}) -> tensor<1x64xf32, #a>
      %t = {term}
      %jt = "tt.splat"(%j) : (i32) -> tensor<4x1xi32, #a>
      %c = "arith.cmpi"(%rows, %jt) <{{predicate = 5 : i64}}> : (tensor<4x1xi32, #a>, tensor<4x1xi32, #a>) -> tensor<4x1xi1, #a>
      %mask = "tt.broadcast"(%c) : (tensor<4x1xi1, #a>) -> tensor<4x64xi1, #a>
      {sums}
      {more}
      "scf.yield"(%n) : ({TILE}) -> ()
    }}) : (i32, i32, i32, {TILE}) -> {TILE}
    %qs = "tt.splat"(%q) : (!tt.ptr<f32>) -> tensor<4x64x!tt.ptr<f32>, #a>
    "tt.store"(%qs, %r) <{{operandSegmentSizes = array<i32: 1, 1, 0>}}> : (tensor<4x64x!tt.ptr<f32>, #a>, {TILE}) -> ()
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""  # noqa: E501
    return parse_module(text.replace("64x", f"{columns}x").replace("end = 64", f"end = {columns}"))


def test_the_iterations_of_a_whole_chunk_are_straight_code_in_which_a_thread_has_whole_columns() -> None:
    before, after = kernel(), kernel()
    result = UnrollMasked(1).run(after)
    assert result.changed and "4 iterations without what a mask drops" in result.remarks[0].reason
    assert difference(before, after) == ""
    check(
        print_module(after, locations=False),
        """
        CHECK: "arith.cmpi"(%upper{{.*}}predicate = 0 : i64
        CHECK: "scf.if"(%whole
        CHECK-COUNT-4: "tt.load"{{.*}}parent = #ttg.blocked<{{.}}sizePerThread = [4, 2], threadsPerWarp = [1, 32]
        CHECK-NOT: "tt.load"
        CHECK: "ttg.convert_layout"{{.*}} -> tensor<4x64xf32, #a>
        CHECK: "scf.for"
        CHECK: "tt.load"
        """,
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (kernel(columns=16), "fewer columns than threads"),
        (kernel(most=4096), "too many iterations"),
        (kernel(sums=f'%n = "arith.addf"(%s, %t) : ({TILE}, {TILE}) -> {TILE}'), "no mask"),
        (kernel(term=f'"arith.mulf"(%s, %x) : ({TILE}, {TILE}) -> {TILE}'), "the sum would round with its product"),
        (kernel(more=f'"test.use"(%n) : ({TILE}) -> ()'), "an unknown effect"),
        (
            kernel(
                more='"tt.store"(%ptr, %k) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : '
                f"(tensor<64x!tt.ptr<f32>, #row>, {ROW}) -> ()"
            ),
            "rows that an iteration changes",
        ),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_other_loops_stay(given: Module, why: str) -> None:
    text = print_module(given)
    assert not UnrollMasked(1).run(given).changed, why
    assert print_module(given) == text


@pytest.mark.parametrize("why", [*ROUNDED_OTHERWISE, "the loop begins with a product"])
def test_a_loop_stays_whose_sums_would_round_otherwise_and_the_check_tells_it(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = kernel(sums=ROUNDED_OTHERWISE[why]) if why in ROUNDED_OTHERWISE else kernel(init="%xx")
    before = copy_module(given)
    assert not UnrollMasked(1).run(given).changed and print_module(given) == print_module(before)
    monkeypatch.setattr("tawa.transforms.pipelining.unroll_masked.rounds_alike", lambda loop: True)
    assert UnrollMasked(1).run(given).changed
    assert difference(before, given)


def test_a_sum_keeps_a_product_that_no_mask_changes() -> None:
    sums = MASKED + of_tiles("arith.mulf", "%p", "%m", "%x") + of_tiles("arith.addf", "%n", "%s", "%p")
    before, after = kernel(sums=sums), kernel(sums=sums)
    assert UnrollMasked(1).run(after).changed and difference(before, after) == ""


def test_a_product_that_is_converted_before_the_loop_stays_converted() -> None:
    before, after = kernel(init="%cc"), kernel(init="%cc")
    assert UnrollMasked(1).run(after).changed and difference(before, after) == ""


@pytest.mark.parametrize("name", ["tt.precise_sqrt", "tt.precise_divf", "tt.approx_divf"])
def test_each_elementwise_operation_may_be_in_an_iteration(name: str) -> None:
    operands = ("%t", "%x") if "div" in name else ("%t",)
    sums = of_tiles(name, "%o", *operands) + MASKED.replace("%t", "%o") + of_tiles("arith.addf", "%n", "%s", "%m")
    before, after = kernel(sums=sums), kernel(sums=sums)
    assert UnrollMasked(1).run(after).changed and difference(before, after) == ""


@pytest.mark.parametrize("number", ["0.0", "0xFF800000", "0x7F800000"])
def test_a_mask_may_make_the_argument_of_an_approximation_one_whose_result_is_defined(number: str) -> None:
    sums = f'%i = "arith.constant"() <{{value = dense<{number}> : {TILE}}}> : () -> {TILE}\n'
    sums += of_tiles("arith.select", "%m", "%t", "%i") + of_tiles("math.exp2", "%o", "%m")
    sums += of_tiles("arith.addf", "%n", "%s", "%o")
    before, after = kernel(sums=sums), kernel(sums=sums)
    assert UnrollMasked(1).run(after).changed and difference(before, after) == ""
