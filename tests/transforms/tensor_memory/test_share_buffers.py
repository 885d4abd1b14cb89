"""`share_buffers`: accumulators of loops that follow each other lie in one buffer."""

from __future__ import annotations

import pytest

from tawa.ir import Module
from tawa.transforms.tensor_memory.share_buffers import ShareBuffers
from tests.cases.programs.tensor_memory import blackwell, memory, mma, tmem_load, tmem_store
from tests.cases.programs.ttgir import ACC, BUFFER, for_loop, kernel
from tests.support.passes import checked

TILES = {"x": BUFFER, "y": BUFFER}


def shared(body: str, *names: str) -> Module:
    """The program after the pass. names: of its buffers."""
    module = blackwell(kernel("\n".join((*map(memory, names), body)), arguments=TILES))
    ShareBuffers().run(module)
    return checked(module)


def count(module: Module, name: str) -> int:
    return sum(it.name == name for it in module.walk())


def turn(buffer: str) -> str:
    """A dot, and a load of its result."""
    return f"{mma('x', 'y', buffer)}\n{tmem_load(f'of_{buffer}', buffer, ACC)}"


def test_results_in_loops_that_follow_each_other_share_a_buffer() -> None:
    module = shared(f"{for_loop(turn('d'))}\n{for_loop(turn('e'), induction='l')}", "d", "e")
    assert count(module, "ttng.tmem_alloc") == 1


def test_results_in_one_loop_do_not_while_there_is_space() -> None:
    module = shared(for_loop(f"{turn('d')}\n{turn('e')}"), "d", "e")
    assert count(module, "ttng.tmem_alloc") == 2


def test_results_in_one_loop_do_without_space() -> None:
    names = [f"d{number}" for number in range(9)]  # of 64 columns
    module = shared(for_loop("\n".join(map(turn, names))), *names)
    assert count(module, "ttng.tmem_alloc") < len(names)


@pytest.mark.parametrize("crossed", [mma("x", "y", "d"), tmem_load("again", "d", ACC)])
def test_buffers_whose_accesses_cross_stay_apart(crossed: str) -> None:
    body = f"{for_loop(turn('d'))}\n{for_loop(turn('e'), induction='l')}\n{crossed}"
    assert count(shared(body, "d", "e"), "ttng.tmem_alloc") == 2


def test_buffers_that_different_partitions_access_first_stay_apart() -> None:
    stored = f"{tmem_store('zeros', 'e', ACC)}\n{mma('x', 'y', 'e')}\n{tmem_load('last', 'e', ACC)}"
    assert count(shared(f"{for_loop(turn('d'))}\n{stored}", "d", "e"), "ttng.tmem_alloc") == 2


def test_a_tile_that_goes_into_the_same_buffer_stays_there() -> None:
    first = f"{tmem_store('zeros', 'd', ACC)}\n{for_loop(mma('x', 'y', 'd'))}\n{tmem_load('t', 'd', ACC)}"
    second = f"{tmem_store('t', 'e', ACC)}\n{for_loop(mma('x', 'y', 'e'), induction='l')}\n{tmem_load('u', 'e', ACC)}"
    module = shared(f"{first}\n{second}", "d", "e")
    assert count(module, "ttng.tmem_alloc") == 1
    assert count(module, "ttng.tmem_store") == count(module, "ttng.tmem_load") == 1
