"""Untimed traces of partitions: the input of the clock.

A trace records only what is independent of the execution order of the machine: the steps of each partition, the events
that each step waits for, and the events that it contributes to. `clock` computes times from it. Times therefore do not
depend on when the machine let asynchronous work land, and one run can be timed under several cost models.

A `Key` identifies such an event: completion of an mbarrier phase, of a round of a slot, or of an asynchronous action,
and the start or end of partitions. An event completes with its last contribution; an event without contributions is
complete from the start (for example the phase preceding phase 0, for which waits on a fresh barrier pass).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from tawa.ir import Operation, Value
from tawa.remarks import SourceLocation

Key = Hashable


@dataclass(frozen=True, slots=True)
class Step:
    """One executed operation; `op` is None for the start and end of a partition and for a join.

    waits: events that must complete before the partition continues. If `action` is among them, the operation is
    synchronous: it waits for the work that it started.
    signals: events that the step contributes to, on completion or, if it started an action, when the action lands.
    target, slot: the barrier, ring or buffer.
    """

    op: Operation | None
    waits: tuple[Key, ...]
    signals: tuple[Key, ...]
    action: Key | None
    target: str
    slot: int | None
    location: SourceLocation | None


@dataclass(slots=True, eq=False)
class Recorder:
    """Records the steps of one partition. agent: the warps that execute it. muted: ignores steps (loads of a put)."""

    name: str
    agent: int
    steps: list[Step] = field(default_factory=list[Step])
    muted: bool = False
    _waits: list[Key] = field(default_factory=list[Key])
    _signals: list[Key] = field(default_factory=list[Key])
    _action: Key | None = None
    _target: str = ""
    _slot: int | None = None
    _loads: dict[Value, Key] = field(default_factory=dict[Value, Key])

    def wait(self, key: Key) -> None:
        """The current operation waits for `key`."""
        self._waits.append(key)

    def signal(self, key: Key) -> None:
        """The current operation contributes to `key`."""
        self._signals.append(key)

    def start(self, action: Key) -> None:
        """The current operation starts an asynchronous action."""
        self._action = action

    def signal_when_landed(self, action: Key, key: Key) -> None:
        """An action that an earlier step started contributes to `key` when it lands."""
        place = next(at for at in reversed(range(len(self.steps))) if self.steps[at].action is action)
        step = self.steps[place]
        self.steps[place] = replace(step, signals=(*step.signals, key))

    def place(self) -> Place:
        """The current operation, for a signal that is known later."""
        return Place(self, len(self.steps))

    def name_target(self, target: str, slot: int | None) -> None:
        """Sets the barrier, ring or buffer of the current operation."""
        self._target, self._slot = target, slot

    def step(self, op: Operation, location: SourceLocation | None, *, later: bool = False) -> None:
        """Ends the current operation. later: it is asynchronous, and the first use of its results waits for it."""
        if self.muted:
            return
        if self._loads:
            self._waits += [self._loads.pop(value) for value in op.operands if value in self._loads]
        if later:
            self._action = (op, len(self.steps))
            self._loads.update((value, self._action) for value in op.results)
        self.steps.append(
            Step(op, tuple(self._waits), tuple(self._signals), self._action, self._target, self._slot, location)
        )
        self._waits.clear()
        self._signals.clear()
        self._action, self._target, self._slot = None, "", None

    def mark(self, waits: tuple[Key, ...] = (), signals: tuple[Key, ...] = ()) -> None:
        """Records a step that takes no time: a start, an end or a join."""
        self.steps.append(Step(None, waits, signals, None, "", None, None))


@dataclass(frozen=True, slots=True)
class Place:
    """An operation among the steps of a partition."""

    recorder: Recorder
    number: int

    def signal(self, key: Key) -> None:
        """The operation contributes to `key`, on completion or when its action lands."""
        steps = self.recorder.steps
        if self.number == len(steps):
            self.recorder.signal(key)
        else:
            steps[self.number] = replace(steps[self.number], signals=(*steps[self.number].signals, key))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The trace of one CTA: one recorder per partition, in the order of their start."""

    program: tuple[int, int, int]
    partitions: tuple[Recorder, ...]
