"""Named barriers in a run: ``bar.sync``, ``bar.arrive``.

    a rendezvous   is complete when as many threads have arrived as its instructions name, and then begins anew
    bar.sync       arrives with all threads of the partition, and waits until the rendezvous is complete
    bar.arrive     arrives, and goes on

What precedes an arrival precedes the completion, and so what follows the wait. One run represents all if each arrival
happens after the completion of the rendezvous before its own: otherwise it may count for that one. A partition that
arrives twice counts twice, as on the hardware, which counts warps. Unlike with an mbarrier, the past of one warp's
arrival does not include the arrivals of the other warps, so a completion is known only to those who waited for it,
directly or through others.

Source: PTX ISA, "bar, barrier"; "Memory Consistency Model: Synchronizes-with" (an arrival synchronizes with the waits
that it completes).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.verify.barriers.program.kernel import Memory
from tawa.verify.barriers.run.events import Event
from tawa.verify.barriers.run.history import History, HistoryStep, Thread


@dataclass(slots=True)
class _Named:
    """One barrier. `count`: threads of the current rendezvous; `arrived`: those that are there, of `parties`.

    done: the bits of the completions; masks: the causal past of each.
    """

    count: int = 0
    arrived: int = 0
    mask: int = 0
    parties: list[str] = field(default_factory=list[str])
    done: list[int] = field(default_factory=list[int])
    masks: list[int] = field(default_factory=list[int])


class NamedBarriers:
    """The named barriers of one run."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.barriers: dict[Memory, _Named] = {}
        self.meeting: dict[tuple[str, Memory], int] = {}  # the rendezvous at which a partition arrived last

    def arrive(self, thread: Thread, event: Event) -> None:
        """Adds the threads of a partition; completes the rendezvous if all are there."""
        key = _key(event)
        named, mask, who = (
            self.barriers.setdefault(key, _Named()),
            self.history.add(thread, event),
            thread.trace.partition,
        )
        name = self.history.name(key)
        if named.done and not mask & named.done[-1]:
            message = (
                f"{who} may arrive at {name} before its previous rendezvous is complete, and then counts for that one "
                f"({named.count} threads)"
            )
            raise self.history.fault("arrive count", message, mask | named.masks[-1])
        if not named.arrived:
            named.count = event.of
        if event.of != named.count:
            others = " and ".join(dict.fromkeys(named.parties))
            message = f"{who} arrives at {name} for {event.of} threads, and {others} for {named.count}"
            raise self.history.fault("arrive count", message, mask | named.mask)
        named.arrived += event.amount
        named.mask |= mask
        if named.arrived > named.count:
            message = f"{named.arrived} threads arrive at {name}, which is for {named.count}"
            raise self.history.fault("arrive count", message, named.mask)
        named.parties.append(who)
        self.meeting[who, key] = len(named.done)
        if named.arrived == named.count:
            self.history.steps.append(HistoryStep("barrier", "is complete", None, key))
            named.done.append(self.history.bit)
            named.masks.append(named.mask | self.history.bit)
            named.arrived, named.mask = 0, 0
            named.parties.clear()

    def wait(self, thread: Thread, event: Event) -> bool:
        """Passes when the rendezvous at which the partition arrived is complete."""
        key = _key(event)
        named, place = self.barriers[key], self.meeting[thread.trace.partition, key]
        if place >= len(named.done):
            return False
        thread.mask |= named.masks[place]
        self.history.add(thread, event)
        return True

    def past(self, key: Memory) -> int:
        """The causal past of the threads that are there."""
        return self.barriers[key].mask

    def lacks(self, key: Memory) -> str:
        """Which barrier, and who is missing: ``named barrier 8, which has 128 of 256 threads``."""
        named = self.barriers[key]
        return f"{self.history.name(key)}, which has {named.arrived} of {named.count} threads"


def _key(event: Event) -> Memory:
    assert event.barrier is not None
    return event.barrier
