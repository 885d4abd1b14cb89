"""Numbers that cross between partitions: which load reads which store."""

from __future__ import annotations

import pytest

from tawa.ir import Module, Operation, ValueMap, clone_op, parse_module
from tawa.verify.barriers import check_barriers
from tawa.verify.barriers.program.kernel import BarrierProgram, Memory, NotUnderstood
from tawa.verify.barriers.run.events import Event, Trace
from tawa.verify.barriers.run.happens_before import BarrierRun
from tawa.verify.barriers.run.numbers import Numbers
from tawa.verify.barriers.run.trace import unroll
from tawa.verify.verdict import Unknown
from tests.support.verdicts import passes
from tests.verify.test_crossed_numbers import BY_TILE

HERE, THERE = Memory(0, (0,)), Memory(0, (1,))
ANY = Operation("any")


def reading(numbers: Numbers, trace: Trace, memory: Memory, *, waits: bool = True) -> tuple[int, object]:
    """One load from a slot, behind a wait or not."""
    if waits:
        trace.events.append(Event("wait", ANY))
    found = numbers.receive(trace, memory)
    trace.events.append(Event("read", ANY, (memory,)))
    return found


def test_each_visit_to_a_slot_reads_the_next_number_that_was_stored_there() -> None:
    numbers, trace = Numbers(), Trace("default")
    for memory, number in ((HERE, 7), (THERE, 9), (HERE, 3)):
        numbers.send(memory, number)
    assert [reading(numbers, trace, it) for it in (HERE, THERE, HERE)] == [(0, 7), (0, 9), (1, 3)]


def test_a_second_load_without_a_wait_reads_the_same_number() -> None:
    numbers, trace = Numbers(), Trace("default")
    numbers.send(HERE, 7)
    numbers.send(HERE, 3)
    assert reading(numbers, trace, HERE) == reading(numbers, trace, HERE, waits=False) == (0, 7)


def test_partitions_visit_a_slot_independently() -> None:
    numbers = Numbers()
    numbers.send(HERE, 7)
    assert [reading(numbers, Trace(name), HERE) for name in ("default", "partition1")] == [(0, 7), (0, 7)]


def test_a_visit_that_no_store_precedes_has_no_number() -> None:
    numbers, trace = Numbers(), Trace("default")
    numbers.send(HERE, 7)
    reading(numbers, trace, HERE)
    assert reading(numbers, trace, HERE) == (1, None)


def waiting_twice(module: Module) -> None:
    """The consumer waits for a number and loads it, and then does the same again: the slot holds no other one yet."""
    (load,) = [op for op in module.walk() if op.name == "ttg.local_load" and "xi32" in op.results[0].type]
    block = load.parent
    assert block is not None
    first = next(op for op in load.results[0].users if op.name == "tt.unsplat")
    wait = next(op for op in reversed(block.ops[: block.index_of(load)]) if op.name == "ttng.wait_barrier")
    mapping: ValueMap = {}
    copies = [clone_op(op, mapping) for op in (wait, load, first)]
    first.results[0].replace_all_uses_with(copies[-1].results[0])
    for place, copy in enumerate(copies):
        block.insert(block.index_of(first) + 1 + place, copy)


def test_a_load_that_is_not_in_step_with_the_stores_is_not_understood() -> None:
    module = parse_module(BY_TILE.barrier)
    assert passes(check_barriers(module, effort="fast"))
    waiting_twice(module)
    assert isinstance(check_barriers(module, effort="fast"), Unknown)


class _Any(dict[str, int]):
    """Two trips of each loop, and 1 for every other number."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> int:
        return 2 if key.startswith("trips") else 1


def test_a_load_of_another_store_than_was_expected_is_not_understood() -> None:
    program = BarrierProgram(parse_module(BY_TILE.barrier))
    numbers = dict.fromkeys(program.leaves, 2)
    unrolled = unroll(program, numbers, _Any())
    BarrierRun(program, unrolled.segments).execute()
    reads = [it for segment in unrolled.segments for trace in segment for it in trace.events if it.kind == "read"]
    crossing = [event for event in reads if event.number >= 0]
    assert [event.number for event in crossing] == [0, 0]
    crossing[1].number = 1
    with pytest.raises(NotUnderstood, match="another one than was expected"):
        BarrierRun(program, unrolled.segments).execute()


@pytest.mark.parametrize("other", [HERE, THERE])
def test_a_slot_without_stores_has_no_numbers(other: Memory) -> None:
    assert Numbers().receive(Trace("default"), other) == (0, None)
