"""`prefetch_loads`: what a consumer loads by itself is loaded an iteration before it is used, if the Plan says so."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import OperandPlan, Plan
from tawa.sim import Descriptor, simulate
from tawa.transforms.partition.partition import Partition
from tawa.transforms.pipelining.prefetch_loads import PrefetchLoads
from tests.cases.programs.ttgir import ACC, LOCK, for_loop, iteration, kernel, op, ops_named, scalar_load, store
from tests.support.passes import checked, flow_behind

AHEAD = Plan(operands=(OperandPlan("lock", 0, 0, prefetched=True),))
WRITE = op("tt.store", "%here, %k", "!tt.ptr<i32>, i32")


def gated(more: str = "", pointer: str = "here") -> Module:
    """The consumer multiplies what it has so far by a number that it loads, behind its dot."""
    body = "\n".join(
        (
            iteration(),
            op("tt.addptr", "%lock, %k", "!tt.ptr<i32>, i32", "%here", "!tt.ptr<i32>"),
            scalar_load("number", pointer),
            op("arith.sitofp", "%number", "i32", "%gate", "f32"),
            op("tt.splat", "%gate", "f32", "%gates", ACC),
            op("arith.mulf", "%next, %gates", f"{ACC}, {ACC}", "%kept", ACC),
            more,
        )
    )
    loop = for_loop(body, carried={"sum": ("zeros", "kept", ACC)}, results="%acc")
    return flow_behind(Partition, kernel(f"{loop}\n{store()}", arguments=LOCK)).module


def output(module: Module, trips: int) -> bytes:
    """C; the list has as many numbers as the loop has trips, so that a load too many traps."""
    lot = np.random.default_rng(trips)
    a, b = (lot.standard_normal((72, 72)).astype(np.float16) for _ in range(2))
    c, numbers = np.zeros((64, 64), np.float16), lot.integers(1, 3, max(1, trips)).astype(np.int32)
    descriptors = {"a_desc": Descriptor(a), "b_desc": Descriptor(b), "c_desc": Descriptor(c)}
    simulate(module, {**descriptors, "out": np.zeros(1, np.float16), "lock": numbers, "n": trips, "m": 0}, (1,))
    return c.tobytes()


def test_the_number_of_the_next_iteration_is_loaded_in_front_of_the_dot_and_carried() -> None:
    module = gated()
    assert PrefetchLoads(AHEAD).run(checked(module)).changed
    first, ahead = ops_named(checked(module), "tt.load")
    (loop,) = enclosing_loops(ahead)
    assert not enclosing_loops(first)
    assert ahead.result in ForOp(loop).yielded and first.result in ForOp(loop).inits
    body = ForOp(loop).body
    assert body.index_of(ahead) < min(body.index_of(dot) for dot in ops_named(module, "ttng.warp_group_dot"))


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_the_bits_stay_and_nothing_is_read_past_the_end(trips: int) -> None:
    plain, ahead = gated(), gated()
    PrefetchLoads(AHEAD).run(ahead)
    assert output(ahead, trips) == output(plain, trips)


def test_what_every_iteration_loads_is_loaded_once() -> None:
    module = gated(pointer="lock")
    PrefetchLoads(AHEAD).run(module)
    (once,) = ops_named(checked(module), "tt.load")
    assert not enclosing_loops(once)
    for trips in (0, 1, 3):
        assert output(module, trips) == output(gated(pointer="lock"), trips)


def test_memory_that_the_loop_writes_is_not_loaded_ahead() -> None:
    with pytest.raises(PlanError, match=r"prefetches lock, loop 0.*cure: prefetched=false"):
        PrefetchLoads(AHEAD).run(gated(WRITE))


def test_without_a_word_of_the_plan_nothing_moves() -> None:
    assert not PrefetchLoads(Plan()).run(gated()).changed
