"""Numbers that cross from one partition to another in shared memory, while partitions are unrolled one by one.

    partition0   local_store splat 7, %r[0]; arrive; local_store splat 9, %r[1]; …
    default      wait; unsplat(local_load %r[0])  →  7     wait; unsplat(local_load %r[1])  →  9

The partition that stores is unrolled first. A load gets the number of the store that it is expected to read: the first
visit of a partition to a slot reads the first number stored there, the second visit the second. A visit begins with a
load behind a wait. The run then checks that this is the last store before the load in every interleaving; if it is not,
the unrolling is not that of a real run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.verify.barriers.program.kernel import Memory
from tawa.verify.barriers.run.events import Known, Trace


@dataclass(slots=True)
class _Visit:
    """The last load of a partition from a slot. number: of the store that it reads. end: of the events before it."""

    number: int
    end: int


@dataclass(slots=True)
class Numbers:
    """The numbers stored so far, by slot, and where each partition has got to."""

    sent: dict[Memory, list[Known]] = field(default_factory=dict[Memory, list[Known]])
    visits: dict[tuple[str, Memory], _Visit] = field(default_factory=dict[tuple[str, Memory], _Visit])

    def send(self, memory: Memory, number: Known) -> int:
        """Records a store; returns its place among those to this slot."""
        stores = self.sent.setdefault(memory, [])
        stores.append(number)
        return len(stores) - 1

    def receive(self, trace: Trace, memory: Memory) -> tuple[int, Known]:
        """The store that a load, the next event of a partition, reads: its place among those to this slot, its number.

        The number is None if there is no such store.
        """
        key, end = (trace.partition, memory), len(trace.events)
        last = self.visits.get(key)
        again = last is not None and not any(event.kind in ("wait", "get") for event in trace.events[last.end :])
        place = 0 if last is None else last.number + (not again)
        self.visits[key] = _Visit(place, end)
        stores = self.sent.get(memory, [])
        return place, stores[place] if place < len(stores) else None


__all__ = ["Numbers"]
