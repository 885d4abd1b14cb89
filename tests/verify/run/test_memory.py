"""Every access is ordered after the earlier accesses that it conflicts with."""

from __future__ import annotations

import pytest

from tawa.verify.run.events import Event
from tawa.verify.run.history import Fault, History
from tawa.verify.run.memory import Access, Actor, Memory, OtherNumber
from tawa.verify.run.places import Place
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.verdict import FaultKind
from tests.verify.barriers.test_check import barrier

SLOT, OTHER, HALF = Place(0, (0,)), Place(0, (1,)), Place(0, (0,), ((0, 32), (0, 64)))
REST = Place(0, (0,), ((32, 64), (0, 64)))


class Run:
    """Two unordered partitions; `ordered` makes the second one's past contain the first one's."""

    def __init__(self) -> None:
        memories = compile_barriers(barrier("tile")).memories
        assert memories is not None
        self.op = memories.allocations[0]
        self.history = History(memories, records=True)
        self.one, self.two = (Actor(name, number) for number, name in enumerate(("one", "two")))
        self.memory = Memory(self.history, [self.one, self.two], {})

    def access(self, actor: Actor, kind: str, memory: Place, *, open: bool = False, proxy: bool = False) -> Access:
        event = Event(kind, self.op, (memory,))
        actor.mask |= self.history.note(actor.name, kind, event, memory, None)
        made: Access = getattr(self.memory, kind)(actor, event, memory, proxy=proxy or open)
        if not open:
            made.end = made.start
        return made

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


@pytest.mark.parametrize("kind", ["write", "read"])
def test_a_write_through_the_async_proxy_needs_a_fence_after_a_generic_access(kind: str) -> None:
    run = Run()
    before = run.access(run.one, "write", SLOT)
    last = run.access(run.one, kind, SLOT)
    before.fence = 1
    run.ordered()
    with pytest.raises(Fault, match="without a fence_async_shared") as caught:
        run.access(run.two, "write", SLOT, proxy=True)
    assert caught.value.kind == "missing fence"
    last.fence = 1
    run.access(run.two, "write", SLOT, proxy=True)


def test_a_fence_that_the_async_access_does_not_wait_for_does_not_help() -> None:
    run = Run()
    access = run.access(run.one, "write", SLOT)
    run.ordered()
    access.fence = run.history.note("one", "fence", None, None, None)
    with pytest.raises(Fault, match="without a fence_async_shared"):
        run.access(run.two, "read", SLOT, proxy=True)
    run.two.mask |= access.fence
    run.access(run.two, "read", SLOT, proxy=True)


def test_a_slot_that_does_not_exist_is_a_fault() -> None:
    run = Run()
    with pytest.raises(Fault, match=r"accesses slot 2 of .* which has 2 slots") as caught:
        run.access(run.one, "write", Place(0, (2,)))
    assert caught.value.kind == "out of bounds"


def test_a_load_of_another_number_than_the_one_it_was_given_is_noticed() -> None:
    run = Run()
    for number, other in ((1, 1), (1, 2)):
        written = Event("write", run.op, (SLOT,), number=number)
        run.one.mask |= run.history.note("one", "write", written, SLOT, None)
        access = run.memory.write(run.one, written, SLOT, proxy=False)
        access.end = access.start
        read = Event("read", run.op, (SLOT,), number=other)
        run.one.mask |= run.history.note("one", "read", read, SLOT, None)
        if number == other:
            run.memory.read(run.one, read, SLOT, proxy=False).end = run.history.bit
        else:
            with pytest.raises(OtherNumber):
                run.memory.read(run.one, read, SLOT, proxy=False)
