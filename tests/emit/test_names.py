"""Names in emitted files: those of the user's arguments and variables, where they say what a value is."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.triton.read_module import read_final
from tawa.dialects import arith, scf
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp
from tawa.emit.module import gluon_source
from tawa.ir import Module, Operation, copy_module
from tests.cases.compiled import compile_case
from tests.cases.gemm import cases as gemm

pytestmark = pytest.mark.usefixtures("without_ptx")


@functools.cache
def compiled(name: str) -> Module:
    case = next(it for it in gemm.CASES if it.name == name)
    return read_final(compile_case(case, only_if_faster=False))


def source(module: Module) -> str:
    return gluon_source(module, ("consumer", "producer")).text


def test_what_was_moved_to_a_loop_is_not_named_after_its_result() -> None:
    module = copy_module(compiled("persistent"))
    loop = next(op for op in module.walk() if scf.ForOp.matches(op) and any(it.hint == "acc" for it in op.results))
    assert loop.parent is not None
    moved = [op for op in loop.parent.ops if arith.MulIOp.matches(op)]
    assert moved
    for op in moved:
        op.loc, op.result.hint = loop.loc, "acc"
    lines = [line.strip() for line in source(module).splitlines()]
    assert not [line for line in lines if line.startswith("acc") and " * " in line]


def test_coordinates_of_a_store_have_the_name_of_the_argument() -> None:
    module = copy_module(compiled("persistent"))
    store = next(view for op in module.walk() if (view := AsyncTMACopyLocalToGlobalOp.of(op)))
    row, block = store.indices[0], store.op.parent
    assert block is not None
    twice = Operation(arith.AddIOp.NAME, [row, row], [row.type], hints=["acc"], loc=store.op.loc)
    block.insert(block.index_of(store.op), twice)
    for index in (1, 2):
        store.op.set_operand(index, twice.result)
    assert "c_0 = " in source(module)
