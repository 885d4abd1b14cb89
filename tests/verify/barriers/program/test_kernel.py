"""Value numbers of expressions that every partition computes equally."""

from __future__ import annotations

from tawa.ir import Value, parse_module
from tawa.verify.barriers.program.kernel import BarrierProgram
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import binary


def trees(text: str) -> dict[str, int | None]:
    """The value number of each value, by its name."""
    program = BarrierProgram(parse_module(programs.kernel(text)))
    values: list[Value] = [value for op in program.ops for value in op.results if value.type == "i32"]
    return {value.hint: program.tree(value) for value in values}


def test_equal_expressions_have_the_same_value_number() -> None:
    found = trees("\n".join((binary("x", "divsi", "n", "m"), binary("y", "divsi", "n", "m"))))
    assert found["x"] is not None and found["x"] == found["y"]


def test_different_expressions_have_different_value_numbers() -> None:
    lines = (binary("x", "divsi", "n", "m"), binary("y", "divsi", "m", "n"), binary("z", "remsi", "n", "m"))
    found = trees("\n".join(lines))
    assert len({found["x"], found["y"], found["z"]}) == 3


def test_induction_variables_and_loaded_numbers_have_no_value_number() -> None:
    body = binary("inside", "addi", "k", "n")
    pointer = programs.op("tt.addptr", "%out, %n", "!tt.ptr<f16>, i32", "%at", "!tt.ptr<f16>")
    loaded = (
        pointer,
        programs.op("tt.bitcast", "%at", "!tt.ptr<f16>", "%as", "!tt.ptr<i32>"),
        programs.scalar_load("read", "as"),
    )
    found = trees("\n".join((programs.for_loop(body), *loaded, binary("more", "addi", "read", "n"))))
    assert found["inside"] is None and found["read"] is None and found["more"] is None


def test_loop_invariant_expressions_have_a_value_number() -> None:
    found = trees(programs.for_loop(binary("inside", "addi", "m", "n")) + "\n" + binary("behind", "addi", "m", "n"))
    assert found["inside"] is not None and found["inside"] == found["behind"]
