"""Protocol mutations are detected in at least one order, as a trap, a deadlock or different bits.

Each mutation breaks one rule of the protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, get_args

import pytest

pytest.importorskip("triton")

from tawa.ir import Module, Operation
from tawa.ir.attributes import read_int
from tawa.sim import SimulationError
from tawa.sim.machine.cta import Order
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.sim.problems import Level, level_module, output

# One tile per program with five trips; two tiles per program with stores staged through shared memory.
PROBLEMS: dict[str, dict[str, int]] = {
    "tile_64x64": {"M": 64, "N": 64, "K": 320},
    "persistent": {"M": 256, "N": 128, "K": 200, "PROGRAMS": 1},
}


def case_of(name: str) -> Specimen:
    return find(name).with_sizes(**PROBLEMS[name])


@functools.cache
def right(name: str) -> Any:
    return output(case_of(name), level_module(name, "ttgir"))


def verdicts(name: str, level: Level, mutate: Callable[[Module], None]) -> set[str]:
    """The results in all orders: names of errors, "other bits", "right"."""
    seen: set[str] = set()
    for order in get_args(Order):
        for seed in range(4 if order == "random" else 1):
            module = level_module(name, level)
            mutate(module)
            try:
                same = (output(case_of(name), module, order, seed) == right(name)).all()
                seen.add("right" if same else "other bits")
            except SimulationError as error:
                seen.add(type(error).__name__)
    return seen


def ops(module: Module, name: str, text: str = "") -> list[Operation]:
    """Operations by name; `text` occurs in the name of their ring or barrier."""
    return [op for op in module.walk() if op.name == name and text in _hint(op)]


def _hint(op: Operation) -> str:
    if not op.operands:
        return ""
    value = op.operands[0]
    while value.defining_op is not None and value.defining_op.name == "ttg.memdesc_index":
        value = value.defining_op.operands[0]
    return value.hint


def drop(name: str, text: str = "", which: int = 0) -> Callable[[Module], None]:
    return lambda module: ops(module, name, text)[which].erase()


def change(name: str, key: str, new: Callable[[int], int], text: str = "") -> Callable[[Module], None]:
    def mutate(module: Module) -> None:
        op = ops(module, name, text)[0]
        op.properties[key] = f"{new(read_int(op.properties[key]))} : i32"

    return mutate


def flip_parity(text: str) -> Callable[[Module], None]:
    """wait(parity) → wait(parity ^ 1)"""

    def mutate(module: Module) -> None:
        wait = ops(module, "ttng.wait_barrier", text)[0]
        one = Operation("arith.constant", (), ("i32",), properties={"value": "1 : i32"})
        other = Operation("arith.xori", (wait.operands[1], one.result), ("i32",))
        assert wait.parent is not None
        for op in (one, other):
            wait.parent.insert(wait.parent.index_of(wait), op)
        wait.set_operand(1, other.result)

    return mutate


def dots_see(name: str, put_off: int) -> Callable[[Module], None]:
    """The wgmma wait of the loop leaves more wgmmas in flight: the slot is released while one reads it."""
    return change(name, "pendings", lambda pendings: pendings + put_off)


def use_before_wait(module: Module) -> None:
    """Removes the last wait: the accumulator is used in flight."""
    wait = [op for op in module.walk() if op.name == "ttng.warp_group_dot_wait"][-1]
    for result, operand in zip(wait.results, wait.operands, strict=True):
        result.replace_all_uses_with(operand)
    wait.erase()


def use_past_wait(module: Module) -> None:
    """Keeps the last wait, but uses its operands instead of its results."""
    wait = [op for op in module.walk() if op.name == "ttng.warp_group_dot_wait"][-1]
    for result, operand in zip(wait.results, wait.operands, strict=True):
        result.replace_all_uses_with(operand)


BARRIER: dict[str, tuple[str, Callable[[Module], None], set[str]]] = {
    "the get does not wait": ("tile_64x64", drop("ttng.wait_barrier", "full"), {"UnwrittenRead"}),
    "the put does not wait": ("tile_64x64", drop("ttng.wait_barrier", "empty"), set()),
    "the get waits for the other parity": ("tile_64x64", flip_parity("full"), set()),
    "the put waits for the other parity": ("tile_64x64", flip_parity("empty"), {"Deadlock"}),
    "the slot is released too early": ("tile_64x64", dots_see("ttng.warp_group_dot_wait", 1), {"SharedMemoryRace"}),
    "no slot is released": ("tile_64x64", drop("ttng.arrive_barrier", "empty"), {"Deadlock"}),
    "no transaction bytes are expected": ("tile_64x64", drop("ttng.barrier_expect", "full"), {"Deadlock"}),
    "too many bytes are expected": (
        "tile_64x64",
        change("ttng.barrier_expect", "size", lambda size: size + 64),
        {"Deadlock"},
    ),
    "half of the bytes are expected": (
        "tile_64x64",
        change("ttng.barrier_expect", "size", lambda size: size // 2),
        set(),
    ),
    "one tile is not loaded": ("tile_64x64", drop("ttng.async_tma_copy_global_to_local"), {"Deadlock"}),
    "the barrier waits for two arrivals": (
        "tile_64x64",
        change("ttng.init_barrier", "count", lambda count: count + 1),
        {"Deadlock"},
    ),
    "a barrier is not initialised": ("tile_64x64", drop("ttng.init_barrier"), {"BarrierMisuse"}),
    "the accumulator is used in flight": ("tile_64x64", use_before_wait, {"AccumulatorInFlight"}),
    "the result of the wait is not used": ("tile_64x64", use_past_wait, {"AccumulatorInFlight"}),
    "no fence before the TMA store": ("persistent", drop("ttng.fence_async_shared"), {"MissingFence"}),
    "no wait before the staging buffer is reused": (
        "persistent",
        drop("ttng.async_tma_store_wait"),
        {"SharedMemoryRace"},
    ),
}

AREF: dict[str, tuple[str, Callable[[Module], None], set[str]]] = {
    "no slot is released": ("tile_64x64", drop("aref.consumed"), {"Deadlock"}),
    "the slot is released too early": ("tile_64x64", dots_see("ttng.warp_group_dot_wait", 1), {"SharedMemoryRace"}),
    "the accumulator is used in flight": ("tile_64x64", use_before_wait, {"AccumulatorInFlight"}),
    "the first put is missing": ("tile_64x64", drop("aref.put"), {"ProtocolTrap"}),
    "the last put is missing": ("tile_64x64", drop("aref.put", which=-1), {"Deadlock"}),
}


@pytest.mark.parametrize("name", BARRIER)
def test_a_broken_barrier_program_is_detected(name: str) -> None:
    problem, mutate, expected = BARRIER[name]
    seen = verdicts(problem, "barrier", mutate)
    assert seen & expected if expected else seen - {"right"}, seen


@pytest.mark.parametrize("name", AREF)
def test_a_broken_aref_program_is_detected(name: str) -> None:
    problem, mutate, expected = AREF[name]
    assert verdicts(problem, "aref", mutate) & expected


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("level", ["aref", "barrier"])
def test_an_unbroken_program_is_right_in_every_order(level: Level, problem: str) -> None:
    assert verdicts(problem, level, lambda module: None) == {"right"}
