"""Every access is ordered after the earlier accesses that it conflicts with."""

from __future__ import annotations

import pytest

from tawa.verify.barriers.program.kernel import BarrierProgram, Memory
from tawa.verify.barriers.run.events import Event, Trace
from tawa.verify.barriers.run.history import Fault, History, Thread
from tawa.verify.barriers.run.memory import SharedMemory
from tawa.verify.verdict import FaultKind
from tests.verify.barriers.test_check import barrier

SLOT, OTHER, HALF = Memory(0, (0,)), Memory(0, (1,)), Memory(0, (0,), ((0, 32), (0, 64)))
REST = Memory(0, (0,), ((32, 64), (0, 64)))


class Run:
    """Two unordered partitions; `ordered` makes the second one's past contain the first one's."""

    def __init__(self) -> None:
        program = BarrierProgram(barrier("tile"))
        self.op = program.allocations[0]
        self.history = History(program)
        self.memory = SharedMemory(self.history)
        self.one, self.two = (Thread(Trace(name), 0) for name in ("one", "two"))

    def access(self, thread: Thread, kind: str, memory: Memory, *, open: bool = False, proxy: bool = False) -> None:
        event = Event(kind, self.op, (memory,))
        self.history.add(thread, event)
        made = getattr(self.memory, kind)(thread, event, memory, asynchronous=proxy or open)
        if not open:
            made.end = made.start

    def ordered(self) -> None:
        self.two.mask |= self.one.mask


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("write", "write", "write-write race"),
        ("write", "read", "read before write"),
        ("read", "write", "write before release"),
    ],
)
def test_unordered_conflicting_accesses_are_a_race(first: str, second: str, kind: FaultKind) -> None:
    for ordered in (False, True):
        run = Run()
        run.access(run.one, "write", SLOT)
        run.two.mask = run.one.mask  # the first write is in the past of both
        run.access(run.one, first, SLOT)
        if ordered:
            run.ordered()
            run.access(run.two, second, SLOT)
            continue
        with pytest.raises(Fault) as caught:
            run.access(run.two, second, SLOT)
        assert caught.value.kind == kind


def test_accesses_to_different_slots_or_boxes_do_not_conflict() -> None:
    run = Run()
    run.access(run.one, "write", HALF)
    run.access(run.two, "write", OTHER)
    run.access(run.two, "write", REST)
    with pytest.raises(Fault):
        run.access(run.two, "write", SLOT)


def test_an_access_in_flight_conflicts_even_if_its_start_is_in_the_past() -> None:
    run = Run()
    run.access(run.one, "write", SLOT, open=True)
    run.ordered()
    with pytest.raises(Fault, match="may still access it"):
        run.access(run.two, "write", SLOT)


def test_a_read_of_memory_that_was_never_written_is_a_fault() -> None:
    run = Run()
    with pytest.raises(Fault, match="was never written"):
        run.access(run.one, "read", SLOT)


def test_a_read_through_the_async_proxy_needs_a_fence_after_a_generic_write() -> None:
    run = Run()
    run.access(run.one, "write", SLOT)
    run.ordered()
    with pytest.raises(Fault, match="without a fence_async_shared in between by the writer") as caught:
        run.access(run.two, "read", SLOT, proxy=True)
    assert caught.value.kind == "missing fence"
