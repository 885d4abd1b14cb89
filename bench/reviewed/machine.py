"""Shared memory, mbarriers and clocks of one program, as the interpreter of `bench.reviewed.interpreter` sees them.

A vector clock has one entry for each partition and for each mbarrier (its completed phases), and one for the wgmmas,
the TMA stores and the cp.async of each partition. An access is ordered before a point in time if the clock of that
point has reached the entry that the access ends with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tawa.ir import MemDescType, Operation, parse_type

Clock = dict[str, int]
Interval = tuple[int, int]
NEVER = 1 << 60
_INTEGER = re.compile(r"(?:dense<)?(-?\d+|true|false)>?(?: :.*)?\Z")
_FLOAT = re.compile(r"(?:dense<)?(-?\d[\d.]*e[+-]?\d+|-?\d+\.\d*)>?(?: :.*)?\Z")
_BITS = re.compile(r"(\d+)")


class Wrong(Exception):
    """What goes wrong in a run."""


class NotModelled(Exception):
    """The program uses something that the interpreter does not know."""


def join(into: Clock, other: Clock) -> None:
    """Adds to a clock what another one has reached."""
    for name, reached in other.items():
        if into.get(name, 0) < reached:
            into[name] = reached


@dataclass(eq=False)
class Access:
    """A read or a write of some bytes. ends: alternatives, of which one is enough to be ordered before a clock."""

    who: str
    writes: bool
    generic: bool
    where: tuple[Interval, ...]
    ends: list[tuple[str, int]]
    fenced: bool = False

    def before(self, clock: Clock) -> bool:
        """Whether everyone with this clock comes after the access."""
        return any(clock.get(name, 0) >= reached for name, reached in self.ends)

    def overlaps(self, other: Access) -> bool:
        """Whether the accesses have bytes in common."""
        mine, theirs = self.where, other.where  # both are sorted
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if mine[i][0] < theirs[j][1] and theirs[j][0] < mine[i][1]:
                return True
            if mine[i][1] <= theirs[j][1]:
                i += 1
            else:
                j += 1
        return False


@dataclass(eq=False)
class Memory:
    """One allocation, or one descriptor in global memory. values: numbers that are stored in it, by first byte."""

    name: str
    accesses: list[Access] = field(default_factory=list[Access])
    values: dict[int, object] = field(default_factory=dict[int, object])

    def access(self, new: Access, clock: Clock) -> Access:
        """Adds an access; Wrong if it races with an earlier one, or misses a fence."""
        kept: list[Access] = []
        for old in self.accesses:
            if old.where is not new.where and old.where != new.where and not old.overlaps(new):
                kept.append(old)
                continue
            if (old.writes or new.writes) and not old.before(clock):
                raise Wrong(f"race on {self.name}: {new.who} and {old.who}")
            if old.writes and old.generic and not new.generic and not old.fenced:
                raise Wrong(f"no fence on {self.name} between {old.who} and {new.who}")
            replaced = new.where == old.where and (new.writes or (not old.writes and _same_end(old, new)))
            if not replaced:
                kept.append(old)
        self.accesses = [*kept, new]
        return new


def _same_end(old: Access, new: Access) -> bool:
    return len(old.ends) == len(new.ends) == 1 and old.ends[0][0] == new.ends[0][0]


@dataclass(frozen=True)
class View:
    """Bytes of an allocation."""

    memory: Memory
    where: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class InFlight:
    """An accumulator that a wgmma writes, until the partition's clock reaches `end`."""

    end: tuple[str, int]


@dataclass(eq=False)
class Barrier:
    """An mbarrier. phase: how many phases are complete; arrived: the clock of the arrivals in the phase that runs."""

    name: str
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0
    arrived: Clock = field(default_factory=Clock)
    done: Clock = field(default_factory=Clock)

    def arrive(self, count: int, clock: Clock, size: int = 0) -> None:
        """Some arrivals, and the bytes that they announce."""
        if count > self.pending:
            raise Wrong(f"{self.name} gets more arrivals than it counts")
        self.pending -= count
        self.bytes += size
        join(self.arrived, clock)
        self._complete()

    def land(self, size: int, clock: Clock) -> int:
        """The bytes of a copy are there. Returns the phase with which they become visible."""
        with_phase = self.phase + 1
        self.bytes -= size
        join(self.arrived, clock)
        self._complete()
        return with_phase

    def passes(self, parity: int) -> bool:
        """Whether a wait for this parity is over."""
        return self.phase & 1 != parity & 1

    def _complete(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count
            join(self.done, self.arrived)
            self.done[self.name] = self.phase
            self.arrived = {}


@dataclass(eq=False)
class Landing:
    """A copy in flight. group: of a cp.async, the partition and the number of its group."""

    barrier: Barrier | None
    size: int
    clock: Clock
    access: Access | None
    arrivals: int = 0

    def land(self) -> None:
        """The copy is done."""
        assert self.barrier is not None
        if self.arrivals:
            self.barrier.arrive(self.arrivals, self.clock)
            return
        phase = self.barrier.land(self.size, self.clock)
        if self.access is not None:
            self.access.ends[0] = (self.barrier.name, phase)


@dataclass(eq=False)
class Partition:
    """One sequence of operations: its clock, and how many asynchronous operations of each kind it has issued."""

    name: str
    clock: Clock
    threads: int
    steps: Iterator[object] = field(default_factory=lambda: iter(()))
    waits: tuple[Barrier | Ends, int] | None = None
    over: bool = False
    issued: dict[str, int] = field(default_factory=dict[str, int])
    copies: list[Access] = field(default_factory=list[Access])

    def able(self) -> bool:
        """Whether it is not over, and does not wait."""
        return not self.over and (self.waits is None or self.waits[0].passes(self.waits[1]))

    def tick(self) -> int:
        """The next entry of its own in the clock."""
        self.clock[self.name] = self.clock.get(self.name, 0) + 1
        return self.clock[self.name]

    def issue(self, kind: str) -> tuple[str, int]:
        """One more asynchronous operation: what its end looks like in a clock."""
        self.issued[kind] = self.issued.get(kind, 0) + 1
        return f"{kind} of {self.name}", self.issued[kind]

    def settle(self, kind: str, pending: int) -> None:
        """Waits until at most `pending` operations of a kind are in flight."""
        done = self.issued.get(kind, 0) - pending
        name = f"{kind} of {self.name}"
        self.clock[name] = max(self.clock.get(name, 0), done)


@dataclass(eq=False)
class Ends:
    """The end of all partitions of a fork, for which the default partition waits as for an mbarrier."""

    partitions: list[Partition]
    name: str = "the end of the fork"

    @property
    def done(self) -> Clock:
        """The clock of those that are over."""
        found: Clock = {}
        for it in self.partitions:
            join(found, it.clock)
        return found

    def passes(self, parity: int) -> bool:
        """Whether all are over."""
        return all(it.over for it in self.partitions)


# -- types and constants -----------------------------------------------------------------------------------------------


def element_bits(element: str) -> int:
    """The bits of an element: of ``f8E5M2``, 8."""
    found = _BITS.search(element)
    return int(found[1]) if found else 64


def tile_bytes(type: str) -> int:
    """The bytes of a buffer."""
    parsed = parse_type(type)
    assert isinstance(parsed, MemDescType)
    size = element_bits(parsed.element)
    for dim in parsed.shape:
        size *= dim
    return size // 8


def constant_of(op: Operation) -> Any:
    """The value of a constant that is one number."""
    text = op.properties["value"]
    if found := _INTEGER.match(text):
        return {"true": 1, "false": 0}.get(found[1]) if found[1] in ("true", "false") else int(found[1])
    return float(found[1]) if (found := _FLOAT.match(text)) else None
