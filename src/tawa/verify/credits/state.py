"""What a run of the skeleton is made of: rings, partitions and the loops they are in; and how a run stops early."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tawa.ir import Operation
from tawa.verify.credits.skeleton import Part, Term
from tawa.verify.verdict import FaultKind

Role = Literal["end", "start", "step", "flag"]
"""What a number is that a run needs: one end of a loop whose other end and step are known, a condition, …"""


class NeedError(Exception):
    """The run cannot go on without a number for `term`."""

    def __init__(
        self, term: Term, role: Role = "end", *, lower: int = 0, step: int = 1, loop: Operation | None = None
    ) -> None:
        super().__init__(term.name)
        self.term = term
        self.role: Role = role
        self.loop = loop
        self.range = lower, step  # of an end: the other end, and towards this one; of a step: how far it is to the end


class ImpossibleError(Exception):
    """No run has these numbers: the assumption that the kernel states at `op`, or the loop there with such a `step`."""

    def __init__(self, op: Operation | None, *, step: bool = False) -> None:
        super().__init__("excluded by an assumption")
        self.op = op
        self.step = step


class FaultError(Exception):
    """The run goes wrong at `op` in `part`."""

    def __init__(self, kind: FaultKind, message: str, part: int, op: Operation | None) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.part = part
        self.op = op


@dataclass(slots=True)
class Event:
    """What happened: partition, action, ring, count."""

    part: int
    action: str
    ring: int
    count: int
    op: Operation | None


@dataclass(slots=True)
class Channel:
    """A ring in a run: how many puts and gets there were, and which counts each reader has given back."""

    depth: int
    readers: int
    puts: int = 0
    gets: list[int] = field(default_factory=list[int])
    released: list[set[int]] = field(default_factory=list[set[int]])
    borrowed: list[list[int]] = field(default_factory=list[list[int]])


class Frame:
    """A loop that a partition is in."""

    __slots__ = ("index", "loop", "lower", "recurs", "seen", "step", "trips")

    def __init__(self, loop: int, trips: int, lower: Any = None, step: Any = None) -> None:
        self.loop = loop
        self.index = 0
        self.trips = trips
        self.lower = lower
        self.step = step
        self.recurs = 0  # bit d: a state came again d iterations later
        self.seen: dict[Any, list[int]] = {}  # the states in its iterations, where the leader records them


class Thread:
    """A partition in a run."""

    __slots__ = ("flight", "frames", "part", "pc", "waits")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.pc = 0
        self.frames: list[Frame] = []
        self.flight: list[frozenset[tuple[int, int]]] = []
        self.waits: tuple[str, int, int] | None = None  # "put" or "get", ring, count


def copied(channel: Channel) -> Channel:
    """A copy that has forgotten releases which no put waits for any more."""
    oldest = channel.puts - channel.depth
    return Channel(
        channel.depth,
        channel.readers,
        channel.puts,
        list(channel.gets),
        [{count for count in it if count >= oldest} for it in channel.released],
        [list(it) for it in channel.borrowed],
    )
