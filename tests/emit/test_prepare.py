"""Each partition reads by itself before it is written: pure values are computed where they are needed."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.triton.read_module import read_final
from tawa.dialects import ttg
from tawa.emit.module import gluon_source
from tawa.emit.prepare import prepare
from tawa.emit.values.views import EXPRESSIONS
from tawa.ir import Block, Module, Operation, copy_module, print_module
from tests.cases.compiled import compile_case
from tests.cases.gemm import cases as gemm

pytestmark = pytest.mark.usefixtures("without_ptx")


@functools.cache
def compiled(name: str) -> Module:
    case = next(it for it in gemm.CASES if it.name == name)
    return read_final(compile_case(case, only_if_faster=False))


def fork_of(module: Module) -> ttg.WarpSpecializeOp:
    return next(view for op in module.walk() if (view := ttg.WarpSpecializeOp.of(op)))


def from_outside(block: Block) -> set[Operation]:
    """The operations outside of a block whose results it uses."""
    used = [it.defining_op for op in block.ops[:-1] for inner in op.walk() for it in inner.operands]
    return {op for op in used if op is not None and op.within(block) is None}


@pytest.mark.parametrize("name", ["persistent", "tile_fp16_nn"])
def test_the_default_partition_has_its_own_pure_values(name: str) -> None:
    module = copy_module(compiled(name))
    prepare(module)
    pure = [op.name for op in from_outside(fork_of(module).default) if op.name in EXPRESSIONS]
    assert all(name in ttg.VIEWS for name in pure)


def test_a_second_preparation_changes_nothing() -> None:
    module = copy_module(compiled("persistent"))
    prepare(module)
    text = print_module(module)
    prepare(module)
    assert print_module(module) == text


def test_a_result_that_is_a_value_from_before_is_read_there() -> None:
    module = copy_module(compiled("tile_fp16_nn"))
    fork = fork_of(module)
    argument = next(it for it in fork.default.parent_op.parent.args if it.type == "i32")  # type: ignore[union-attr]
    yielded = fork.default.terminator
    user = fork.op.results[0].uses[0].op
    yielded.set_operand(0, argument)
    prepare(module)
    assert argument in user.operands and not fork.op.results[0].uses


def test_a_program_that_is_emitted_stays_what_it_is() -> None:
    module = copy_module(compiled("persistent"))
    text = print_module(module)
    gluon_source(module)
    assert print_module(module) == text
