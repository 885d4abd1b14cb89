"""`late_sums`: threads carry sums of their own columns through a loop and are summed after it."""

from __future__ import annotations

from tawa.dialects import structure_rules
from tawa.ir import Module, parse_module, print_module, verify_structure
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.sums import choose_sums
from tawa.transforms.ttir.late_sums import LateSums
from tests.cases.programs.running_sum import ROW, USUAL, add, loop, program, total
from tests.cases.programs.ttgir import op
from tests.support.filecheck import check

RELAXED = PlanOptions(precision="relaxed")


def late(*loops: str, after: str = "sum") -> str:
    """The text of a program after the pass, with its structure checked."""
    module = parse_module(program(*loops, after=after))
    decided, sums = choose_sums(module, RELAXED, Plan())
    result = LateSums(sums).run(module)
    assert result.changed and decided.sums == "after_loops"
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return print_module(module, locations=False)


def test_the_loop_carries_columns_and_the_sum_follows_it() -> None:
    check(
        late(loop(*USUAL)),
        """
        CHECK: [[Z:%\\w+]] = "arith.constant"() <{value = dense<0.000000e+00> : tensor<128x8xf32>}>
        CHECK: [[L:%\\w+]] = "scf.for"(%zero_0, %n_0, %one_0, [[Z]])
        CHECK: ^bb{{.}}(%i_0: i32, [[A:%\\w+]]: tensor<128x8xf32>)
        CHECK: [[Q:%\\w+]] = "tt.reshape"(%p_0) : (tensor<128x128xf32>) -> tensor<128x16x8xf32>
        CHECK: [[R:%\\w+]] = "tt.reduce"([[Q]]) <{axis = 1 : i32}>
        CHECK: (tensor<128x16x8xf32>) -> tensor<128x8xf32>
        CHECK: [[E:%\\w+]] = "tt.expand_dims"(%alpha_0) <{axis = 1 : i32}> : (tensor<128xf32>) -> tensor<128x1xf32>
        CHECK: [[B:%\\w+]] = "tt.broadcast"([[E]]) : (tensor<128x1xf32>) -> tensor<128x8xf32>
        CHECK: [[M:%\\w+]] = "arith.mulf"([[A]], [[B]])
        CHECK: [[N:%\\w+]] = "arith.addf"([[M]], [[R]])
        CHECK: "scf.yield"([[N]])
        CHECK: [[S:%\\w+]] = "tt.reduce"([[L]]) <{axis = 1 : i32}>
        CHECK: (tensor<128x8xf32>) -> tensor<128xf32>
        CHECK: "tt.expand_dims"([[S]])
        """,
    )


def test_a_loop_that_continues_a_sum_takes_over_its_columns() -> None:
    text = late(loop(*USUAL, result="first"), loop(*USUAL, init="first"))
    check(
        text,
        """
        CHECK: [[F:%\\w+]] = "scf.for"(%zero_0, %n_0, %one_0,
        CHECK: "scf.for"(%zero_0, %n_0, %one_0, [[F]])
        """,
    )
    assert text.count("(tensor<128x8xf32>) -> tensor<128xf32>") == 1


def test_any_other_initial_value_goes_to_the_first_column() -> None:
    check(
        late(loop(*USUAL, init="alpha")),
        """
        CHECK: "tt.make_range"() <{end = 8 : i32, start = 0 : i32}> : () -> tensor<8xi32>
        CHECK: [[F:%\\w+]] = "arith.cmpi"
        CHECK: "tt.expand_dims"([[F]]) <{axis = 0 : i32}> : (tensor<8xi1>) -> tensor<1x8xi1>
        CHECK: "tt.expand_dims"(%alpha_0) <{axis = 1 : i32}> : (tensor<128xf32>) -> tensor<128x1xf32>
        CHECK: [[I:%\\w+]] = "arith.select"
        CHECK: "scf.for"(%zero_0, %n_0, %one_0, [[I]])
        """,
    )


def test_a_fused_multiplication_takes_in_the_factor_by_columns() -> None:
    fused = op("math.fma", "%alpha, %l, %r", f"{ROW}, {ROW}, {ROW}", "%next", ROW)
    check(late(loop(total("r"), fused)), """CHECK: "math.fma"({{.*}}) -> tensor<128x8xf32>""")


def test_a_program_without_running_sums_stays_as_it_is() -> None:
    module: Module = parse_module(
        program(loop(total("r", combine="arith.maxnumf"), add("next", "l", "r", "arith.maxnumf")))
    )
    before = print_module(module)
    decided, sums = choose_sums(module, RELAXED, Plan())
    result = LateSums(sums).run(module)
    assert (result.changed, decided.sums, print_module(module)) == (False, "in_order", before)
