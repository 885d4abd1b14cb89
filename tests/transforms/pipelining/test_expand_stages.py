"""`expand_stages`: a loop of S + 1 stages becomes prologue, steady loop and epilogue; too few trips keep the loop."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.dependences import find_dependences
from tawa.dialects.scf import ForOp
from tawa.ir import Module, Operation
from tawa.ir.attributes import read_int
from tawa.plan.decide.loops import staged_loops
from tawa.plan.scheduler import Limits, candidate_schedules
from tawa.transforms.pipelining.expand_stages import Expander
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import staged
from tests.cases.programs.ttgir import ops_named
from tests.support.passes import checked, flow_behind


def expanded(stages: int, text: str = "") -> Module:
    """The loop of two dots with the first schedule of that many stages. text: `staged.attention`, or one like it."""
    module = flow_behind(PipelineMma, text or staged.attention()).module
    (loop,) = staged_loops(module)
    graph = find_dependences(loop)
    found = candidate_schedules(graph, Limits(4, max_stages=3))
    Expander(graph, next(it for it in found if it.stages == stages)).run()
    return checked(module)


def consumer_loops(module: Module) -> list[ForOp]:
    return [
        ForOp(op) for op in ops_named(module, "scf.for") if any(it.name == "ttng.warp_group_dot" for it in op.walk())
    ]


def test_one_stage_is_a_loop_without_a_branch() -> None:
    module = expanded(1)
    assert len(consumer_loops(module)) == 1 and not ops_named(module, "scf.if")


def test_two_stages_write_each_dot_twice_and_need_no_copy_of_the_loop() -> None:
    module = expanded(2)
    (loop,) = consumer_loops(module)
    assert len(ops_named(module, "scf.if")) == 1
    assert len(ops_named(module, "ttng.warp_group_dot")) == 4
    assert sum(op.name == "ttng.warp_group_dot" for op in loop.op.walk()) == 2


def test_three_stages_keep_the_loop_as_it_was_for_fewer_trips() -> None:
    module = expanded(3)
    steady, plain = consumer_loops(module)
    assert len(plain.inits) < len(steady.inits)
    assert plain.lower is not steady.lower


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
def test_the_bits_stay_for_fewer_and_for_more_trips_than_stages(stages: int, trips: int) -> None:
    assert staged.output(expanded(stages), trips, 1) == staged.expected(staged.attention(), trips, 1)


def complete_at(dot: Operation) -> Operation:
    """The operation of its block with which a dot is complete: itself, or the first wait that covers it."""
    if dot.properties["isAsync"] != "true":
        return dot
    issued, block = 0, dot.parent
    assert block is not None
    for op in block.ops[block.index_of(dot) + 1 :]:
        if op.name == "ttng.warp_group_dot":
            issued += 1
        elif op.name == "ttng.warp_group_dot_wait" and issued <= read_int(op.properties["pendings"]):
            return op
    raise AssertionError("no wait covers the dot")


@pytest.mark.parametrize("stages", [1, 2])
def test_a_buffer_that_an_iteration_fills_ends_where_the_dot_that_reads_it_is_complete(stages: int) -> None:
    module = expanded(stages, staged.operand_in_shared())
    filled = [op for op in ops_named(module, "ttg.local_alloc") if op.operands]
    assert filled
    waits = 0
    for buffer in filled:
        (end,) = (op for op in buffer.result.users if op.name == "ttg.local_dealloc")
        (dot,) = (op for op in buffer.result.users if op.name == "ttng.warp_group_dot")
        complete, block = complete_at(dot), buffer.parent
        waits += complete is not dot
        assert block is not None and block.index_of(complete) < block.index_of(end)
    assert waits or stages == 1
