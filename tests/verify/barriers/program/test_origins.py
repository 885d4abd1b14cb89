"""Constant facts about the numbers of a program."""

from __future__ import annotations

from tawa.ir import Value, parse_module
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.program.origins import Origins
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import binary


def number(name: str, value: int) -> str:
    return programs.op("arith.constant", "", "", f"%{name}", "i32", properties=f"value = {value} : i32")


def origins(*lines: str) -> tuple[Origins, dict[str, Value]]:
    program = BarrierProgram(parse_module(programs.kernel("\n".join(lines))))
    values = [value for op in program.ops for value in op.results] + list(program.entry.args)
    values += [arg for op in program.ops for region in op.regions for block in region.blocks for arg in block.args]
    return Origins(program), {value.hint: value for value in values}


def test_an_expression_of_constants_folds() -> None:
    found, values = origins(number("c", 6), binary("sum", "addi", "c", "two"), binary("open", "addi", "n", "two"))
    assert found.constant(values["sum"]) == 8
    assert found.constant(values["open"]) is None


def test_a_distance_is_bounded_by_a_minimum() -> None:
    found, values = origins(number("c", 128), binary("near", "addi", "n", "c"), binary("upper", "minsi", "m", "near"))
    assert found.distance(values["n"], values["upper"]) == 128
    assert found.distance(values["n"], values["n"]) == 0
    assert found.distance(values["n"], values["m"]) is None


def test_clamped_numbers_have_bounds() -> None:
    found, values = origins(binary("some", "maxsi", "n", "zero"), binary("clamped", "minsi", "some", "two"))
    assert found.bounds(values["clamped"]) == (0, 2)
    assert found.bounds(values["some"]) == (0, None)
    assert found.meets(values["clamped"], 2, None) and not found.meets(values["clamped"], 3, None)


def test_a_remainder_is_less_than_its_divisor() -> None:
    found, values = origins(
        binary("some", "maxsi", "n", "zero"),
        number("c", 32),
        binary("of_any", "remsi", "n", "c"),
        binary("of_some", "remsi", "some", "c"),
        binary("by_any", "remsi", "n", "m"),
        binary("whole", "divsi", "of_any", "c"),
    )
    assert found.bounds(values["of_any"]) == (-31, 31)
    assert found.bounds(values["of_some"]) == (0, 31)
    assert found.bounds(values["by_any"]) == (None, None)
    assert not found.meets(values["whole"], 1, None)


def test_an_induction_variable_has_limits_if_its_bounds_are_constants() -> None:
    found, values = origins(
        number("c", 8), programs.for_loop("", upper="c"), programs.for_loop("", induction="j", upper="n")
    )
    assert found.limits(values["k"]) == (0, 7)
    assert found.limits(values["j"]) is None


def test_the_increment_of_a_loop_carried_value() -> None:
    body = "\n".join((binary("more", "addi", "i", "two"), binary("other", "muli", "h", "two")))
    carried = {"i": ("zero", "more", "i32"), "h": ("one", "other", "i32")}
    found, values = origins(programs.for_loop(body, carried=carried, results="%ends:2"))
    assert found.increment(values["more"], values["i"]) == 2
    assert found.increment(values["other"], values["h"]) is None


def test_a_result_of_a_while_loop_that_carries_two_numbers_has_no_bounds() -> None:
    text = (
        '%r:2 = "scf.while"(%zero, %one) ({\n^bb0(%a: i32, %b: i32):\n'
        + programs.compare("goes", "a", "m", 2)
        + '\n"scf.condition"(%goes, %a, %b) : (i1, i32, i32) -> ()\n}, {\n^bb0(%c: i32, %d: i32):\n'
        + binary("e", "addi", "c", "two")
        + '\n"scf.yield"(%e, %d) : (i32, i32) -> ()\n}) : (i32, i32) -> (i32, i32)'
    )
    program = BarrierProgram(parse_module(programs.kernel(text)))
    loop = next(op for op in program.ops if op.name == "scf.while")
    assert Origins(program).bounds(loop.results[1]) == (None, None)
