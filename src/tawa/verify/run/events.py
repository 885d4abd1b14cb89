"""The protocol events of a run, and the templates that they are made from.

Act("wait", barrier=register 3, parity=register 5)     Event("wait", full[1], parity 0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tawa.ir import Operation
from tawa.verify.run.places import NAMED, Place


@dataclass(slots=True, eq=False)
class Event:
    """One protocol event. `amount`: arrivals, bytes, or groups that may stay in flight; of a named barrier, threads.

    descriptor: the memory of a TMA copy's descriptor, if the kernel writes it. number: of a number that crosses between
    partitions, what identifies the execution that stored it. of: how many threads a named barrier waits for.
    """

    kind: str
    op: Operation
    memory: tuple[Place, ...] = ()
    barrier: Place | None = None
    amount: int = 0
    parity: int = 0
    descriptor: Place | None = None
    number: Any = None
    of: int = 0

    @property
    def key(self) -> Place:
        """The barrier of an event on one."""
        assert self.barrier is not None
        return self.barrier.place


@dataclass(slots=True, eq=False)
class Act:
    """An operation of the protocol: an event whose places and numbers are in registers; -1 for none.

    number: the register of a number that a store puts into memory, or that a load takes out of it; takes: it is a load.
    threads: the register of `of`. uses: registers of tiles that no dot may still write. tile: of a dot, the register of
    its accumulator; tiles: of a wait for dots, of the tiles that it returns, each with the register of the result.
    """

    kind: str
    op: Operation
    memory: tuple[int, ...] = ()
    barrier: int = -1
    parity: int = -1
    descriptor: int = -1
    amount: int = 0
    of: int = 0
    threads: int = -1
    number: int = -1
    takes: bool = False
    uses: tuple[int, ...] = ()
    tile: int = -1
    result: int = -1
    tiles: tuple[tuple[int, int], ...] = ()
    reads: tuple[int, ...] = ()
    """The registers that the event itself depends on, in the order of `made`."""
    check: Callable[[Operation, int, int], str] | None = None
    """Of a named barrier: the kind of event for its number and threads; raises NotUnderstood."""
    made: dict[tuple[Any, ...], Event] = field(default_factory=dict[tuple[Any, ...], Event])

    @property
    def inputs(self) -> tuple[int, ...]:
        """All registers that it reads."""
        number = () if self.takes else (self.number,)
        return (*self.reads, *self.uses, self.tile, *number, *(tile for tile, _ in self.tiles))

    def event(self, values: tuple[Any, ...], number: Any = None) -> Event:
        """The event for the values of the registers in `reads`."""
        found = self.made.get(values) if number is None else None
        if found is None:
            known = dict(zip(self.reads, values, strict=True))
            barrier, descriptor, kind = known.get(self.barrier), known.get(self.descriptor), self.kind
            of = known[self.threads] if self.threads >= 0 else self.of
            if self.check is not None:
                named: int = known[self.barrier]
                kind, barrier = self.check(self.op, named, of), Place(NAMED, (named,))
            found = Event(
                kind,
                self.op,
                tuple([known[it] for it in self.memory]),
                barrier,
                self.amount,
                known[self.parity] & 1 if self.parity >= 0 else 0,
                descriptor if isinstance(descriptor, Place) else None,
                number,
                of,
            )
            if number is None:
                self.made[values] = found
        return found


@dataclass(frozen=True, slots=True)
class InFlight:
    """A tile that asynchronous dots of its partition, given by number, may still write."""

    groups: frozenset[int]
