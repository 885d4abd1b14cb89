"""The state of a run of the skeleton (rings, partitions, active loops), and the exceptions that stop a run early."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tawa.ir import Operation
from tawa.verify.run.events import Event as RunEvent
from tawa.verify.run.history import HistoryStep
from tawa.verify.skeleton.program import Part, Term
from tawa.verify.verdict import FaultKind

Role = Literal["end", "start", "step", "flag"]
"""The use of an unknown: one bound of a loop whose other bound and step are known, a step, or a condition."""


class NeedError(Exception):
    """The run cannot continue until `term` has a number."""

    def __init__(self, term: Term, role: Role = "end", *, lower: int = 0, step: int = 1) -> None:
        super().__init__(term.name)
        self.term = term
        self.role: Role = role
        # role end: the other bound, and the step towards this one; role step: the distance between the bounds
        self.range = lower, step


class ImpossibleError(Exception):
    """These numbers are infeasible: they violate the assumption at `op`, or (`step`) its loop has a step below 1."""

    def __init__(self, op: Operation | None, *, step: bool = False) -> None:
        super().__init__("excluded by an assumption")
        self.op = op
        self.step = step


class TooLongError(Exception):
    """The run was given up: it is neither right nor wrong."""


class FaultError(Exception):
    """The run violates the protocol at `op` in `part`. steps: that lead there, at the barrier level."""

    def __init__(
        self, kind: FaultKind, message: str, part: int, op: Operation | None, steps: tuple[HistoryStep, ...] = ()
    ) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.part = part
        self.op = op
        self.steps = steps


@dataclass(slots=True)
class Event:
    """One event of a run: partition, action, ring, count."""

    part: int
    action: str
    ring: int
    count: int
    op: Operation | None


@dataclass(slots=True)
class Channel:
    """A ring in a run: the number of puts and gets so far, and the counts that each reader borrows and has released.

    held: whether the writer has acquired the next slot.
    """

    depth: int
    readers: int
    puts: int = 0
    gets: list[int] = field(default_factory=list[int])
    released: list[set[int]] = field(default_factory=list[set[int]])
    borrowed: list[list[int]] = field(default_factory=list[list[int]])
    numbers: dict[int, Any] = field(default_factory=dict[int, Any])
    """By count: the number in a slot, or where it was put (`tawa.verify.free.proof`)."""
    held: bool = False


class Frame:
    """An active loop of a partition."""

    __slots__ = ("index", "lower", "step", "trips")

    def __init__(self, trips: int, lower: Any = None, step: Any = None) -> None:
        self.index = 0
        self.trips = trips
        self.lower = lower
        self.step = step


class Thread:
    """A partition in a run."""

    __slots__ = ("blocked", "flight", "frames", "part", "pc", "waits")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.pc = 0
        self.frames: list[Frame] = []
        self.flight: list[frozenset[tuple[int, int]]] = []
        self.waits: tuple[str, int, int] | None = None  # "put" or "get", ring, count
        self.blocked: RunEvent | None = None  # the wait on a barrier that has not returned


def copied(channel: Channel) -> Channel:
    """A copy without the releases that no later put waits for, and the numbers of slots that were filled again."""
    oldest = channel.puts - channel.depth
    return Channel(
        channel.depth,
        channel.readers,
        channel.puts,
        list(channel.gets),
        [{count for count in it if count >= oldest} for it in channel.released],
        [list(it) for it in channel.borrowed],
        {count: it for count, it in channel.numbers.items() if count >= oldest},
        channel.held,
    )
