"""Choices that give the same run are merged without losing a run; the rest is tried within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tawa.ir import Module, Operation, Value
from tawa.verify.barriers import check_barriers
from tawa.verify.barriers.inputs.choices import choices, vectors
from tawa.verify.barriers.inputs.fingerprint import Fingerprint, Fingerprints
from tawa.verify.barriers.inputs.sweep import Sweep
from tawa.verify.barriers.program.kernel import BarrierProgram
from tawa.verify.barriers.run.events import NeedsNumber, signature
from tawa.verify.barriers.run.trace import unroll
from tawa.verify.verdict import Checked, Refuted, Unknown
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import FORESEEN, barrier, ops

MANY = 10**9
NUMBERS = (0, 1, 5)


def numbers_of(key: str, chosen: Mapping[str, int]) -> tuple[int, ...]:
    return NUMBERS


def put(op: Operation, before: Operation) -> Value:
    assert before.parent is not None
    return before.parent.insert(before.parent.index_of(before), op).result


def bounded_by_memory() -> Module:
    """The trip count is ``n = cu[program + 1] - cu[program]``, as for packed sequences."""
    module = barrier("tile", 2, 0)
    function = next(op for op in module.body.ops if op.name == "tt.func")
    entry = function.regions[0].blocks[0]
    first = entry.ops[0]
    pointer = next(arg for arg in entry.args if arg.type.startswith("!tt.ptr"))
    n = next(arg for arg in entry.args if arg.hint == "n")
    readers = [(use.op, use.index) for use in n.uses]
    one = put(Operation("arith.constant", [], ["i32"], properties={"value": "1 : i32"}), first)
    program = put(Operation("tt.get_program_id", [], ["i32"], properties={"axis": "0 : i32"}), first)
    start = put(Operation("tt.addptr", [pointer, program], [pointer.type]), first)
    end = put(Operation("tt.addptr", [start, one], [pointer.type]), first)
    low, high = (put(Operation("tt.load", [place], ["i32"]), first) for place in (start, end))
    trips = put(Operation("arith.subi", [high, low], ["i32"]), first)
    for op, index in readers:
        op.set_operand(index, trips)
    return module


def all_choices(program: BarrierProgram, prints: Fingerprints) -> Iterator[tuple[dict[Value, int], dict[str, int]]]:
    """Every choice, without merging."""

    def complete(numbers: dict[Value, int], chosen: dict[str, int]) -> Iterator[dict[str, int]]:
        try:
            prints.of(numbers, chosen)
        except NeedsNumber as need:
            for number in NUMBERS:
                yield from complete(numbers, {**chosen, need.key: number})
        else:
            yield chosen

    for numbers in vectors(choices(program, {}, (), NUMBERS)):
        for chosen in complete(numbers, {}):
            yield numbers, chosen


def sweep(program: BarrierProgram, most: int = MANY) -> Sweep:
    found = choices(program, {}, (), NUMBERS)
    return Sweep(Fingerprints(program), {it.argument: it.numbers for it in found}, numbers_of, most)


SOURCES = {**{name: lambda name=name: barrier(name) for name in FORESEEN}, "memory": bounded_by_memory}


@pytest.mark.parametrize("source", SOURCES)
def test_states_are_the_fingerprints_of_all_choices_and_equal_fingerprints_run_alike(source: str) -> None:
    program = BarrierProgram(SOURCES[source]())
    prints, runs = Fingerprints(program), dict[Fingerprint | None, object]()
    for numbers, chosen in all_choices(program, prints):
        run = signature(unroll(program, numbers, chosen).segments)
        assert runs.setdefault(prints.of(numbers, chosen), run) == run
    found = sweep(program)
    assert {tuple(state.cells[out] for out in found.prints.outs) for state in found.states} == set(runs)
    assert len(found.states) == len(runs)
    for state in found.states:
        assert prints.of(state.numbers, state.chosen) == tuple(state.cells[out] for out in found.prints.outs)


def test_loaded_numbers_with_equal_differences_are_merged() -> None:
    """Two programs times nine pairs of numbers: −5, −4, −1, 0, 1, 4 and 5 trips, of which four are different."""
    program = BarrierProgram(bounded_by_memory())
    assert len(list(all_choices(program, Fingerprints(program)))) == 27
    trips = {len(segment[0].events) for state in sweep(program).states
             for segment in unroll(program, state.numbers, state.chosen).segments if len(segment) > 1}  # fmt: skip
    assert len(trips) == 4
    verdict = check_barriers(bounded_by_memory(), effort="fast")
    assert isinstance(verdict, Checked)
    assert "numbers in memory in 0, 1, 5" in verdict.bound
    assert verdict.assumptions == ("numbers in memory are the same in every partition",)


def test_a_fault_that_depends_on_loaded_numbers_is_found_and_names_them() -> None:
    module = bounded_by_memory()
    mutate.drop(ops(module, mutate.ARRIVE)[0])
    verdict = check_barriers(module, effort="fast")
    assert isinstance(verdict, Refuted)
    assert sorted(verdict.witness.inputs) == ["*(arg3+0)", "*(arg3+0+1)", "program_id(0)"]
    assert verdict.witness.inputs["*(arg3+0+1)"] > verdict.witness.inputs["*(arg3+0)"]


@pytest.mark.parametrize("source", ["two_loops", "nested", "persistent"])
def test_the_first_states_cover_every_number(source: str) -> None:
    found = sweep(BarrierProgram(SOURCES[source]()))
    order, outs = found.covering(), found.prints.outs
    assert sorted(map(id, order)) == sorted(map(id, found.states))
    assert len(order) > len(NUMBERS)
    wanted = {(out, state.cells[out]) for state in order for out in outs}
    few = {(out, state.cells[out]) for state in order[: len(order) // 2 + 1] for out in outs}
    assert few == wanted


def test_the_number_of_states_is_limited_and_the_bound_states_it() -> None:
    found = sweep(BarrierProgram(barrier("two_loops")), 80)
    assert found.dropped > 0
    assert 0 < len(found.states) < len(sweep(BarrierProgram(barrier("two_loops"))).states)


def test_the_bound_states_how_many_choices_the_budget_allowed() -> None:
    verdict = check_barriers(barrier("two_loops"), budget_states=900)
    assert isinstance(verdict, Checked)
    assert "runs: " in verdict.bound and " of 36 choices)" in verdict.bound
    early = check_barriers(barrier("two_loops"), budget_states=100)
    assert isinstance(early, Unknown)
    assert "of 36 choices" in early.reason


def test_the_first_iterations_of_an_outer_loop_are_distinguished() -> None:
    """A persistent kernel whose first tile has n trips and whose second has m: each n is a different run."""
    program = BarrierProgram(barrier("persistent"))
    prints = Fingerprints(program)
    found = choices(program, {}, (), NUMBERS)
    first = prints.of({it.argument: 1 for it in found}, {})
    for choice in found:
        assert prints.of({it.argument: 5 if it is choice else 1 for it in found}, {}) != first
