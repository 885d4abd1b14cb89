"""How many elements lie side by side: the cases in which Triton's axis analysis says the same."""

from __future__ import annotations

import pytest

from tawa.analysis.layout.axis_info import MOST, AxisInfo, ModuleAxisInfo
from tests.analysis.memory.test_provenance import value_named
from tests.cases.programs.ttgir import LOCK, for_loop, kernel, op, parse

ROW = "tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>"
FLAGS = ROW.replace("i32", "i1")


def row(name: str = "r", start: int = 0) -> str:
    return op("tt.make_range", "", "", f"%{name}", ROW, properties=f"start = {start} : i32, end = {start + 64} : i32")


def splat(number: str, name: str = "s") -> str:
    return op("tt.splat", f"%{number}", "i32", f"%{name}", ROW)


def constant(value: int, name: str = "c") -> str:
    return op("arith.constant", "", "", f"%{name}", "i32", properties=f"value = {value} : i32")


def binary(name: str, left: str, right: str, result: str = "x", *, properties: str = "", out: str = ROW) -> str:
    return op(name, f"%{left}, %{right}", f"{ROW}, {ROW}", f"%{result}", out, properties=properties)


def known(*lines: str, name: str = "x", divisor: int = 16) -> AxisInfo:
    """What is known of a value; every argument is divisible by `divisor`."""
    module = parse(kernel("\n".join(lines), arguments=LOCK))
    function = next(it for it in module.body.ops if it.name == "tt.func")
    count = len(function.regions[0].blocks[0].args)
    each = f"{{tt.divisibility = {divisor} : i32}}"
    function.properties["arg_attrs"] = f"[{', '.join([each] * count)}]"
    return ModuleAxisInfo(module).of(value_named(module, name))


def test_a_range_is_contiguous_and_starts_where_it_says() -> None:
    assert known(row("x")) == AxisInfo((64,), (MOST,), (1,))
    assert known(row("x", 24)).divisibility == (8,)


def test_a_number_that_is_added_shifts_the_start() -> None:
    assert known(row(), splat("n"), binary("arith.addi", "r", "s")) == AxisInfo((64,), (16,), (1,))
    assert known(row(), splat("n"), binary("arith.subi", "s", "r")).contiguity == (1,)


def test_a_wrap_around_keeps_what_the_size_is_divisible_by() -> None:
    wrapped = (row(), splat("n"), binary("arith.remsi", "r", "s"))
    assert known(*wrapped) == AxisInfo((16,), (16,), (1,))
    assert known(*wrapped, divisor=1).contiguity == (1,)


def test_what_wraps_around_twice_is_torn_apart() -> None:
    twice = (row(), splat("n"), binary("arith.remsi", "r", "s", "once"), binary("arith.remsi", "once", "s"))
    assert known(*twice) == AxisInfo((1,), (1,), (1,))


def test_the_start_of_a_column_says_nothing_of_the_rows_below_it() -> None:
    column = ROW.replace("dim = 0", "dim = 1")
    made = row().replace(ROW, column)
    standing = op("tt.expand_dims", "%r", column, "%x", "tensor<64x1xi32, #blocked>", properties="axis = 1 : i32")
    assert known(made, standing) == AxisInfo((64, 1), (MOST, 1), (1, 1))


def test_a_multiple_is_not_contiguous_and_the_first_of_a_row_says_nothing_of_the_rest() -> None:
    assert known(row(), splat("n"), binary("arith.muli", "r", "s")) == AxisInfo((1,), (16,), (1,))
    assert known(constant(1), row(), splat("c"), binary("arith.muli", "r", "s")).contiguity == (64,)


@pytest.mark.parametrize(("predicate", "alike"), [(2, 16), (5, 16), (4, 1), (3, 1), (0, 1)])
def test_a_row_is_compared_with_one_number_in_groups_alike(predicate: int, alike: int) -> None:
    compared = binary("arith.cmpi", "r", "s", properties=f"predicate = {predicate} : i64", out=FLAGS)
    assert known(row(), splat("n"), compared).constancy == (alike,)


def test_a_quotient_is_the_same_for_as_many_as_the_divisor() -> None:
    assert known(row(), constant(16), splat("c"), binary("arith.divsi", "r", "s")).constancy == (16,)


def test_what_a_loop_carries_keeps_what_every_trip_keeps() -> None:
    step = constant(8, "eight")
    body = binary("arith.addi", "at", "e", "next")
    loop = for_loop(body, carried={"at": ("r", "next", ROW)}, results="%end")
    assert known(row(), step, splat("eight", "e"), loop, name="end") == AxisInfo((64,), (8,), (1,))


def test_a_number_that_is_loaded_says_nothing_but_is_one_number() -> None:
    pointer = op("tt.load", "%lock", "!tt.ptr<i32>", "%found", "i32")
    assert known(pointer, row(), splat("found"), binary("arith.addi", "r", "s")) == AxisInfo((64,), (1,), (1,))


def test_the_user_may_know_more() -> None:
    text = kernel("\n".join((row(), splat("n"), binary("arith.muli", "r", "s"))))
    module = parse(text)
    value = value_named(module, "x")
    assert value.defining_op is not None
    value.defining_op.attributes["tt.contiguity"] = "dense<8> : tensor<1xi32>"
    assert ModuleAxisInfo(module).of(value).contiguity == (8,)


def test_an_operation_that_is_not_known_says_nothing() -> None:
    assert known(row(), op("made.up", "%r", ROW, "%x", ROW)) == AxisInfo.unknown(1)


def test_what_a_while_carries_keeps_what_each_trip_keeps() -> None:
    step = constant(16, "step")
    grown = op("arith.addi", "%at, %step", "i32, i32", "%grown", "i32")
    more = op("arith.cmpi", "%before, %m", "i32, i32", "%more", "i1", properties="predicate = 2 : i64")
    loop = (
        f'%end = "scf.while"(%n) ({{\n^bb0(%before: i32):\n{more}\n"scf.condition"(%more, %before) : (i1, i32) -> ()\n'
        f'}}, {{\n^bb0(%at: i32):\n{grown}\n"scf.yield"(%grown) : (i32) -> ()\n}}) : (i32) -> i32'
    )
    for name in ("grown", "end"):
        assert known(step, loop, name=name).divisibility == (16,)
    assert known(constant(3, "step"), loop, name="end").divisibility == (1,)
