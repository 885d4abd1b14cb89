"""Numbers that nobody chose, but that every partition computes alike."""

from __future__ import annotations

from tawa.ir import Value, parse_module
from tawa.verify.barriers.program.kernel import BarrierProgram
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import binary


def trees(text: str) -> dict[str, int | None]:
    """The tree of each number, by its name."""
    program = BarrierProgram(parse_module(programs.kernel(text)))
    values: list[Value] = [value for op in program.ops for value in op.results if value.type == "i32"]
    return {value.hint: program.tree(value) for value in values}


def test_the_same_operations_on_the_same_arguments_are_one_tree() -> None:
    found = trees("\n".join((binary("x", "divsi", "n", "m"), binary("y", "divsi", "n", "m"))))
    assert found["x"] is not None and found["x"] == found["y"]


def test_other_operands_or_operations_are_other_trees() -> None:
    lines = (binary("x", "divsi", "n", "m"), binary("y", "divsi", "m", "n"), binary("z", "remsi", "n", "m"))
    found = trees("\n".join(lines))
    assert len({found["x"], found["y"], found["z"]}) == 3


def test_a_variable_of_a_loop_and_a_number_from_memory_have_no_tree() -> None:
    body = binary("inside", "addi", "k", "n")
    pointer = programs.op("tt.addptr", "%out, %n", "!tt.ptr<f16>, i32", "%at", "!tt.ptr<f16>")
    loaded = (
        pointer,
        programs.op("tt.bitcast", "%at", "!tt.ptr<f16>", "%as", "!tt.ptr<i32>"),
        programs.scalar_load("read", "as"),
    )
    found = trees("\n".join((programs.for_loop(body), *loaded, binary("more", "addi", "read", "n"))))
    assert found["inside"] is None and found["read"] is None and found["more"] is None


def test_what_does_not_change_in_a_loop_has_one() -> None:
    found = trees(programs.for_loop(binary("inside", "addi", "m", "n")) + "\n" + binary("behind", "addi", "m", "n"))
    assert found["inside"] is not None and found["inside"] == found["behind"]
