"""Data-dependent loops: which loops are, and which of them have equal trip counts."""

from __future__ import annotations

from tawa.ir import Module, parse_module
from tawa.verify.data_dependent_loops import decided_by, loops_ended_by_memory
from tests.cases.programs import ttgir as programs
from tests.verify.barriers.test_check import barrier


def keys(module: Module, anywhere: bool = False) -> list[str]:
    return list(loops_ended_by_memory(list(module.walk()), anywhere=anywhere).values())


def test_a_while_that_loads_its_condition_in_each_iteration_is_data_dependent() -> None:
    assert len(keys(parse_module(programs.while_listed()))) == 1


def test_a_while_on_scalars_is_not() -> None:
    for text in (programs.while_sum(), programs.while_gemm()):
        assert keys(parse_module(text)) == keys(parse_module(text), anywhere=True) == []


def test_the_copies_of_a_loop_in_two_partitions_have_the_same_key() -> None:
    found = keys(barrier("while_listed"))
    assert len(found) == 2 and len(set(found)) == 1


def test_equal_expressions_have_equal_texts_and_tiles_have_none() -> None:
    lines = (programs.binary("p", "addi", "n", "m"), programs.binary("q", "addi", "n", "m"), programs.gemm_loop())
    module = parse_module(programs.kernel("\n".join((*lines, programs.store()))))
    values = {value.hint: value for op in module.walk() for value in op.results}
    assert decided_by(values["p"]) is not None
    assert decided_by(values["p"]) == decided_by(values["q"])
    assert decided_by(values["acc"]) is None
