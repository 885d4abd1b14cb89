"""What cannot be simulated, or goes wrong, is said with values, place and cure."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from tawa.errors import TawaError
from tawa.ir import Module, parse_module
from tawa.pipeline import Target, specialise
from tawa.plan import PlanOptions
from tawa.sim import Descriptor, UnsupportedOp, simulate
from tawa.sim.errors import (
    ArgumentError,
    BarrierMisuse,
    Deadlock,
    DescriptorInUse,
    FailedAssertion,
    MisalignedBox,
    MissingFence,
    OutOfBounds,
    SimulationError,
    UnwrittenRead,
)
from tawa.sim.machine.cta import Order
from tawa.sim.machine.mbarriers import arrive, deliver, initialise, living, passes
from tawa.sim.machine.shared import allocate, memdesc
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import op
from tests.sim.small import BUFFER, POINTERS, ROW, kernel, row


def run(module: Module, x: np.ndarray | None = None, n: int = 0) -> np.ndarray:
    x = np.zeros(64, np.float32) if x is None else x
    simulate(module, {"x": x, "n": n}, (1,))
    return x


def test_an_unknown_operation_is_named_with_its_line() -> None:
    with pytest.raises(UnsupportedOp) as caught:
        run(kernel(op("tt.mystery", "%n", "i32", "%y", "i32", line=7)))
    assert "tt.mystery" in str(caught.value) and "kernel.py:7" in str(caught.value) and "cure" in str(caught.value)
    assert isinstance(caught.value, TawaError)


def test_a_store_outside_its_tensor_traps() -> None:
    value = op("arith.constant", "", "", "%v", ROW, properties=f"value = dense<1.0> : {ROW}")
    module = kernel(*row(), value, op("tt.store", "%at, %v", f"{POINTERS}, {ROW}", line=9))
    assert run(module).tolist() == [1.0] * 64
    with pytest.raises(OutOfBounds, match="element 60 of x, which has 60"):
        run(module, np.zeros(60, np.float32))


def test_an_assumption_that_does_not_hold_traps() -> None:
    zero = op("arith.constant", "", "", "%zero", "i32", properties="value = 0 : i32")
    positive = op("arith.cmpi", "%n, %zero", "i32, i32", "%p", "i1", properties="predicate = 4 : i64")
    module = kernel(zero, positive, op("llvm.intr.assume", "%p", "i1"))
    run(module, n=1)
    with pytest.raises(FailedAssertion):
        run(module, n=0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 1}, "no argument 'x'"),
        ({"x": 3, "n": 1}, "takes an array"),
        ({"x": np.zeros(4, np.float16), "n": 1}, "float16"),
        ({"x": np.zeros((8, 8), np.float32)[:, ::2], "n": 1}, "not contiguous"),
        ({"x": np.zeros(4, np.float32), "n": np.zeros(4)}, "is a number"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        simulate(kernel(), arguments, (1,))  # type: ignore[arg-type]


def test_a_barrier_nobody_arrives_at_is_a_deadlock_that_names_who_waits() -> None:
    type = "!ttg.memdesc<1xi64, #barriers, #smem, mutable>"
    module = kernel(
        op("ttg.local_alloc", "", "", "%gate", type),
        op("ttng.init_barrier", "%gate", type, properties="count = 1 : i32"),
        op("arith.constant", "", "", "%zero", "i32", properties="value = 0 : i32"),
        op("ttng.wait_barrier", "%gate, %zero", f"{type}, i32", line=5),
    )
    with pytest.raises(Deadlock, match=r"main waits for gate, parity 0 .*kernel\.py:5"):
        run(module)


def test_shared_memory_that_nobody_wrote_traps() -> None:
    module = kernel(
        op("ttg.local_alloc", "", "", "%stage", BUFFER),
        op("ttg.local_load", "%stage", BUFFER, "%v", ROW),
    )
    with pytest.raises(UnwrittenRead, match="64 of 64 elements of stage"):
        run(module)


def test_a_tma_store_of_a_filled_buffer_needs_a_fence() -> None:
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


@pytest.mark.parametrize("access", ["load", "store"])
def test_a_box_that_begins_within_16_bytes_traps(access: str) -> None:
    desc = "!tt.tensordesc<tensor<64xf32>>"
    moved = {
        "load": op("tt.descriptor_load", "%d, %n", f"{desc}, i32", "%v", ROW),
        "store": op("tt.descriptor_store", "%d, %v, %n", f"{desc}, {ROW}, i32"),
    }
    module = kernel(
        op("arith.constant", "", "", "%one", "i64", properties="value = 1 : i64"),
        op("arith.constant", "", "", "%size", "i32", properties="value = 64 : i32"),
        op("tt.make_tensor_descriptor", "%x, %size, %one", "!tt.ptr<f32>, i32, i64", "%d", desc),
        *([op("arith.constant", "", "", "%v", ROW, properties=f"value = dense<1.0> : {ROW}")] * (access == "store")),
        moved[access],
    )
    run(module, n=4)
    with pytest.raises(MisalignedBox, match="element 2 of its rows, 8 bytes"):
        run(module, n=2)


def test_a_box_that_leaves_its_memory_traps() -> None:
    desc = Descriptor(np.zeros((32, 64), np.float16), shape=(64, 64), strides=(64, 1))
    small = Descriptor(np.zeros((64, 64), np.float16))
    arguments = {"a_desc": desc, "b_desc": small, "c_desc": small, "out": np.zeros(4, np.float16), "n": 1, "m": 0}
    with pytest.raises(OutOfBounds, match="a box of a_desc holds the elements 0 to 4095 of 2048"):
        simulate(parse_module(programs.tile_gemm()), arguments, (1,))


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
def test_a_descriptor_made_anew_while_a_copy_may_still_read_it_traps(level: str) -> None:
    right = remade(level, waits=True, order="eager")
    for order in get_args(Order):
        assert (remade(level, waits=True, order=order) == right).all()
    with pytest.raises(DescriptorInUse, match=r"own_a is made anew while the load of .* may still read it"):
        remade(level, waits=False, order="late")


def test_a_phase_needs_its_arrivals_and_its_bytes() -> None:
    view = allocate("full", memdesc("!ttg.memdesc<1xi64, #barriers, #smem, mutable>"))
    with pytest.raises(BarrierMisuse, match="before it is initialised"):
        living(view)
    initialise(view, 1)
    barrier = living(view)
    assert passes(barrier, 1) and not passes(barrier, 0)
    deliver(barrier, 64)
    arrive(barrier, 1, 128)
    assert not passes(barrier, 0)
    deliver(barrier, 64)
    assert passes(barrier, 0) and not passes(barrier, 1)
    with pytest.raises(BarrierMisuse, match="twice"):
        initialise(view, 1)


def test_more_arrivals_than_the_count_trap() -> None:
    view = allocate("empty", memdesc("!ttg.memdesc<1xi64, #barriers, #smem, mutable>"))
    initialise(view, 1)
    with pytest.raises(SimulationError, match="more arrivals"):
        arrive(living(view), 2)
