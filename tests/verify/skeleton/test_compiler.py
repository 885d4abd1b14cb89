"""The skeleton of an aref-level module: one list of instructions per partition."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import MAIN, Code, Program, UnsupportedError
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import binary, branch, compare, gemm_loop, kernel, store
from tests.support.pipeline import specialise
from tests.verify.barriers.test_check import made


def skeleton(name: str) -> Program:
    program = compile_skeleton(parse_module(made(name)[0]))
    assert program is not None
    return program


def test_a_tile_gemm_has_a_producer_that_puts_and_a_consumer_that_gets() -> None:
    program = skeleton("tile")
    assert [ring.name for ring in program.rings] == [ring.name for ring in program.rings if ring.depth == 2]
    codes = {part.name: [it[0] for it in part.code] for part in program.parts}
    (producer,) = [name for name in codes if name.startswith("producer")]
    (consumer,) = [name for name in codes if name.startswith("consumer")]
    assert Code.PUT in codes[producer] and Code.GET not in codes[producer]
    assert {Code.GET, Code.CONSUMED, Code.DOT, Code.WAIT} <= {*codes[consumer]} and Code.PUT not in codes[consumer]
    assert codes[MAIN][-3:] == [Code.FORK, Code.JOIN, Code.END]


def test_loops_of_two_partitions_share_the_register_of_their_bound() -> None:
    program = skeleton("tile")
    uppers = {it[2] for part in program.parts for it in part.code if it[0] == Code.FOR}
    assert {program.registers[upper] for upper in uppers} >= {program.arguments["n"]}


def quiet(program: Program) -> list[tuple[str, set[Code]]]:
    """Regions that a run may leave out: the partition, and what is inside."""
    return [
        (part.name, {Code(it[0]) for it in part.code[at + 1 : instruction[1]]})
        for part in program.parts
        for at, instruction in enumerate(part.code)
        if instruction[0] == Code.QUIET
    ]


def test_a_loop_without_accesses_is_a_region_that_a_run_may_leave_out() -> None:
    found = quiet(skeleton("searched"))
    outer = [(part, inside) for part, inside in found if Code.WHILE in inside]
    assert len({part for part, _ in outer}) == len(outer) == 3  # early puts need the result, too
    assert all(Code.PUT not in inside and Code.GET not in inside for _, inside in found)


def test_a_loop_with_accesses_is_no_such_region() -> None:
    assert not quiet(skeleton("while_listed")) and not quiet(skeleton("nested"))


def test_a_branch_between_constants_is_part_of_every_run() -> None:
    """Which of them it gives says how its condition was decided."""
    one, other = binary("trips_then", "addi", "zero", "one"), binary("trips_else", "addi", "zero", "two")
    chosen = branch(one, other, condition="go", result="trips", type="i32")
    text = kernel("\n".join((compare("go", "zero", "m", 2), chosen, gemm_loop(upper="trips"), store())))
    program = compile_skeleton(parse_module(specialise(text, PlanOptions(aref_depth=2), Target(4, 3)).aref))
    assert program is not None and not quiet(program)
    assert any(it[0] == Code.IF for part in program.parts for it in part.code)


def test_a_module_without_rings_has_no_skeleton() -> None:
    assert compile_skeleton(parse_module(programs.tile_gemm())) is None


def test_a_ring_in_an_unknown_operation_is_unsupported() -> None:
    text = made("tile")[0].replace('"warp.group"', '"scf.execute_region"')
    with pytest.raises(UnsupportedError):
        compile_skeleton(parse_module(text))
