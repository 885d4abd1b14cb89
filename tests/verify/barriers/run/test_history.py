"""The steps of a run and their causal past."""

from __future__ import annotations

from tawa.verify.barriers.program.kernel import BarrierProgram, Memory
from tawa.verify.barriers.run.events import Event, Trace
from tawa.verify.barriers.run.history import History, HistoryStep, Thread, event_name
from tests.verify.barriers.test_check import barrier, ops
from tests.verify.mutations_barrier import DOT, WAIT


def test_a_fault_has_the_steps_of_its_causal_past_only() -> None:
    program = BarrierProgram(barrier("tile"))
    history = History(program)
    one, two = (Thread(Trace(name), 0) for name in ("one", "two"))
    wait = ops(program.module, WAIT)[0]
    for thread in (one, two, one):
        history.add(thread, Event("wait", wait, barrier=Memory(0, (1,)), parity=1))
    last = HistoryStep("one", "wait")
    fault = history.fault("deadlock", "stuck", one.mask, last)
    assert [(step.partition, step.parity) for step in fault.steps] == [("one", 1), ("one", 1), ("one", None)]


def test_barrier_initialisations_are_shown_only_where_the_fault_may_lie_there() -> None:
    program = BarrierProgram(barrier("tile"))
    history, thread = History(program), Thread(Trace("default"), 0)
    wait = ops(program.module, WAIT)[0]
    history.add(thread, Event("init", wait, barrier=Memory(0)))
    history.add(thread, Event("wait", wait, barrier=Memory(0)))
    assert [step.action for step in history.fault("deadlock", "", thread.mask).steps] == ["wait"]
    assert [step.action for step in history.fault("arrive count", "", thread.mask).steps] == ["init", "wait"]


def test_names_of_memory_and_events() -> None:
    program = BarrierProgram(barrier("tile"))
    op = program.allocations[2]
    assert History(program).name(Memory(2, (1,))) == f"{op.result.hint}[1]" == "ring0_full[1]"
    assert [History(program).name(Memory(tile, (1,))) for tile in (0, 1)] == ["ring0.0[1]", "ring0.1[1]"]
    assert event_name(Event("dot", ops(program.module, DOT)[0])) == "a wgmma"
    assert event_name(Event("read", op)) == "ttg.local_alloc"
