"""What the barrier check knows of a running program: values, and the protocol events of each partition.

Trace("partition0", [wait empty[0] 1, expect full[0], copy in a[0], …])
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.ir import Operation, Value
from tawa.verify.barriers.program.kernel import BarrierProgram, Memory, NotUnderstood


class NeedsNumber(Exception):
    """Control flow depends on a number read from memory: the caller chooses one for `key` and tries again."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Undefined(Exception):
    """Control flow depends on what the language leaves undefined, as a step of 0: the run does not count.

    taken: the assumption that excludes it.
    """

    def __init__(self, op: Operation, taken: str = "no division by zero") -> None:
        super().__init__(op.name)
        self.op = op
        self.taken = taken


class TooLong(Exception):
    """The run has more events and iterations than it was to have; `steps` are done."""

    def __init__(self, steps: int) -> None:
        super().__init__(f"more than {steps} iterations and events")
        self.steps = steps


@dataclass(frozen=True, slots=True)
class InFlight:
    """A tile that wgmma groups (by number, of the partition that holds it) may still write."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A scalar that is not known, and the operation that made it. `undefined`: though its operands were known."""

    op: Operation | None
    undefined: bool = False


Known = int | Memory | InFlight | Opaque | str | None
Environment = dict[Value, Known]


@dataclass(slots=True, eq=False)
class Event:
    """One protocol event. `amount`: arrivals, bytes, or groups that may stay in flight.

    descriptor: where the descriptor of a TMA copy lies, if the kernel makes it in a loop.
    """

    kind: str
    op: Operation
    memory: tuple[Memory, ...] = ()
    barrier: Memory | None = None
    amount: int = 0
    parity: int = 0
    descriptor: Memory | None = None


@dataclass(slots=True)
class Trace:
    """What one partition does. `issued`, `done`: wgmma groups so far, and of these the first that may be in flight.

    shortened: how often a loop was run with fewer trips than it has (`barrier_shortened`).
    """

    partition: str
    events: list[Event] = field(default_factory=list[Event])
    issued: int = 0
    done: int = 0
    shortened: int = 0


Segment = list[Trace]
"""Partitions that run side by side; one trace alone before the fork and behind the join."""

MAX_EVENTS = 50_000
"""The most events and iterations of one run."""


class Recorder:
    """Takes down the events of one run. `assumed`: what the program takes for granted; `broken`: and does not hold."""

    def __init__(self, program: BarrierProgram, limit: int = MAX_EVENTS) -> None:
        self.program = program
        self.limit = limit
        self.count = 0
        self.assumed: dict[Operation, None] = {}
        self.broken = False

    def emit(self, trace: Trace, event: Event) -> None:
        """Adds an event."""
        trace.events.append(event)
        self.tick(event.op)

    def tick(self, op: Operation) -> None:
        """Counts an event or an iteration; raises TooLong, or NotUnderstood where no run may have so many."""
        self.count += 1
        if self.count > self.limit:
            if self.limit < MAX_EVENTS:
                raise TooLong(self.count)
            raise NotUnderstood(f"more than {MAX_EVENTS} iterations and events in one run", op)


Signature = tuple[tuple[tuple[object, ...], ...], ...]


def signature(segments: list[Segment]) -> Signature:
    """What two unrollings with the same events have in common."""
    return tuple(
        tuple(
            (event.kind, event.op, event.memory, event.barrier, event.amount, event.parity, event.descriptor)
            for event in trace.events
        )
        for segment in segments
        for trace in segment
    )
