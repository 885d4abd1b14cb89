"""The state of an unrolled program: abstract values, and the protocol events of each partition.

Trace("partition0", [wait empty[0] 1, expect full[0], copy in a[0], …])
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.ir import Operation, Value
from tawa.verify.barriers.program.kernel import BarrierProgram, Memory, NotUnderstood


class NeedsNumber(Exception):
    """Control flow depends on the number `key`, which was not chosen: the caller chooses one and tries again."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Undefined(Exception):
    """Control flow depends on an undefined value, such as a division by zero: the run is excluded.

    taken: the assumption that excludes it.
    """

    def __init__(self, op: Operation, taken: str = "no division by zero") -> None:
        super().__init__(op.name)
        self.op = op
        self.taken = taken


class TooLong(Exception):
    """The run exceeds its limit of events and iterations; `steps` were made."""

    def __init__(self, steps: int) -> None:
        super().__init__(f"more than {steps} iterations and events")
        self.steps = steps


@dataclass(frozen=True, slots=True)
class InFlight:
    """A tile that wgmma groups of its partition, given by number, may still write."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class Opaque:
    """An unknown scalar, and the operation that made it. `undefined`: unknown although its operands are known."""

    op: Operation | None
    undefined: bool = False


Known = int | Memory | InFlight | Opaque | str | None
Environment = dict[Value, Known]


@dataclass(slots=True, eq=False)
class Event:
    """One protocol event. `amount`: arrivals, bytes, or groups that may stay in flight; of a named barrier, threads.

    descriptor: the memory of a TMA copy's descriptor, if the kernel creates it in a loop. number: of a number that
    crosses between partitions, its place among those stored to this memory (`run.numbers`); -1 for none.
    of: how many threads a named barrier waits for.
    """

    kind: str
    op: Operation
    memory: tuple[Memory, ...] = ()
    barrier: Memory | None = None
    amount: int = 0
    parity: int = 0
    descriptor: Memory | None = None
    number: int = -1
    of: int = 0


@dataclass(slots=True)
class Trace:
    """The events of one partition. `issued`: the number of wgmma groups; `done`: the first that may be in flight.

    shortened: how often a loop was run with fewer trips than it has (`program.shortened`).
    """

    partition: str
    events: list[Event] = field(default_factory=list[Event])
    issued: int = 0
    done: int = 0
    shortened: int = 0


Segment = list[Trace]
"""Concurrent partitions; a single trace before the fork and after the join."""

MAX_EVENTS = 50_000
"""The limit of events and iterations of one run."""


class Recorder:
    """Records the events of one run. `assumed`: the program's own assumptions; `broken`: one of them is violated."""

    def __init__(self, program: BarrierProgram, limit: int = MAX_EVENTS) -> None:
        self.program = program
        self.limit = limit
        self.count = 0
        self.assumed: dict[Operation, None] = {}
        self.broken = False

    def emit(self, trace: Trace, event: Event) -> None:
        """Appends an event."""
        trace.events.append(event)
        self.tick(event.op)

    def tick(self, op: Operation) -> None:
        """Counts an event or iteration; raises TooLong past `limit`, NotUnderstood past MAX_EVENTS."""
        self.count += 1
        if self.count > self.limit:
            if self.limit < MAX_EVENTS:
                raise TooLong(self.count)
            raise NotUnderstood(f"more than {MAX_EVENTS} iterations and events in one run", op)


Signature = tuple[tuple[tuple[object, ...], ...], ...]


def signature(segments: list[Segment]) -> Signature:
    """A key of the events: unrollings with the same events have equal keys."""
    return tuple(
        tuple(
            (event.kind, event.op, event.memory, event.barrier, event.amount, event.parity, event.descriptor, event.of)
            for event in trace.events
        )
        for segment in segments
        for trace in segment
    )
