"""Recorders: what a step waits for and contributes to."""

from __future__ import annotations

from tawa.ir import Operation
from tawa.sim.machine.trace import Recorder


def test_a_step_takes_the_waits_and_signals_since_the_last_step() -> None:
    recorder, op = Recorder("main", 0), Operation("tt.get_program_id", (), ("i32",))
    recorder.wait("full")
    recorder.signal("empty")
    recorder.step(op, None)
    recorder.step(op, None)
    assert [(step.waits, step.signals) for step in recorder.steps] == [(("full",), ("empty",)), ((), ())]


def test_the_first_use_of_a_load_waits_for_it() -> None:
    recorder, load = Recorder("main", 0), Operation("tt.load", (), ("f32",))
    use = Operation("arith.negf", (load.result,), ("f32",))
    recorder.step(load, None, later=True)
    recorder.step(use, None)
    recorder.step(use, None)
    assert [step.waits for step in recorder.steps] == [(), (recorder.steps[0].action,), ()]


def test_an_action_can_contribute_to_a_later_event() -> None:
    recorder, op = Recorder("main", 0), Operation("tt.get_program_id", (), ("i32",))
    action = "copy"
    recorder.start(action)
    recorder.step(op, None)
    recorder.step(op, None)
    recorder.signal_when_landed(action, "phase")
    assert [step.signals for step in recorder.steps] == [("phase",), ()]


def test_a_muted_recorder_ignores_steps() -> None:
    recorder = Recorder("main", 0, muted=True)
    recorder.step(Operation("tt.get_program_id", (), ("i32",)), None)
    assert recorder.steps == []
