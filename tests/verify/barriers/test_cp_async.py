"""Rings filled by cp.async: the checks and the simulator find each missing piece of their protocol."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tawa.ir import Module, Operation, parse_module
from tawa.ir.attributes import int_attr
from tawa.sim.errors import BarrierMisuse, Deadlock, MissingFence, SharedMemoryRace, SimulationError, UnwrittenRead
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Refuted
from tests.cases.small.pointer_kernels import find, made, ttgir
from tests.support.verdicts import passes

TRIPS = 5
Break = Callable[[Module], None]


def named(module: Module, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def of_barrier(module: Module, name: str, barrier: str) -> list[Operation]:
    """The operations on the barrier of this name, in all regions."""
    return [op for op in named(module, name) if barrier in barrier_name(op)]


def barrier_name(op: Operation) -> str:
    view = op.operands[0].defining_op
    assert view is not None
    return view.operands[0].hint


def drop_fence(module: Module) -> None:
    named(module, "ttng.fence_async_shared")[0].erase()


def drop_arrival(module: Module) -> None:
    named(module, "ttng.async_copy_mbarrier_arrive")[0].erase()


def arrive_early(module: Module) -> None:
    arrival = named(module, "ttng.async_copy_mbarrier_arrive")[0]
    copy = named(module, "ttg.async_copy_global_to_local")[-1]
    block = arrival.parent
    assert block is not None
    arrival.detach()
    block.ops.insert(block.index_of(copy), arrival)
    arrival.parent = block


def count(number: int) -> Break:
    def change(module: Module) -> None:
        for op in of_barrier(module, "ttng.init_barrier", "full"):
            op.properties["count"] = int_attr(number)

    return change


def drop_wait(module: Module) -> None:
    of_barrier(module, "ttng.wait_barrier", "empty")[0].erase()


def drop_read_wait(module: Module) -> None:
    of_barrier(module, "ttng.wait_barrier", "full")[0].erase()


MUTANTS = {
    "the reader's fence is dropped": (drop_fence, ("missing fence",), (MissingFence,)),
    "the arrival is dropped": (drop_arrival, ("arrive count", "deadlock"), (Deadlock,)),
    "the arrival comes before the last copy": (
        arrive_early,
        ("read before write", "write-write race"),
        (UnwrittenRead, SharedMemoryRace),
    ),
    "one arrival is expected": (count(1), ("arrive count",), (BarrierMisuse,)),
    "half of the threads are expected": (count(64), ("arrive count",), (BarrierMisuse,)),
    "twice the threads are expected": (count(256), ("arrive count",), (Deadlock,)),
    "the producer does not wait": (
        drop_wait,
        ("write before release", "write-write race"),
        (SharedMemoryRace, BarrierMisuse),
    ),
    "the consumer does not wait": (drop_read_wait, ("read before write",), (UnwrittenRead,)),
}


def broken(change: Break) -> Module:
    module = parse_module(made("wrapped").barrier)
    change(module)
    return module


def test_a_complete_cp_async_ring_is_proved_and_refines_the_aref_level() -> None:
    outcome = made("wrapped")
    assert passes(check_barriers(parse_module(outcome.barrier)))
    assert passes(check_refinement(parse_module(outcome.aref), parse_module(outcome.barrier)))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_cp_async_ring_is_refuted(name: str) -> None:
    change, kinds, _ = MUTANTS[name]
    found = check_barriers(broken(change))
    assert isinstance(found, Refuted), found
    assert found.witness.kind in kinds


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_cp_async_ring_fails_in_some_run_of_the_simulator(name: str) -> None:
    change, _, errors = MUTANTS[name]
    seen: list[type[SimulationError]] = []
    for order, seed in (("eager", 0), ("late", 0), *(("random", seed) for seed in range(4))):
        try:
            find("wrapped").output(broken(change), TRIPS, order, seed)
        except SimulationError as error:
            seen.append(type(error))
    assert any(issubclass(error, errors) for error in seen), seen


@pytest.mark.parametrize("name", ["filled_with_one", "odd_stride", "weight_only", "half_by_descriptor", "attention"])
def test_rings_of_every_fill_refine_the_aref_level(name: str) -> None:
    outcome = made(name)
    assert passes(check_refinement(parse_module(outcome.aref), parse_module(outcome.barrier)))


def test_a_ring_filled_from_registers_needs_the_fence_of_its_writer() -> None:
    module = parse_module(made("filled_with_one").barrier)
    for op in named(module, "ttng.fence_async_shared"):
        if any(other.name == "ttg.local_store" for other in op.parent.ops if op.parent):  # type: ignore[union-attr]
            op.erase()
    found = check_barriers(module)
    assert isinstance(found, Refuted) and found.witness.kind == "missing fence"
    with pytest.raises(MissingFence):
        find("filled_with_one").output(module, TRIPS, "late")


def test_a_later_fence_of_the_writer_does_not_replace_the_reader_s_fence() -> None:
    """The writer does not know when its copies land, so its fence may precede that."""
    module = parse_module(made("wrapped").barrier)
    fence = named(module, "ttng.fence_async_shared")[0]
    arrival = named(module, "ttng.async_copy_mbarrier_arrive")[0]
    block = arrival.parent
    assert block is not None
    fence.detach()
    block.ops.insert(block.index_of(arrival) + 1, fence)
    fence.parent = block
    found = check_barriers(module)
    assert isinstance(found, Refuted) and found.witness.kind == "missing fence"


def test_the_output_bits_are_finite_numbers() -> None:
    found = find("wrapped").output(parse_module(ttgir("wrapped")), TRIPS)
    assert np.isfinite(found.view(np.float16)).all() and found.any()
