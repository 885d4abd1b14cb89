"""The protocol, as a truth table: every program, every D and P, every number of trips.

For each program the aref level must put, get and release each slot once and in order, never hold more than P + 1
slots, have released all of them before it stores, and never block; the barrier level must show the same with slot =
count mod D and parity = (count div D) mod 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tawa.flow import Outcome
from tawa.ir import Module, Operation, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs import ttgir as programs
from tests.support.pipeline import specialise
from tests.support.protocol import run, violations
from tests.support.sample import sample

DEPTHS = [pytest.param(depth, p, id=f"D{depth}P{p}") for depth in range(1, 5) for p in range(3) if depth > p]

Trips = Callable[[int, int], int | dict[str, int]]
"""The number of puts per ring as a function of n and m, for all rings or by name."""

PROGRAMS: dict[str, tuple[Callable[[], str], Trips]] = {
    "tile": (programs.tile_gemm, lambda n, m: n),
    "persistent": (programs.persistent_gemm, lambda n, m: n + m),
    "two_loops": (programs.two_loops, lambda n, m: n + m),
    "gate_up": (programs.gate_up, lambda n, m: n),
    "branching": (programs.branching_gemm, lambda n, m: (m + 1) // 2 * n + m // 2 * m),
    "while": (programs.while_gemm, lambda n, m: n * m),
    "guarded": (programs.guarded_gemm, lambda n, m: n if m > 0 else 0),
    "while_sum": (programs.while_sum, lambda n, m: n),
    "nested": (programs.nested_loops, lambda n, m: {"ring0": n, "ring1": n * m}),
}


def trips(depth: int) -> list[int]:
    return sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1})


@functools.cache
def outcome(program: str, depth: int, mma_depth: int) -> Outcome:
    text = PROGRAMS[program][0]()
    made = specialise(text, PlanOptions(aref_depth=depth, mma_depth=mma_depth), Target(num_warps=4, num_stages=3))
    assert made.applied, made.remarks
    return made


def check(module: Module, program: str, depth: int, mma_depth: int, level: str) -> list[str]:
    """Violations over all trip counts, each with its trip count."""
    wrong: list[str] = []
    for n in trips(depth):
        for m in trips(depth) if program != "tile" else (0,):
            trace = run(module, {"n": n, "m": m})
            found = violations(trace, depth, mma_depth, PROGRAMS[program][1](n, m), level)
            wrong += [f"n={n} m={m}: {reason}" for reason in found]
    return wrong


@pytest.mark.parametrize(("depth", "mma_depth"), sample(DEPTHS, 3))
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("level", ["aref", "barrier"])
def test_every_slot_is_put_got_and_released_once_in_order(level: str, program: str, depth: int, mma_depth: int) -> None:
    made = outcome(program, depth, mma_depth)
    module = parse_module(made.aref if level == "aref" else made.barrier)
    assert check(module, program, depth, mma_depth, level) == []


@pytest.mark.parametrize("mma_depth", [0, 1, 2])
def test_p_iterations_of_wgmmas_are_in_flight(mma_depth: int) -> None:
    trace = run(parse_module(outcome("tile", 3, mma_depth).aref), {"n": 7, "m": 0})
    assert trace.most_in_flight == (mma_depth + 1 if mma_depth else 0)
    assert trace.stores == 1


# -- the check can fail: each mutation of a right program is found -----------------------------------------------------

Mutation = Callable[[Module], None]


def named(module: Module, name: str, partition: str = "") -> list[Operation]:
    """Operations by name, in one partition where it is given."""
    return [
        op
        for op in module.walk()
        if op.name == name
        and (
            not partition or any(f'"{partition}"' in outer.properties.get("partition", "") for outer in op.ancestors())
        )
    ]


def drop_the_release_in_the_loop(module: Module) -> None:
    named(module, "aref.consumed")[0].erase()


def drop_the_release_behind_the_loop(module: Module) -> None:
    named(module, "aref.consumed")[-1].erase()


def release_twice(module: Module) -> None:
    consumed = named(module, "aref.consumed")[-1]
    assert consumed.parent is not None
    twin = Operation("aref.consumed", consumed.operands)
    consumed.parent.insert(consumed.parent.index_of(consumed), twin)


def release_the_slot_of_this_iteration(module: Module) -> None:
    get, consumed = named(module, "aref.get")[0], named(module, "aref.consumed")[0]
    consumed.set_operand(1, get.operands[1])


def get_the_next_slot(module: Module) -> None:
    get = named(module, "aref.get")[0]
    advance = named(module, "aref.advance", "consumer")[0]
    assert get.parent is not None
    get.parent.insert(get.parent.index_of(get), advance.detach())
    get.set_operand(1, advance.result)


def put_without_counting(module: Module) -> None:
    advance = named(module, "aref.advance", "producer")[0]
    advance.result.replace_all_uses_with(advance.operands[0])


def count_per_tile(module: Module) -> None:
    """The inner loop of the consumer starts from 0 in every tile."""
    first = named(module, "aref.first", "consumer")[0].result
    named(module, "scf.for", "consumer")[1].set_operand(4, first)


def do_not_wait_for_wgmmas(module: Module) -> None:
    for wait in named(module, "ttng.warp_group_dot_wait"):
        wait.properties["pendings"] = "7 : i32"


def release_behind_the_store(module: Module) -> None:
    consumed = named(module, "aref.consumed")[-1]
    block = consumed.parent
    assert block is not None
    consumed.detach()
    block.insert(len(block.ops) - 1, consumed)


def fill_before_the_fork(module: Module) -> None:
    for put in named(module, "aref.put"):
        put.properties["fresh"] = "true"


AREF_MUTATIONS: list[Mutation] = [
    drop_the_release_in_the_loop,
    drop_the_release_behind_the_loop,
    release_twice,
    release_the_slot_of_this_iteration,
    get_the_next_slot,
    put_without_counting,
    count_per_tile,
    do_not_wait_for_wgmmas,
    release_behind_the_store,
    fill_before_the_fork,
]


@pytest.mark.parametrize("mutate", AREF_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_broken_aref_program_is_found(mutate: Mutation) -> None:
    module = parse_module(outcome("persistent", 2, 1).aref)
    mutate(module)
    assert check(module, "persistent", 2, 1, "aref")


def test_as_many_slots_as_iterations_in_flight_block() -> None:
    text = outcome("tile", 3, 1).aref.replace("ring<3 x", "ring<1 x").replace("index<3>", "index<1>")
    trace = run(parse_module(text.replace("fresh = true", "fresh = false")), {"n": 5, "m": 0})
    assert any("deadlock" in reason for reason in trace.wrong)


def drop_an_arrive(module: Module) -> None:
    named(module, "ttng.arrive_barrier")[0].erase()


def wait_for_the_same_parity(module: Module) -> None:
    """The producer waits for an empty slot with the parity of a full one."""
    wait = named(module, "ttng.wait_barrier")[-1]
    opposite = wait.operands[1].defining_op
    assert opposite is not None and opposite.name == "arith.xori"
    wait.set_operand(1, opposite.operands[0])


def expect_one_byte_more(module: Module) -> None:
    expect = named(module, "ttng.barrier_expect")[-1]
    expect.properties["size"] = f"{2 * programs.TILE_BYTES + 1} : i32"


def never_flip_the_parity(module: Module) -> None:
    for flip in named(module, "arith.extui"):
        zero = Operation("arith.constant", (), ("i32",), properties={"value": "0 : i32"})
        assert flip.parent is not None
        flip.parent.insert(flip.parent.index_of(flip), zero)
        flip.result.replace_all_uses_with(zero.result)


def leave_a_barrier_uninitialised(module: Module) -> None:
    named(module, "ttng.init_barrier")[0].properties["count"] = "2 : i32"


def never_wrap_the_slot(module: Module) -> None:
    for compare in named(module, "arith.cmpi"):
        if compare.properties["predicate"].startswith("0 ") and compare.parent_op is not None:
            compare.properties["predicate"] = "1 : i64"


BARRIER_MUTATIONS: list[Mutation] = [
    drop_an_arrive,
    wait_for_the_same_parity,
    expect_one_byte_more,
    never_flip_the_parity,
    leave_a_barrier_uninitialised,
    never_wrap_the_slot,
]


@pytest.mark.parametrize("mutate", BARRIER_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_broken_barrier_program_is_found(mutate: Mutation) -> None:
    module = parse_module(outcome("tile", 2, 1).barrier)
    mutate(module)
    assert check(module, "tile", 2, 1, "barrier")
