"""The skeleton of an aref-level module: one list of instructions per partition."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import MAIN, Code, Program, UnsupportedError
from tests.cases.programs import ttgir as programs
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


def test_a_module_without_rings_has_no_skeleton() -> None:
    assert compile_skeleton(parse_module(programs.tile_gemm())) is None


def test_a_ring_in_an_unknown_operation_is_unsupported() -> None:
    text = made("tile")[0].replace('"warp.group"', '"scf.execute_region"')
    with pytest.raises(UnsupportedError):
        compile_skeleton(parse_module(text))
