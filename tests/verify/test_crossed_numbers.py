"""Numbers that cross in rings: which they are, and that the checks rely on nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.dialects.control_flow import incoming
from tawa.flow import Outcome
from tawa.ir import Module, Operation, Value, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.crossed_numbers import crossed_numbers
from tawa.verify.verdict import Proved, Refuted, Unknown
from tests.cases.programs.ttgir import dynamic_gemm, ops_named, tile_gemm
from tests.support.pipeline import specialise
from tests.support.sample import sample
from tests.support.verdicts import passes
from tests.verify import mutations_barrier
from tests.verify.mutations_edits import Mutant
from tests.verify.mutations_reasons import reason_of


def made(*, by_tile: bool = False, groups: int = 1) -> Outcome:
    options = PlanOptions(aref_depth=2, mma_depth=1)
    outcome = specialise(dynamic_gemm(by_tile=by_tile), options, Target(4, 3, groups=groups), verification="full")
    assert outcome.applied, outcome.remarks
    return outcome


OUTCOME, BY_TILE = made(), made(by_tile=True)
LEVELS = {"aref": OUTCOME.aref, "barrier": OUTCOME.barrier}


@pytest.mark.parametrize("level", LEVELS)
def test_what_comes_out_of_a_ring_is_what_was_put_into_it(level: str) -> None:
    module = parse_module(LEVELS[level])
    found = crossed_numbers(module.walk())
    (ticket, reset) = ops_named(module, "tt.atomic_rmw")
    (received,) = [op.result for op in ops_named(module, "tt.unsplat")]
    (sent,) = [op.result for op in ticket.result.users if op.name == "arith.addi"]  # the next tile
    assert found.sources == {received: sent}
    assert found.atomics == {ticket: 0, reset: 1}
    assert list(found.loads.values()) == [received] and list(found.stores.values()) == [sent]


def test_a_kernel_without_such_rings_has_none() -> None:
    assert not crossed_numbers(parse_module(tile_gemm()).walk()).sources


def test_a_ring_that_two_operations_fill_is_left_out() -> None:
    module = parse_module(OUTCOME.barrier)
    (store,) = [op for op in ops_named(module, "ttg.local_store") if "1xi32" in op.operands[0].type]
    assert store.parent is not None
    copy = Operation(store.name, list(store.operands))
    store.parent.insert(store.parent.index_of(store), copy)
    assert not crossed_numbers(module.walk()).sources


@pytest.mark.parametrize("outcome", [OUTCOME, BY_TILE], ids=["same trips", "trips by tile"])
def test_a_loop_that_a_crossed_number_ends_is_proved_for_any_sequence_of_tiles(outcome: Outcome) -> None:
    assert check_credits(parse_module(outcome.aref)) == Proved()
    for effort in ("fast", "full"):
        verdict = check_barriers(parse_module(outcome.barrier), effort=effort)  # type: ignore[arg-type]
        assert verdict == Proved()
    assert passes(check_refinement(parse_module(outcome.aref), parse_module(outcome.barrier)))


def consumer(module: Module) -> Operation:
    return next(op for op in module.walk() if op.name == "warp.group" and "consumer" in op.properties["role"])


def inside(module: Module, name: str) -> Operation:
    return next(op for op in consumer(module).walk() if op.name == name)


def older_tile(module: Module) -> None:
    """The consumer counts its tiles itself."""
    loop = inside(module, "scf.while")
    end = loop.regions[1].block.terminator
    add = end.operands[0].defining_op
    assert add is not None
    add.set_operand(0, loop.regions[1].block.args[0])


def own_atomic(module: Module) -> None:
    """The consumer takes a ticket of its own."""
    unsplat, counter = inside(module, "tt.unsplat"), next(op for op in module.walk() if op.name == "tt.atomic_rmw")
    constants = {op.properties["value"]: op.result for op in consumer(module).walk() if op.name == "arith.constant"}
    operands = [counter.operands[0], constants["1 : i32"], constants.get("true", unsplat.result)]
    block = unsplat.parent
    assert block is not None
    ticket = Operation("tt.atomic_rmw", operands[:2], ["i32"], properties=dict(counter.properties))
    block.insert(block.index_of(unsplat) + 1, ticket)
    unsplat.result.replace_all_uses_with(ticket.result)


def one_number_late(module: Module) -> None:
    """The consumer goes on with the number that it got for the tile before."""
    loop = inside(module, "scf.while")
    before, after = (region.block for region in loop.regions)
    start = loop.operands[0]
    loop.add_operand(start)
    carried = [block.add_arg("i32", "late") for block in (before, after)]
    before.terminator.add_operand(carried[0])
    loop.results.append(type(loop.results[0])("i32", loop, len(loop.results), "late"))
    number = after.terminator.operands[0]
    after.terminator.set_operand(0, carried[1])
    after.terminator.add_operand(number)


WRONG: dict[str, Callable[[Module], None]] = {
    "a count of its own": older_tile,
    "a ticket of its own": own_atomic,
    "one number late": one_number_late,
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("outcome", [OUTCOME, BY_TILE], ids=["same trips", "trips by tile"])
def test_a_consumer_that_goes_on_with_another_tile_is_not_proved(name: str, outcome: Outcome) -> None:
    module = parse_module(outcome.aref)
    WRONG[name](module)
    found = check_credits(module)
    assert isinstance(found, Refuted | Unknown), found


def of_numbers(mutant: Mutant) -> bool:
    """Whether a mutant changes an access to the ring of numbers."""
    work, seen = list(mutant.original().operands), set[Value]()
    while work:
        value = work.pop()
        op = value.defining_op
        if value.hint.startswith("number"):
            return True
        if value not in seen and op is not None and op.name == "ttg.memdesc_index":
            work.append(op.operands[0])
        elif value not in seen and op is None:
            work += [use.value for use in incoming(value)] if value.type.startswith("!ttg.memdesc") else []
        seen.add(value)
    return False


@pytest.mark.parametrize(
    "outcome", sample([pytest.param(BY_TILE, id="trips by tile"), pytest.param(OUTCOME, id="same trips")], 3)
)
def test_no_mutant_of_a_ring_of_numbers_is_proved_and_most_are_refuted_at_the_barrier_level(outcome: Outcome) -> None:
    found = [mutant for mutant in mutations_barrier.mutants(outcome.barrier) if of_numbers(mutant)]
    unlike: list[str] = []
    refuted = 0
    for mutant in found:
        verdict = check_barriers(mutant.module, effort="fast")
        refuted += isinstance(verdict, Refuted)
        if isinstance(verdict, Proved) and reason_of(mutant) is None:
            unlike.append(f"{mutant}: {verdict}")
    assert unlike == []
    assert refuted > len(found) // 2 > 10
