"""The state of a run that all continuations depend on.

    full[1]: 1 arrival pending, phase 4 complete, which the producer does not know

A completion, an access or a fence is *settled* if every partition that may still access that memory has it in its
past: no later check can fail on it. Settled facts are left out, and the others numbered anew in the order of the
memory. Of counts, only parities and differences remain. Hence the state of a correct protocol recurs.

The state is a key; for each fact that is not settled, who lacks it; and which memory was written. Of two states with
one key, the one that lacks more, and in which less was written, *covers* the other: every check asks whether something
is known or was written, so if no continuation of the first has a fault, none of the second has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tawa.verify.run.happens_before import Barrier, Order
from tawa.verify.run.memory import Access, Actor, Region
from tawa.verify.run.places import Place
from tawa.verify.run.state import TooLongError

Lacks = dict[tuple[Any, ...], int]
"""By fact that is not settled: who does not know it, as bits."""
Regions = dict[tuple[Any, ...], tuple[Place, Region]]
"""The regions that were accessed, by their place relative to the counts of the rings."""
_PENDING, _RECENT = 16, 7
"""The bits of partitions come first, then for each barrier those of its pending contributions and of recent phases."""


def covers(more: Mapping[tuple[Any, ...], int], less: Mapping[tuple[Any, ...], int]) -> bool:
    """Whether everything that the second state lacks is lacking in the first, for two states with one key."""
    if len(less) > len(more):
        return False
    return all((known := more.get(fact)) is not None and not lack & ~known for fact, lack in less.items())


def replace_knowledge(order: Order, change: Callable[[int, int], int]) -> None:
    """Replaces what everybody knows: partitions, and what a wait on a barrier will tell. change: of who, and the past.

    Raises TooLongError for more recent phases of a barrier than have a bit.
    """
    for actor in order.actors:
        actor.mask = change(1 << actor.number, actor.mask)
    order.joined = change(1 << (_PENDING - 1), order.joined)
    first = 1 << _PENDING
    for barrier in order.barriers.values():
        barrier.mask = change(first, barrier.mask)
        if len(barrier.recent) > _RECENT:
            raise TooLongError(f"more than {_RECENT} phases of a barrier are unknown to a partition")
        newest = len(barrier.recent)
        barrier.recent = [
            (bit, change(first << (newest - place), past), parts)
            for place, (bit, past, parts) in enumerate(barrier.recent)
        ]
        first <<= _RECENT + 1
    for it in order.named.barriers.values():
        it.mask, it.past = change(first, it.mask), change(first << 1, it.past)
        first <<= 2
    for actor in order.actors:
        actor.committed = change(first, actor.committed)
        first <<= 1


class _Settling:
    """One walk over the state: which steps are not settled, with their new bits."""

    def __init__(
        self,
        order: Order,
        touches: Sequence[int],
        writes: Sequence[int],
        rotated: Rotated,
        rename: Callable[[Any], Any],
    ) -> None:
        self.order = order
        self.writes = writes
        self.rotated = rotated
        self.touches = touches
        self.rename = rename
        self.masks = [actor.mask for actor in order.actors]
        union = order.joined
        for mask, touched in zip(self.masks, touches, strict=True):
            union |= mask if touched >= 0 else 0
        self.union = union
        self.commons: dict[tuple[int, ...], int] = {}
        self.bits: dict[int, int] = {}
        self.facts: list[tuple[tuple[Any, ...], int]] = []
        self.regions: Regions = {}
        self.masked: dict[int, int] = {}
        self.access_of: dict[Access, tuple[Any, ...]] = {}
        self.queued = _queued(order, touches)

    def rotation(self, place: Place) -> tuple[tuple[int, ...], int]:
        """The path of a place relative to the count of its ring, and whether parities are exchanged there."""
        found = self.rotated.get(place.alloc)
        if found is None:
            return place.path, 0
        depth, base = found
        if depth == 1 or not place.path:
            return place.path, base & 1 if depth == 1 else 0
        slot = (place.path[0] - base) % depth
        return (slot, *place.path[1:]), (base + slot) // depth & 1

    def rank(self, place: Place) -> tuple[Any, ...]:
        """The order of places, from the count of their ring on."""
        return place.alloc, self.rotation(place)[0], place.box or ()

    def common(self, alloc: int, writers: bool = False) -> int:
        """What every partition knows that may still access an allocation; writers: that may still write it."""
        table = self.writes if writers else self.touches
        users = tuple(at for at, touched in enumerate(table) if touched > 0 and touched >> (alloc + 1) & 1)
        found = self.commons.get(users)
        if found is None:
            found = -1 if users else self.union
            for user in users:
                found &= self.masks[user]
            self.commons[users] = found
        return found

    def bit(self, bits: int, common: int, *fact: Any) -> int:
        """The new number of a step, or of several of which one suffices: 1 if it is settled. Notes who lacks it."""
        if bits & common:
            return 1
        made = self.renumbered(bits)
        self.facts.append((fact, made))
        return made

    def renumbered(self, bits: int) -> int:
        """The new numbers of steps."""
        made = 0
        while bits:
            low = bits & -bits
            bits ^= low
            new = self.bits.get(low)
            if new is None:
                new = self.bits[low] = 2 << len(self.bits)
            made |= new
        return made

    def all(self, bits: int, common: int, *fact: Any) -> int:
        """The new numbers of the steps, all of which are needed, that are not settled."""
        left, place, made = bits & ~common, 0, 0
        while left:
            low = left & -left
            left ^= low
            made |= self.bit(low, 0, *fact, place)
            place += 1
        return made

    def mask(self, mask: int) -> int:
        """A causal past in new numbers."""
        made = self.masked.get(mask)
        if made is None:
            made = self.masked[mask] = (mask & 1) | sum(new for old, new in self.bits.items() if mask & old)
        return made

    def barrier(self, place: int, key: Place, barrier: Barrier) -> tuple[Any, ...]:
        """Leaves out the phases that are settled."""
        common = self.common(key.alloc)
        barrier.init = self.bit(barrier.init, common, "init", place)
        known = barrier.complete
        for bit, _, parts in reversed(barrier.recent):
            if bit & common or not parts & ~common:
                break
            known -= 1
        left = barrier.complete - known
        barrier.recent = barrier.recent[len(barrier.recent) - left :] if left else []
        ago = len(barrier.recent)
        kept: list[tuple[int, int, int]] = []
        for bit, past, parts in barrier.recent:
            ago -= 1
            kept.append((self.bit(bit, common, "phase", place, ago), past, self.all(parts, common, "part", place, ago)))
        barrier.recent = kept
        barrier.parts = self.all(barrier.parts, common, "part", place, -1)
        for actor, (bit, fresh) in barrier.waits.items():
            barrier.waits[actor] = self.bit(bit, common, "wait", place, actor), fresh
        for actor, bit in barrier.touched.items():
            barrier.touched[actor] = self.bit(bit, common, "touch", place, actor)
        path, exchanged = self.rotation(key)
        return key.alloc, path, barrier.count, barrier.pending, barrier.tx, barrier.complete & 1 ^ exchanged

    def region(self, place: Place, region: Region) -> tuple[Any, ...]:
        """Leaves out the reads that are settled. Returns the number that is in the region, if it holds one."""
        common = self.common(place.alloc)
        rank, number = self.rank(place), None
        self.regions[rank] = place, region
        for issuer, write in region.writes.items():
            self.access(write, common, (rank, "write", issuer))
            number = None if write.event.number is None else self.rename(write.event.number)
        common = self.common(place.alloc, writers=True)
        region.reads = {key: read for key, read in sorted(region.reads.items()) if not self.settled(read, common)}
        for key, read in region.reads.items():
            self.access(read, common, (rank, *key))
        return () if number is None else (rank, number)

    def settled(self, access: Access, common: int) -> bool:
        """Whether no later access needs to wait for this one."""
        return bool(access.end & common) and (access.proxy or bool(access.fence & common))

    def access(self, access: Access, common: int, where: tuple[Any, ...]) -> None:
        """Notes what later accesses of the same memory depend on."""
        if self.settled(access, common):
            access.end = access.fence = 1
            return
        queue = self.queued.get(access, ())
        access.end = self.bit(access.end, common, "end", *where, access.proxy, queue)
        self.access_of[access] = where
        if not access.proxy:
            meta = (access.event.op.name, access.partition)
            access.fence = self.bit(access.fence, common, "fence", *where, *meta, "unfenced" in queue)

    def numbered(self, accesses: Sequence[Access]) -> list[Access]:
        """Those whose end or fence can still matter."""
        return [access for access in accesses if access in self.access_of]

    def all_regions(self) -> Iterator[tuple[Any, ...]]:
        """The numbers that are in memory, in the order of the places."""
        for alloc in sorted(self.order.memory.regions):
            places = self.order.memory.regions[alloc]
            for place in sorted(places, key=self.rank):
                if found := self.region(place, places[place]):
                    yield found

    def named_barriers(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The named barriers, and how far behind them partitions are that wait there."""
        named = self.order.named
        found: list[tuple[Any, ...]] = []
        for key, it in sorted(named.barriers.items()):
            it.done = self.bit(it.done, self.common(-1), "named", key.path)
            found.append((key.path, it.count, it.arrived))
        complete = {key: it.complete for key, it in named.barriers.items()}
        meeting = sorted((key, min(complete[key[1]] - it, 2)) for key, it in named.meeting.items())
        return tuple(found), tuple(meeting)

    def actor(self, actor: Actor) -> tuple[int, ...]:
        """Leaves out what is settled of the accesses in flight of a partition. Returns the lengths of its queues."""
        for queue in actor.queues():
            for group in queue:
                group[:] = self.numbered(group)
        actor.uncommitted = self.numbered(actor.uncommitted)
        actor.unfenced = [it for it in self.numbered(actor.unfenced) if not it.fence]
        actor.mmas = self.numbered(actor.mmas)
        return (actor.issued - actor.done, *(len(queue) for queue in actor.queues()))

    def knowledge(self) -> dict[int, int]:
        """By causal past, in new numbers, who has it: partitions, and what a wait on a barrier will tell.

        A phase that is settled has told everybody at most what all partitions know that may still access its barrier.
        """
        ended = sum(1 << at for at, touched in enumerate(self.touches) if touched < 0)
        knows: dict[int, int] = {}

        def renumbered(who: int, mask: int) -> int:
            made = self.mask(mask)
            knows[made] = knows.get(made, 0) | (who & ~ended)
            return made

        replace_knowledge(self.order, renumbered)
        first = 2 << _PENDING
        for key, barrier in self.order.barriers.items():
            left = len(barrier.recent)
            renumbered((first << _RECENT) - (first << left), self.common(key.alloc))
            first <<= _RECENT + 1
        return knows

    def lacks(self, knows: Mapping[int, int]) -> Lacks:
        """By fact, who lacks it."""
        found: Lacks = {}
        for fact, bits in self.facts:
            lack = 0
            for mask, who in knows.items():
                if not mask & bits:
                    lack |= who
            found[fact] = lack
        return found


def _queued(order: Order, touches: Sequence[int]) -> dict[Access, tuple[Any, ...]]:
    """Where each access is in flight, or waits for a fence: the queue, and its place from the end of it."""
    found: dict[Access, tuple[Any, ...]] = {}
    for actor, touched in zip(order.actors, touches, strict=True):
        if touched < 0:
            continue
        for name, queue in zip(("dots", "stores", "copies"), actor.queues(), strict=True):
            for place, group in enumerate(reversed(queue)):
                for access in group:
                    found[access] = (*found.get(access, ()), name, actor.number, place)
        for access in actor.uncommitted:
            found[access] = (*found.get(access, ()), "uncommitted", actor.number)
        for access in actor.unfenced:
            found[access] = (*found.get(access, ()), "unfenced")
        for access in actor.mmas:
            found[access] = (*found.get(access, ()), "mmas", actor.number)
    return found


Rotated = Mapping[int, tuple[int, int]]
"""By allocation: the depth of its ring, and the count that everything of the ring is relative to."""


@dataclass(slots=True)
class Settled:
    """What a state is. key, lacks: see above. facts: of each fact that somebody lacks, its bits."""

    key: Any = None
    lacks: Lacks = field(default_factory=Lacks)
    facts: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])
    regions: Regions = field(default_factory=Regions)
    rotated: Rotated = field(default_factory=dict[int, tuple[int, int]])

    @property
    def written(self) -> set[tuple[Any, ...]]:
        """The regions that were written."""
        return {rank for rank, (_, it) in self.regions.items() if it.writes and not it.unwritten}


def settle(
    order: Order, touches: Sequence[int], writes: Sequence[int], rotated: Rotated, rename: Callable[[Any], Any]
) -> Settled:
    """Renumbers the steps of a run in place, without those that are settled; returns what its state is.

    touches: by partition the allocations that it may still access, as bits one above their numbers; -1 if it ended.
    writes: likewise, that it may still write. rotated: the rings whose slots do not matter. rename: applied to the
    numbers that are in memory.
    """
    work = _Settling(order, touches, writes, rotated, rename)
    order.barriers = {key: order.barriers[key] for key in sorted(order.barriers, key=work.rank)}
    barriers = tuple([work.barrier(place, key, it) for place, (key, it) in enumerate(order.barriers.items())])
    regions = tuple(work.all_regions())
    named, meeting = work.named_barriers()
    actors = tuple([work.actor(it) for it, touched in zip(order.actors, touches, strict=True) if touched >= 0])
    knows = work.knowledge()
    order.history.count = len(work.bits) + 1
    order.history.bit = 1
    key = barriers, regions, named, meeting, actors, tuple(sorted(order.dead))
    return Settled(key, work.lacks(knows), dict(work.facts), work.regions, rotated)
