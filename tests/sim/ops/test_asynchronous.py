"""Asynchronous copies: waits, proxy fences, and descriptors that copies in flight still read."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from tawa.ir import Module, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim import Descriptor, simulate
from tawa.sim.errors import (
    DescriptorInUse,
    MissingFence,
    UnwrittenRead,
)
from tawa.sim.machine.cta import Order
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import op
from tests.sim.small import BUFFER, LOAD, POINTERS, ROW, STORE, kernel, row, run
from tests.support.pipeline import specialise


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_cp_async_has_landed_after_its_wait(order: Any) -> None:
    token = "!ttg.async.token"

    def lines(wait: int) -> tuple[str, ...]:
        copy = "operandSegmentSizes = array<i32: 1, 1, 0, 0>"
        return (
            op("ttg.local_alloc", "", "", "%stage", BUFFER),
            op("ttg.async_copy_global_to_local", "%at, %stage", f"{POINTERS}, {BUFFER}", "%t", token, properties=copy),
            op("ttg.async_commit_group", "%t", token, "%g", token),
            op("ttg.async_wait", "%g", token, "%w", token, properties=f"num = {wait} : i32"),
            op("ttg.local_load", "%stage", BUFFER, "%v", ROW),
            op("arith.addf", "%v, %v", f"{ROW}, {ROW}", "%result", ROW),
        )

    x = np.arange(64, dtype=np.float32)
    simulate(kernel(*row(), *lines(0), STORE), {"x": x, "n": 0}, (1,), order)
    assert (x == 2 * np.arange(64)).all()
    if order == "late":
        with pytest.raises(UnwrittenRead, match="in flight"):
            simulate(kernel(*row(), *lines(1), STORE), {"x": x, "n": 0}, (1,), order)


def test_a_tma_store_of_a_generic_proxy_write_needs_a_fence() -> None:
    desc = "!tt.tensordesc<tensor<64xf32, #shared>>"
    lines = (
        op("arith.constant", "", "", "%one", "i64", properties="value = 1 : i64"),
        op("arith.constant", "", "", "%size", "i32", properties="value = 64 : i32"),
        op("tt.make_tensor_descriptor", "%x, %size, %one", "!tt.ptr<f32>, i32, i64", "%d", desc),
        op("ttg.local_alloc", "", "", "%stage", BUFFER),
        op("ttg.local_store", "%v, %stage", f"{ROW}, {BUFFER}"),
        op("ttng.async_tma_copy_local_to_global", "%d, %n, %stage", f"{desc}, i32, {BUFFER}"),
    )
    with pytest.raises(MissingFence):
        simulate(kernel(*row(), LOAD, *lines), {"x": np.zeros(64, np.float32), "n": 0}, (1,))


def test_a_tma_store_of_an_initialised_local_alloc_needs_a_fence() -> None:
    def module(*between: str) -> Module:
        desc = "!tt.tensordesc<tensor<64xf32, #shared>>"
        return kernel(
            op("arith.constant", "", "", "%v", ROW, properties=f"value = dense<2.0> : {ROW}"),
            op("arith.constant", "", "", "%zero", "i32", properties="value = 0 : i32"),
            op("arith.constant", "", "", "%one", "i64", properties="value = 1 : i64"),
            op("arith.constant", "", "", "%size", "i32", properties="value = 60 : i32"),
            op("tt.make_tensor_descriptor", "%x, %size, %one", "!tt.ptr<f32>, i32, i64", "%d", desc),
            op("ttg.local_alloc", "%v", ROW, "%stage", BUFFER),
            *between,
            op("ttng.async_tma_copy_local_to_global", "%d, %zero, %stage", f"{desc}, i32, {BUFFER}"),
        )

    fence = op("ttng.fence_async_shared", "", "", properties="bCluster = false")
    assert run(module(fence)).tolist() == [2.0] * 60 + [0.0] * 4
    with pytest.raises(MissingFence):
        run(module())


def remade(level: str, *, waits: bool, order: Order) -> np.ndarray:
    """C of a kernel that makes its descriptors anew for each tile, with or without its waits for copies."""
    made = specialise(programs.remade_gemm(), PlanOptions(aref_depth=3, mma_depth=1), Target(4, 3))
    module = parse_module(made.aref if level == "aref" else made.barrier)
    makers = programs.ops_named(module, "tt.make_tensor_descriptor")
    first = next(it for it in makers if it.result.hint.startswith("own_a"))
    assert first.parent is not None
    before = first.parent.ops[: first.parent.index_of(first)]
    guards = [it for it in before if it.name in ("aref.landed", "ttng.wait_barrier")]
    assert len(guards) == (1 if level == "aref" else 3)
    for guard in guards if not waits else ():
        guard.erase()
    lot = np.random.default_rng(0)
    p, q = (lot.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 64), np.float16)
    arguments = {"a_desc": Descriptor(p), "b_desc": Descriptor(q), "c_desc": Descriptor(c), "out": c, "p": p, "q": q}
    simulate(module, {**arguments, "n": 2, "m": 2}, (1,), order)
    return c


@pytest.mark.parametrize("level", ["aref", "barrier"])
def test_overwriting_a_descriptor_that_a_copy_in_flight_reads_traps(level: str) -> None:
    right = remade(level, waits=True, order="eager")
    for order in get_args(Order):
        assert (remade(level, waits=True, order=order) == right).all()
    with pytest.raises(DescriptorInUse, match=r"own_a is overwritten while the load of .* may still read it"):
        remade(level, waits=False, order="late")
