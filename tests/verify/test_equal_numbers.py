"""Equal numbers: which scalars of two partitions are."""

from __future__ import annotations

from tawa.dialects.control_flow import deciding
from tawa.ir import Module, parse_module
from tawa.verify.equal_numbers import decided_by
from tests.cases.programs.ttgir import binary, compare, gemm_loop, kernel, op, store
from tests.verify.barriers.test_check import barrier, ops


def conditions(module: Module) -> list[str | None]:
    return [decided_by(deciding(loop)[0].value) for loop in ops(module, "scf.while")]


def texts(*lines: str) -> dict[str, str | None]:
    module = parse_module(kernel("\n".join((*lines, gemm_loop(), store()))))
    return {value.hint: decided_by(value) for it in module.walk() for value in it.results}


def test_the_copies_of_a_loop_in_two_partitions_have_the_same_condition() -> None:
    for name in ("while_listed", "while_sum", "while"):
        found = conditions(barrier(name))
        assert len(found) == 2 and len(set(found)) == 1 and found[0] is not None, name


def test_equal_expressions_have_equal_texts_and_tiles_have_none() -> None:
    found = texts(binary("p", "addi", "n", "m"), binary("q", "addi", "n", "m"), binary("r", "addi", "n", "n"))
    assert found["p"] is not None and found["p"] == found["q"] != found["r"]
    assert found["acc"] is None


def test_a_comparison_has_one_text_in_all_of_its_forms() -> None:
    minus = op("arith.constant", "", "", "%minus", "i32", properties="value = -1 : i32")
    found = texts(
        minus, compare("one", "n", "zero", 5), compare("other", "n", "minus", 4), compare("mirrored", "zero", "n", 3),
        compare("different", "n", "zero", 4),
    )  # fmt: skip
    assert found["one"] == found["other"] == found["mirrored"] != found["different"]


def test_an_argument_of_a_later_block_is_no_argument_of_the_kernel() -> None:
    five, names = ", ".join(["i32"] * 5), [f"%x{at}" for at in range(5)]
    sizes = "operandSegmentSizes = array<i32: 1, 5, 5>"
    lines = (
        compare("go", "n", "m", 2),
        f'"cf.cond_br"(%go, {"%n, " * 5}{"%m, " * 4}%m)[^bb7, ^bb7] <{{{sizes}}}> : (i1, {five}, {five}) -> ()',
        f"^bb7({', '.join(f'{name}: i32' for name in names)}):",
        binary("p", "addi", "n", "zero"),
        binary("q", "addi", "x4", "zero"),  # %n is argument 4, too
    )
    module = parse_module(kernel("\n".join(lines)))
    found = {value.hint: decided_by(value) for it in module.walk() for value in it.results}
    assert found["p"] is not None and found["q"] is None
