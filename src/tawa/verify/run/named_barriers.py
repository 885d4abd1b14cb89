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

from dataclasses import dataclass, field, replace

from tawa.verify.run.events import Event
from tawa.verify.run.history import History
from tawa.verify.run.memory import Actor
from tawa.verify.run.places import Place


@dataclass(slots=True)
class Named:
    """One barrier. `count`: threads of the current rendezvous; `arrived`: those that are there, of `parties`.

    complete: how many rendezvous are complete; done: the bit of the last completion, `past` its causal past.
    """

    count: int = 0
    arrived: int = 0
    mask: int = 0
    parties: tuple[str, ...] = ()
    complete: int = 0
    done: int = 1
    past: int = 0


@dataclass(slots=True)
class NamedBarriers:
    """The named barriers of one run. meeting: by partition, the rendezvous at which it arrived last."""

    history: History
    barriers: dict[Place, Named] = field(default_factory=dict[Place, Named])
    meeting: dict[tuple[int, Place], int] = field(default_factory=dict[tuple[int, Place], int])

    def copy(self, history: History) -> NamedBarriers:
        """An independent copy."""
        return NamedBarriers(history, {key: replace(it) for key, it in self.barriers.items()}, dict(self.meeting))

    def arrive(self, actor: Actor, event: Event, mask: int) -> None:
        """Adds the threads of a partition; completes the rendezvous if all are there."""
        key, who = event.key, actor.name
        named, name = self.barriers.setdefault(key, Named()), self.history.name(event.key)
        if not mask & named.done:
            message = (
                f"{who} may arrive at {name} before its previous rendezvous is complete, and then counts for that one "
                f"({named.count} threads)"
            )
            raise self.history.fault("arrive count", message, mask | named.past)
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
        named.parties = (*named.parties, who)
        self.meeting[actor.number, key] = named.complete
        if named.arrived == named.count:
            named.done = self.history.note("barrier", "is complete", None, key, None)
            named.past = named.mask | named.done
            named.complete += 1
            named.arrived, named.mask, named.parties = 0, 0, ()

    def wait(self, actor: Actor, event: Event) -> bool:
        """Passes when the rendezvous at which the partition arrived is complete."""
        key = event.key
        named, place = self.barriers[key], self.meeting[actor.number, key]
        if place >= named.complete:
            return False
        if place == named.complete - 1:
            actor.mask |= named.past
        return True

    def lacks(self, key: Place) -> str:
        """Which barrier, and who is missing: ``named barrier 8, which has 128 of 256 threads``."""
        named = self.barriers[key]
        return f"{self.history.name(key)}, which has {named.arrived} of {named.count} threads"
