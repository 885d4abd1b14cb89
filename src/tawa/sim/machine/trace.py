"""What a partition did, without times: the input of the clock.

The machine executes in an order of its own (`machine`); a trace keeps only what any order has in common: the steps of
each partition, what each waits for and what it contributes to. `clock` turns it into times. So times do not depend on
when the machine let asynchronous work land, and one run can be timed under several cost models.

A `Key` names something that is complete at one moment: a phase of an mbarrier, a round of a slot, an asynchronous
action, the start or the end of partitions. It is complete when the last of its contributions is done; what has no
contribution is complete from the start (the phase before the first, which a fresh barrier lets pass).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from tawa.ir import Operation, Value
from tawa.remarks import SourceLocation

Key = Hashable


@dataclass(frozen=True, slots=True)
class Step:
    """One executed operation; `op` is None where a partition starts, ends, or waits for others to end.

    waits: complete before it goes on; its own `action` among them: it waits for what it started.
    signals: what it contributes to, when done or, if it started an action, when that has landed.
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
    """The steps of one partition; `agent` is that of the warps that execute it. `muted`: inside a put's loads."""

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
        """The operation under way waits for `key`."""
        self._waits.append(key)

    def signal(self, key: Key) -> None:
        """The operation under way contributes to `key`."""
        self._signals.append(key)

    def start(self, action: Key) -> None:
        """The operation under way starts asynchronous work."""
        self._action = action

    def signal_when_landed(self, action: Key, key: Key) -> None:
        """What an operation of before started contributes to `key` when it has landed."""
        place = next(at for at in reversed(range(len(self.steps))) if self.steps[at].action is action)
        step = self.steps[place]
        self.steps[place] = replace(step, signals=(*step.signals, key))

    def name_target(self, target: str, slot: int | None) -> None:
        """What the operation under way works on."""
        self._target, self._slot = target, slot

    def step(self, op: Operation, location: SourceLocation | None, *, later: bool = False) -> None:
        """The operation is over. later: it goes on by itself, and the first use of its results waits for it."""
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
        """A point that takes no time: a start, an end."""
        self.steps.append(Step(None, waits, signals, None, "", None, None))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One CTA's run: a recorder a partition, in the order in which they were started."""

    program: tuple[int, int, int]
    partitions: tuple[Recorder, ...]
