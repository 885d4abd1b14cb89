"""The steps of a run in the order in which they happen, and the fault that ends it.

A set of steps is a bit mask over their numbers; the set that belongs to a fault is its causal past.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tawa.verify.barriers.program.kernel import BarrierProgram, Memory
from tawa.verify.barriers.run.events import Event, Trace
from tawa.verify.verdict import FaultKind


@dataclass(frozen=True, slots=True)
class Happening:
    """A step of a run: an event of a partition, or a completion (`event` is then what completes, or None)."""

    partition: str
    action: str
    event: Event | None = None
    target: Memory | None = None
    parity: int | None = None


class Fault(Exception):
    """The run goes wrong: `steps` lead there, the last one is the fault itself."""

    def __init__(self, kind: FaultKind, message: str, steps: tuple[Happening, ...]) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.steps = steps


class History:
    """The steps so far."""

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program
        self.steps: list[Happening] = []

    @property
    def bit(self) -> int:
        """The bit of the latest step."""
        return 1 << (len(self.steps) - 1)

    def add(self, thread: Thread, event: Event) -> int:
        """Records a step of a partition; everything up to and including it."""
        target = event.memory[0] if event.memory else event.barrier
        parity = event.parity if event.kind == "wait" else None
        self.steps.append(Happening(thread.trace.partition, event.kind, event, target, parity))
        thread.mask |= self.bit
        return thread.mask

    def fault(self, kind: FaultKind, message: str, mask: int, *last: Happening) -> Fault:
        """The shortest run that leads there: what must have happened, in the order in which it did.

        How barriers are made is left out where it is not what is wrong.
        """
        steps = [step for number, step in enumerate(self.steps) if mask >> number & 1]
        if kind not in ("barrier lifecycle", "arrive count"):
            steps = [step for step in steps if step.action != "init"] or steps
        return Fault(kind, message, (*steps, *last))

    def name(self, memory: Memory) -> str:
        """``ring0_full[1]``."""
        slots = "".join(f"[{slot}]" for slot in memory.path)
        return f"{self.program.name_of(memory)}{slots}"


@dataclass(slots=True, eq=False)
class Access:
    """A read or write of shared memory. `start`, `end`: bits of the steps between which it lasts; end 0 is open."""

    start: int
    end: int
    event: Event
    partition: str
    asynchronous: bool
    begun: int  # what had happened when it began, itself included
    fence: int = 0  # a generic write: the bits of the proxy fences behind it, each enough for who knows of it


@dataclass(slots=True)
class Thread:
    """One partition as it runs."""

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
        """Whether nothing is left to do."""
        return self.next == len(self.trace.events)


_SPELLED = {"dot": "a wgmma", "copy in": "a TMA copy", "copy out": "a TMA store", "cp.async": "a cp.async"}


def spell(event: Event) -> str:
    """What people call an event."""
    return _SPELLED.get(event.kind, event.op.name)
