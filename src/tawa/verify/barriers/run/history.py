"""The steps of a run in execution order, and the fault that ends it.

A set of steps is a bit mask over their numbers. A fault carries its causal past.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tawa.verify.barriers.program.kernel import NAMED, BarrierProgram, Memory
from tawa.verify.barriers.run.events import Event, Trace
from tawa.verify.verdict import FaultKind


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A step of a run: an event of a partition, or a completion (then `event` is what completes, or None)."""

    partition: str
    action: str
    event: Event | None = None
    target: Memory | None = None
    parity: int | None = None


class Fault(Exception):
    """The run violates the protocol at the last of `steps`; the others lead there."""

    def __init__(self, kind: FaultKind, message: str, steps: tuple[HistoryStep, ...]) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.steps = steps


class History:
    """The steps so far."""

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program
        self.steps: list[HistoryStep] = []

    @property
    def bit(self) -> int:
        """The bit of the latest step."""
        return 1 << (len(self.steps) - 1)

    def add(self, thread: Thread, event: Event) -> int:
        """Records a step of a partition; returns its causal past, including itself."""
        target = event.memory[0] if event.memory else event.barrier
        parity = event.parity if event.kind == "wait" else None
        self.steps.append(HistoryStep(thread.trace.partition, event.kind, event, target, parity))
        thread.mask |= self.bit
        return thread.mask

    def fault(self, kind: FaultKind, message: str, mask: int, *last: HistoryStep) -> Fault:
        """The fault with the shortest run that leads to it: the steps in `mask`, in execution order, and `last`.

        Omits the initialisation of barriers, unless the fault may lie there.
        """
        steps = [step for number, step in enumerate(self.steps) if mask >> number & 1]
        if kind not in ("barrier lifecycle", "arrive count"):
            steps = [step for step in steps if step.action != "init"] or steps
        return Fault(kind, message, (*steps, *last))

    def require_inside(self, event: Event, memory: Memory, mask: int, *last: HistoryStep) -> None:
        """Raises Fault for a slot that does not exist."""
        if (found := self.program.beyond(memory)) is not None:
            slots = "1 slot" if found[1] == 1 else f"{found[1]} slots"
            message = (
                f"{event_name(event)} accesses slot {found[0]} of {self.program.name_of(memory)}, which has {slots}"
            )
            raise self.fault("out of bounds", message, mask, *last)

    def name(self, memory: Memory) -> str:
        """The name of a piece of memory: ``ring0_full[1]``; of a named barrier, its number."""
        if memory.alloc == NAMED:
            return f"{self.program.name_of(memory)} {memory.path[0]}"
        slots = "".join(f"[{slot}]" for slot in memory.path)
        return f"{self.program.name_of(memory)}{slots}"


@dataclass(slots=True, eq=False)
class Access:
    """A read or write of shared memory between the steps `start` and `end` (bits); it is in flight while end is 0."""

    start: int
    end: int
    event: Event
    partition: str
    asynchronous: bool
    begun: int  # the causal past of `start`, itself included
    fence: int = 0  # the bits of the proxy fences after a generic access; one of them in the past of an access suffices


@dataclass(slots=True)
class Thread:
    """The state of one partition: its causal past (`mask`), next event, and asynchronous accesses in flight."""

    trace: Trace
    mask: int
    next: int = 0
    groups: deque[list[Access]] = field(default_factory=deque[list[Access]])
    stores: deque[list[Access]] = field(default_factory=deque[list[Access]])
    copies: deque[list[Access]] = field(default_factory=deque[list[Access]])
    uncommitted: list[Access] = field(default_factory=list[Access])
    unfenced: list[Access] = field(default_factory=list[Access])

    @property
    def finished(self) -> bool:
        """Whether all events were executed."""
        return self.next == len(self.trace.events)


_EVENT_NAMES = {
    "dot": "a wgmma", "copy in": "a TMA copy", "copy out": "a TMA store", "cp.async": "a cp.async", "wait": "a wait",
    "arrive": "an arrival", "expect": "an expect", "init": "an init",
}  # fmt: skip


def event_name(event: Event) -> str:
    """The name of an event in messages."""
    return _EVENT_NAMES.get(event.kind, event.op.name)
