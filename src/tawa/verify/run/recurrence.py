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
from tawa.verify.run.memory import IN_ORDER, Access, Actor, Region, types_of
from tawa.verify.run.places import Place

Lacks = dict[tuple[Any, ...], int]
"""By fact that is not settled: who does not know it, as bits."""
Regions = dict[tuple[Any, ...], Region]
"""The regions that were written, by their place relative to the counts of the rings."""
_PENDING, _RECENT = 16, 3
"""The bits of partitions come first, then for each barrier those of its pending contributions and of recent phases."""


def covers(more: Mapping[tuple[Any, ...], int], less: Mapping[tuple[Any, ...], int]) -> bool:
    """Whether everything that the second state lacks is lacking in the first, for two states with one key."""
    if len(less) > len(more):
        return False
    return all((known := more.get(fact)) is not None and not lack & ~known for fact, lack in less.items())


def forget(order: Order, facts: Mapping[tuple[Any, ...], int], more: Lacks, lacks: Lacks) -> None:
    """Takes from everybody in a settled state what he lacks in another one (`more`), of the same facts or fewer.

    facts: the bits of each. lacks: of the state, which is changed.
    """
    barriers = list(order.barriers.values())
    for fact, lack in more.items():
        extra, gone = lack & ~lacks[fact], ~facts[fact]
        lacks[fact] |= lack
        while extra:
            who = (extra & -extra).bit_length() - 1
            extra &= extra - 1
            place, part = divmod(who - _PENDING, _RECENT + 1)
            after = place - len(barriers) - len(order.named.barriers)
            if who < _PENDING - 1:
                order.actors[who].mask &= gone
            elif who == _PENDING - 1:
                order.joined &= gone
            elif after >= 0:
                order.actors[after].committed &= gone
            elif place >= len(barriers):
                named = list(order.named.barriers.values())[place - len(barriers)]
                named.mask, named.past = (
                    (named.mask & gone, named.past) if not part else (named.mask, named.past & gone)
                )
            elif not part:
                barriers[place].mask &= gone
            else:
                recent = barriers[place].recent
                for at, (bit, past, parts) in enumerate(recent):
                    ago = len(recent) - 1 - at
                    if min(ago, _RECENT - 1) == part - 1:
                        recent[at] = bit, past & gone, parts


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
        self.written: Regions = {}
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
        made = 1
        for old, new in self.bits.items():
            if mask & old:
                made |= new
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
        write, number, rank = region.write, None, self.rank(place)
        if write is not None:
            self.access(write, common, (rank, "write", _issuer(write)))
            number = None if write.event.number is None else self.rename(write.event.number)
            if not region.unwritten:
                self.written[rank] = region
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

    def knowledge(self) -> list[tuple[int, int]]:
        """Who knows which steps, in new numbers: partitions, and what a wait on a barrier will tell."""
        order = self.order
        knows: list[tuple[int, int]] = []
        for actor, touched in zip(order.actors, self.touches, strict=True):
            actor.mask = self.mask(actor.mask)
            if touched >= 0:
                knows.append((1 << actor.number, actor.mask))
        order.joined = self.mask(order.joined)
        knows.append((1 << (_PENDING - 1), order.joined))
        for place, barrier in enumerate(order.barriers.values()):
            first = _PENDING + place * (_RECENT + 1)
            barrier.mask = self.mask(barrier.mask) if barrier.mask else 0
            knows += [(1 << first, barrier.mask)] if barrier.mask else []
            barrier.recent = [(bit, self.mask(past), parts) for bit, past, parts in barrier.recent]
            for ago, (_, past, _) in enumerate(reversed(barrier.recent)):
                knows.append((1 << (first + 1 + min(ago, _RECENT - 1)), past))
        for place, it in enumerate(order.named.barriers.values(), len(order.barriers)):
            it.mask, it.past = self.mask(it.mask) if it.mask else 0, self.mask(it.past)
            first = _PENDING + place * (_RECENT + 1)
            knows += [(1 << first, it.mask), (2 << first, it.past)]
        for place, actor in enumerate(order.actors, len(order.barriers) + len(order.named.barriers)):
            if actor.committed:
                actor.committed = self.mask(actor.committed)
                knows.append((1 << (_PENDING + place * (_RECENT + 1)), actor.committed))
        return knows

    def lacks(self, knows: Sequence[tuple[int, int]]) -> Lacks:
        """By fact, who lacks it."""
        found: Lacks = {}
        for fact, bits in self.facts:
            lack = 0
            for who, mask in knows:
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


def _issuer(access: Access) -> tuple[Any, ...]:
    """Who issued a tcgen05 operation, which his later ones follow in order, and of which types; () for other accesses.

    Whether PTX promises that order depends on the types alone, for operations that write the same memory.
    """
    return (access.partition, *types_of(access.event.op)) if access.event.kind in IN_ORDER else ()


@dataclass(slots=True)
class Settled:
    """What a state is. key, lacks, written: see above. facts: of each fact that somebody lacks, its bits."""

    key: Any = None
    lacks: Lacks = field(default_factory=Lacks)
    written: Regions = field(default_factory=Regions)
    facts: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])


Rotated = Mapping[int, tuple[int, int]]
"""By allocation: the depth of its ring, and the count that everything of the ring is relative to."""


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
    return Settled(key, work.lacks(knows), work.written, dict(work.facts))


__all__ = ["Lacks", "Settled", "covers", "forget", "settle"]
