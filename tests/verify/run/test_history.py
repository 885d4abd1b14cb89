"""The steps of a run and their causal past."""

from __future__ import annotations

from tawa.verify.run.events import Event
from tawa.verify.run.history import History, HistoryStep, Memories, event_name
from tawa.verify.run.places import NAMED, Place
from tawa.verify.skeleton.compiler import compile_barriers
from tests.verify.barriers.test_check import barrier, ops
from tests.verify.mutations_barrier import DOT


def memories() -> Memories:
    found = compile_barriers(barrier("tile")).memories
    assert found is not None
    return found


def test_a_fault_has_the_steps_of_its_causal_past_only() -> None:
    history, past = History(memories(), records=True), 0
    for partition in ("one", "two", "one"):
        bit = history.note(partition, "wait", None, Place(0, (1,)), 1)
        past |= bit if partition == "one" else 0
    fault = history.fault("deadlock", "stuck", past, HistoryStep("one", "wait"))
    assert [(step.partition, step.parity) for step in fault.steps] == [("one", 1), ("one", 1), ("one", None)]


def test_barrier_initialisations_are_shown_only_where_the_fault_may_lie_there() -> None:
    history = History(memories(), records=True)
    past = history.note("default", "init", None, Place(0), None) | history.note("default", "wait", None, Place(0), 0)
    assert [step.action for step in history.fault("deadlock", "", past).steps] == ["wait"]
    assert [step.action for step in history.fault("arrive count", "", past).steps] == ["init", "wait"]


def test_a_history_without_records_has_no_steps_but_counts_them() -> None:
    history = History(memories(), records=False)
    bits = [history.note("one", "wait", None, None, None) for _ in range(3)]
    assert bits == [2, 4, 8] and history.everything == 15
    assert history.fault("deadlock", "", history.everything).steps == () == history.at(bits[0])


def test_names_of_memory_and_events() -> None:
    module = barrier("tile")
    found = compile_barriers(module).memories
    assert found is not None
    op = found.allocations[2]
    assert found.name(Place(2, (1,))) == f"{op.result.hint}[1]" == "ring0_full[1]"
    assert [found.name(Place(tile, (1,))) for tile in (0, 1)] == ["ring0.0[1]", "ring0.1[1]"]
    assert found.name(Place(NAMED, (7,))) == "named barrier 7"
    assert event_name(Event("dot", ops(module, DOT)[0])) == "a wgmma"
    assert event_name(Event("read", op)) == "ttg.local_alloc"
