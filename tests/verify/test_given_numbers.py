"""Numbers that the checks choose because one computation, outside of the partitions, defines them."""

from __future__ import annotations

import pytest

from tawa.ir import Builder, Module, ValueMap, clone_op, parse_module
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.given_numbers import Function, function_of, given_numbers
from tawa.verify.verdict import Proved, Refuted
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import kernel, op, summed
from tests.support.verdicts import passes
from tests.verify.barriers.test_check import barrier, made

SUM = barrier("given_sum")
ROW = "tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>"


def fold(result: str, tile: str, type: str, combine: str = "arith.addi") -> str:
    """``result``: the elements of a row, folded."""
    element = type.partition("x")[2].partition(",")[0]
    body = (
        f'^bb0(%l: {element}, %r: {element}):\n%p = "{combine}"(%l, %r) : ({element}, {element}) -> {element}\n'
        f'"tt.reduce.return"(%p) : ({element}) -> ()'
    )
    return f'%{result} = "tt.reduce"(%{tile}) <{{axis = 0 : i32}}> ({{\n{body}\n}}) : ({type}) -> {element}'


FLOATS = ROW.replace("i32", "f32")
ROUNDED = "\n".join(
    (
        op("arith.constant", "", "", "%tile", FLOATS, properties=f"value = dense<1.0> : {FLOATS}"),
        fold("sum", "tile", FLOATS, "arith.addf"),
        op("tt.splat", "%sum", "f32", "%all", FLOATS),
        op("arith.fptosi", "%all", FLOATS, "%whole", ROW),
        fold("whole_sum", "whole", ROW),
    )
)
"""A number that follows from a sum of floats."""


def names(module: Module) -> list[str]:
    return [op.result.hint for op in given_numbers(module.walk())]


def within(text: str) -> Module:
    return parse_module(kernel(text))


def assembly(text: str, result: str = "count") -> str:
    properties = f'asm_string = "{text}", constraints = "=r,r", packed_element = 1 : i32, pure = true'
    return op("tt.elementwise_inline_asm", "%n", "i32", f"%{result}", "i32", properties=properties)


def test_a_sum_that_rounds_is_given_in_front_of_the_partitions() -> None:
    assert names(within(ROUNDED)) == ["whole_sum"]


def test_a_sum_in_a_loop_may_differ_from_iteration_to_iteration() -> None:
    assert names(within(programs.for_loop(ROUNDED))) == []


def test_a_sum_in_a_partition_may_differ_from_that_of_another() -> None:
    group = f'"warp.group"() <{{partition = "p", role = "consumer", num_warps = 4 : i32}}> ({{\\n{summed("sum")}\\n'
    assert names(within(f'{group}"warp.end"() : () -> ()\n}}) : () -> ()'.replace("\\n", "\n"))) == []


@pytest.mark.parametrize(
    ("text", "function"), [("popc.b32 $0, $1;", True), ("mov.u32 $0, %laneid;", False), ("ld.b32 $0, [$1];", False)]
)
def test_assembly_on_registers_is_a_function_unless_threads_differ(text: str, function: bool) -> None:
    (op,) = (it for it in within(assembly(text)).walk() if it.name == "tt.elementwise_inline_asm")
    assert (function_of(op) is not None) is function
    assert given_numbers([op]) == {}


def functions(text: str) -> list[Function]:
    """The functions of a program, in order."""
    return [found for it in within(text).walk() if (found := function_of(it)) is not None]


def test_the_same_function_of_the_same_number_has_one_name() -> None:
    codes = (("popc.b32 $0, $1;", "p"), ("popc.b32 $0, $1;", "q"), ("clz.b32 $0, $1;", "r"))
    one, two, other = functions("\n".join(assembly(code, name) for code, name in codes))
    assert one == two and other.name != one.name


def summed_row(row: str, layout: str = "#blocked", combine: str = "arith.addi") -> str:
    """The sum of ``row + %n``, in a layout."""
    tile = ROW.replace("#blocked", layout)
    return "\n".join(
        (
            op("tt.make_range", "", "", f"%{row}", tile, properties="start = 0 : i32, end = 64 : i32"),
            op("tt.splat", "%n", "i32", f"%{row}_n", tile),
            op("arith.addi", f"%{row}, %{row}_n", f"{tile}, {tile}", f"%{row}_tile", tile),
            fold(f"{row}_sum", f"{row}_tile", tile, combine),
        )
    )


def test_sums_of_the_same_tile_are_one_function_in_every_layout() -> None:
    one, two = functions(f"{summed_row('r')}\n{summed_row('s', '#mma')}")
    assert one.name == two.name and one.inputs == two.inputs
    assert [value.hint for value in one.inputs] == ["n"]


def test_the_largest_is_another_function_than_the_sum() -> None:
    one, two = functions(f"{summed_row('r')}\n{summed_row('s', combine='arith.maxsi')}")
    assert one.name != two.name


def test_a_sum_of_floats_is_none_because_layouts_add_in_another_order() -> None:
    assert functions(ROUNDED) == []
    assert len(functions(ROUNDED.replace("arith.addf", "arith.maxnumf"))) == 1


def test_a_tile_that_a_loop_carries_gives_no_function() -> None:
    first = op("arith.constant", "", "", "%first", ROW, properties=f"value = dense<1> : {ROW}")
    loop = programs.for_loop(fold("sum", "t", ROW), carried={"t": ("first", "t", ROW)}, results="%last")
    assert functions(f"{first}\n{loop}") == []


def test_numbers_that_the_checks_can_compute_or_load_are_not_given() -> None:
    loaded = programs.scalar_load("q", "lock")
    text = kernel(f"{programs.binary('p', 'addi', 'n', 'm')}\n{loaded}", arguments=programs.LOCK)
    assert names(parse_module(text)) == []


def test_a_program_is_proved_for_any_given_number() -> None:
    assert check_barriers(SUM) == Proved()
    assert isinstance(check_credits(parse_module(made("given_sum")[0])), Proved)


@pytest.mark.parametrize(("combine", "right"), [("arith.addi", True), ("arith.maxsi", False)])
def test_partitions_that_fold_for_themselves_agree_if_it_is_the_same_fold(combine: str, right: bool) -> None:
    """The consumer folds the tile itself, in place of the number that the producer gets."""
    module = barrier("given_sum")
    (fork,) = (it for it in module.walk() if it.name == "ttg.warp_specialize")
    given = next(it for it in module.walk() if it.results and it.results[0].hint == "trips")
    inside = fork.regions[0].block
    uses = [use for use in given.result.uses if any(outer.parent is inside for outer in (use.op, *use.op.ancestors()))]
    builder, mapping = Builder.before(inside.ops[0]), ValueMap()
    chain = [given]
    while (made := chain[-1].operands[0].defining_op) is not None and made.name != "arith.constant":
        chain.append(made)
    for link in reversed(chain):
        builder.insert(clone_op(link, mapping))
    fold = mapping[given.result].defining_op
    assert uses and fold is not None
    fold.regions[0].block.ops[0].name = combine
    for use in uses:
        use.op.set_operand(use.index, fold.result)
    verdict = check_barriers(module)
    assert passes(verdict) if right else isinstance(verdict, Refuted)
