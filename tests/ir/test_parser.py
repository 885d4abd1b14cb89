"""Reading and printing MLIR's generic form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from tawa.errors import ParseError
from tawa.ir import Module, Operation, parse_module, print_module, print_op
from tests.cases.programs import ttgir as programs
from tests.ir.modules import modules, same, uses_agree
from tests.support.sample import examples

DATA = Path(__file__).parent.parent / "data"


def module_of(*lines: str) -> Module:
    """A module whose body is `lines`."""
    return parse_module('"builtin.module"() ({\n' + "\n".join(lines) + "\n}) : () -> ()\n")


def only(module: Module) -> Operation:
    (op,) = module.body.ops
    return op


# -- round trips -------------------------------------------------------------------------------------------------------


@given(modules())
@settings(max_examples=examples(60))
def test_printing_and_reading_gives_the_same_module(module: Module) -> None:
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    assert same(module.op, again.op)
    assert (again.aliases, again.locs) == (module.aliases, module.locs)
    assert uses_agree(again)


@given(modules())
@settings(max_examples=examples(30))
def test_leaving_out_locations_leaves_out_nothing_else(module: Module) -> None:
    text = print_module(module, locations=False)
    again = parse_module(text)
    assert print_module(again, locations=False) == text
    assert [op.name for op in again.walk()] == [op.name for op in module.walk()]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.mlir")), ids=lambda path: path.name)
def test_a_dump_of_triton_comes_back_as_it_was_read(path: Path) -> None:
    module = parse_module(path.read_text())
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    assert same(module.op, again.op)
    assert uses_agree(module)
    places = sum(line.count(" loc(") for line in path.read_text().splitlines() if not line.startswith("#"))
    assert sum(line.count(" loc(") for line in text.splitlines() if not line.startswith("#")) == places


# -- pieces of the form ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        '"test.op"() : () -> ()',
        '%0 = "test.op"() : () -> i32',
        '%0:2 = "test.op"() : () -> (i32, f16)',
        '%0 = "test.op"() : () -> (() -> i32)',
        '"test.op"() <{value = dense<0xFF800000> : tensor<4xf32, #mma>}> : () -> ()',
        '"test.op"() <{text = "}> {) -> \\" "}> {unit, "a-b" = 3 : i32} : () -> ()',
        '"test.op"() <{map = affine_map<(d0, d1) -> (d1)>}> : () -> ()',
    ],
)
def test_a_line_is_printed_as_it_was_read(line: str) -> None:
    assert print_op(only(module_of(line))) == line


def test_names_of_values_survive_and_stay_unique() -> None:
    module = module_of(
        '%acc_12 = "test.op"() : () -> i32', '%acc = "test.op"() : () -> i32', '%3 = "test.op"() : () -> i32'
    )
    assert [op.result.hint for op in module.body.ops] == ["acc", "acc", ""]
    text = print_module(module)
    assert "%acc_0 =" in text and "%acc_1 =" in text and "%0 =" in text


def test_names_are_unique_across_sibling_regions() -> None:
    region = '^bb0(%x: i32):\n"cf.br"(%x) : (i32) -> ()'
    text = print_module(module_of('"test.op"() ({', region, "}, {", region, "}) : () -> ()"))
    assert "^bb0(%x_0: i32" in text and "^bb1(%x_1: i32" in text


def test_single_results_of_many_are_operands() -> None:
    module = module_of('%a:3 = "test.op"() : () -> (i1, i32, f16)', '"test.use"(%a#2, %a#0) : (f16, i1) -> ()')
    first, second = module.body.ops
    assert second.operands == [first.results[2], first.results[0]]


def test_two_targets_share_the_results() -> None:
    module = module_of('%a:2, %b = "test.op"() : () -> (i1, i32, f16)', '"test.use"(%a#1, %b) : (i32, f16) -> ()')
    first, second = module.body.ops
    assert second.operands == [first.results[1], first.results[2]]


def test_branches_name_their_blocks_before_or_behind_them() -> None:
    module = module_of(
        '"test.op"() ({',
        '"cf.br"()[^bb2] : () -> ()',
        "^bb1:  // pred: ^bb2",
        '"cf.br"()[^bb2] : () -> ()',
        "^bb2:",
        '"cf.cond_br"()[^bb1, ^bb2] : () -> ()',
        "}) : () -> ()",
    )
    entry, one, two = only(module).regions[0].blocks
    assert entry.terminator.successors == [two]
    assert one.terminator.successors == [two]
    assert two.terminator.successors == [one, two]


def test_an_empty_region_has_one_empty_block() -> None:
    op = only(module_of('"scf.if"() ({', '"scf.yield"() : () -> ()', "}, {", "}) : () -> ()"))
    assert [len(region.block.ops) for region in op.regions] == [1, 0]


def test_comments_and_blank_lines_are_passed_over() -> None:
    assert only(module_of("// -----", "", '"test.op"() : () -> ()')).name == "test.op"


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "number", "reason"),
    [
        (['%0 = "a.b"(%x) : (i32) -> i32'], 2, "%x is used before it is defined"),
        (['"a.b"() : () -> ()', '"a.b"() : (i32) -> ()'], 3, "0 operands but 1 operand types"),
        (['%0 = "a.b"() : () -> (i32, i32)'], 2, "1 result names but 2 result types"),
        (['"a.b"()'], 2, "the function type is missing"),
        (["tt.return"], 2, "not MLIR generic form"),
        (['"a.b"() <{x = [1}> : () -> ()'], 2, "never closes"),
        (["#x"], 2, "bad alias"),
        (["}", "}"], 2, "a region ends in an unknown way"),
        (['%0 = a.b"() : () -> i32'], 2, "not an operation in generic form"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_shown(lines: list[str], number: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        module_of(*lines)
    assert str(caught.value).startswith(f"line {number}: ")
    assert reason in str(caught.value)
    assert lines[number - 2] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the text holds no operation"),
        ('"builtin.module"() ({\n', "the text ends inside a region"),
        ('"a.b"() : () -> ()\n"a.b"() : () -> ()\n', "more than one top operation"),
        ("}) : () -> ()\n", "a region ends that never began"),
        ("^bb0:\n", "bad block label"),
        ("{-#\n", "resource sections are not supported"),
    ],
)
def test_a_text_that_is_no_module_says_why(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_module(text)


def test_the_custom_form_is_refused() -> None:
    with pytest.raises(ParseError, match="line 1: not MLIR generic form"):
        parse_module("module {\n}\n")


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_text_cut_short_is_refused(cut: int) -> None:
    lines = programs.tile_gemm().splitlines()
    with pytest.raises(ParseError):
        parse_module("\n".join(lines[:-cut]))


def test_a_branch_to_a_block_that_is_not_there_is_refused() -> None:
    with pytest.raises(ParseError, match=r"line 4: a branch goes to \^bb7, which is not in this region"):
        module_of('"test.op"() ({', '"cf.br"()[^bb7] : () -> ()', "}) : () -> ()")
