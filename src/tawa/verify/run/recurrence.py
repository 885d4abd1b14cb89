"""The state of a run that all continuations depend on: equal keys, equal continuations.

    full[1]: 1 arrival pending, phase 4 complete, which the producer does not know
    →  (1, 0, parity 0, one phase that is not settled), and bit 1 in the past of every partition that knows it

A completion, an access or a fence is *settled* if every partition that may still access that memory has it in its
past: no later check can fail on it. Settled facts are left out, and the others numbered anew in the order of the
memory. Of counts, only parities and differences remain. Hence the state of a correct protocol recurs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tawa.verify.run.happens_before import Barrier, Order
from tawa.verify.run.memory import Access, Region
from tawa.verify.run.places import Place


class _Settling:
    """One walk over the state: which steps are not settled, with their new bits."""

    def __init__(
        self, order: Order, touches: Sequence[int], writes: Sequence[int], turned: Turned, rename: Callable[[Any], Any]
    ) -> None:
        self.order = order
        self.writes = writes
        self.turned = turned
        self.touches = touches
        self.rename = rename
        self.masks = [actor.mask for actor in order.actors]
        union = order.joined
        for mask, touched in zip(self.masks, touches, strict=True):
            union |= mask if touched >= 0 else 0
        self.union = union
        self.commons: dict[tuple[int, ...], int] = {}
        self.bits: dict[int, int] = {}
        self.numbers: dict[Access, int] = {}

    def turn(self, place: Place) -> tuple[tuple[int, ...], int]:
        """The path of a place relative to the count of its ring, and whether parities are exchanged there."""
        found = self.turned.get(place.alloc)
        if found is None:
            return place.path, 0
        depth, base = found
        if depth == 1 or not place.path:
            return place.path, base & 1 if depth == 1 else 0
        slot = (place.path[0] - base) % depth
        return (slot, *place.path[1:]), (base + slot) // depth & 1

    def rank(self, place: Place) -> tuple[Any, ...]:
        """The order of places, from the count of their ring on."""
        return place.alloc, self.turn(place)[0], place.box or ()

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

    def bit(self, bits: int, common: int) -> int:
        """The new number of a step, or of several of which one suffices: 1 if it is settled, 0 if there is none."""
        if bits & common:
            return 1
        made = 0
        while bits:
            low = bits & -bits
            bits ^= low
            new = self.bits.get(low)
            if new is None:
                new = self.bits[low] = 2 << len(self.bits)
            made |= new
        return made

    def all(self, bits: int, common: int) -> int:
        """The new numbers of the steps, all of which are needed, that are not settled."""
        return self.bit(bits & ~common, 0)

    def mask(self, mask: int) -> int:
        """A causal past in new numbers."""
        made = 1
        for old, new in self.bits.items():
            if mask & old:
                made |= new
        return made

    def barrier(self, key: Place, barrier: Barrier) -> tuple[Any, ...]:
        """Leaves out the phases that are settled."""
        common = self.common(key.alloc)
        barrier.init = self.bit(barrier.init, common)
        known = barrier.complete
        for bit, _, parts in reversed(barrier.recent):
            if bit & common or not parts & ~common:
                break
            known -= 1
        left = barrier.complete - known
        barrier.recent = barrier.recent[len(barrier.recent) - left :] if left else []
        barrier.recent = [(self.bit(bit, common), past, self.all(parts, common)) for bit, past, parts in barrier.recent]
        barrier.parts = self.all(barrier.parts, common)
        for actor, (bit, fresh) in barrier.waits.items():
            barrier.waits[actor] = self.bit(bit, common), fresh
        for actor, bit in barrier.touched.items():
            barrier.touched[actor] = self.bit(bit, common)
        path, exchanged = self.turn(key)
        return (
            key.alloc,
            path,
            barrier.init,
            barrier.count,
            barrier.pending,
            barrier.tx,
            barrier.complete & 1 ^ exchanged,
            tuple((bit, parts) for bit, _, parts in barrier.recent),
            barrier.parts,
            tuple(sorted(barrier.waits.items())),
            tuple(sorted(barrier.touched.items())),
        )

    def region(self, place: Place, region: Region) -> tuple[Any, ...]:
        """Leaves out the reads that are settled."""
        common = self.common(place.alloc)
        write, found = region.write, None
        if write is not None:
            found = self.access(write, common)
            number = write.event.number
            if number is not None:
                found = (*found, self.rename(number))
        common = self.common(place.alloc, writers=True)
        reads = {key: read for key, read in sorted(region.reads.items()) if not self.settled(read, common)}
        region.reads = reads
        return self.rank(place), found, tuple((key, *self.access(read, common)) for key, read in reads.items())

    def settled(self, access: Access, common: int) -> bool:
        """Whether no later access needs to wait for this one."""
        return bool(access.end & common) and (access.proxy or bool(access.fence & common))

    def access(self, access: Access, common: int) -> tuple[Any, ...]:
        """What later accesses of the same memory depend on."""
        if self.settled(access, common):
            access.end = access.fence = 1
            return (1, 1)
        access.end = self.bit(access.end, common)
        self.numbers[access] = len(self.numbers)
        if access.proxy:
            return access.end, 1
        access.fence = self.bit(access.fence, common)
        return access.end, access.fence, access.event.op.name, access.partition

    def numbered(self, accesses: Sequence[Access]) -> list[Access]:
        """Those whose end or fence can still matter."""
        return [access for access in accesses if access in self.numbers]


Turned = Mapping[int, tuple[int, int]]
"""By allocation: the depth of its ring, and the count that everything of the ring is relative to."""


def settle(
    order: Order, touches: Sequence[int], writes: Sequence[int], turned: Turned, rename: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """Renumbers the steps of a run in place, without those that are settled; returns the key of its state.

    touches: by partition the allocations that it may still access, as bits one above their numbers; -1 if it ended.
    writes: likewise, that it may still write. turned: the rings whose slots do not matter. rename: applied to the numbers that are in memory.
    """
    work = _Settling(order, touches, writes, turned, rename)
    order.barriers = {key: order.barriers[key] for key in sorted(order.barriers, key=work.rank)}
    barriers = [work.barrier(key, barrier) for key, barrier in order.barriers.items()]
    regions: list[Any] = []
    for alloc in sorted(order.memory.regions):
        places = order.memory.regions[alloc]
        regions += [work.region(place, places[place]) for place in sorted(places, key=work.rank)]
    named: list[Any] = []
    for key, it in sorted(order.named.barriers.items()):
        it.done = work.bit(it.done, work.common(-1))
        named.append((key.path, it.count, it.arrived, it.done))
    meeting = sorted(
        (key, min(order.named.barriers[key[1]].complete - it, 2)) for key, it in order.named.meeting.items()
    )
    actors: list[Any] = []
    for actor, touched in zip(order.actors, touches, strict=True):
        if touched < 0:
            continue
        for queue in actor.queues():
            for group in queue:
                group[:] = work.numbered(group)
        actor.uncommitted = work.numbered(actor.uncommitted)
        actor.unfenced = [it for it in work.numbered(actor.unfenced) if not it.fence]
        numbers: Mapping[Access, int] = work.numbers
        actors.append(
            (
                actor.issued - actor.done,
                *(tuple(tuple(numbers[it] for it in group) for group in queue) for queue in actor.queues()),
                tuple(numbers[it] for it in actor.uncommitted),
                tuple(numbers[it] for it in actor.unfenced),
            )
        )
    masks: list[int] = []
    for actor, touched in zip(order.actors, touches, strict=True):
        actor.mask = work.mask(actor.mask)
        masks.append(actor.mask if touched >= 0 else 0)
    order.joined = work.mask(order.joined)
    masks.append(order.joined)
    for barrier in order.barriers.values():
        barrier.mask = work.mask(barrier.mask) if barrier.mask else 0
        barrier.recent = [(bit, work.mask(past), parts) for bit, past, parts in barrier.recent]
        masks += [barrier.mask, *(past for _, past, _ in barrier.recent)]
    for it in order.named.barriers.values():
        it.mask, it.past = work.mask(it.mask) if it.mask else 0, work.mask(it.past)
        masks += [it.mask, it.past]
    order.history.count = len(work.bits) + 1
    order.history.bit = 1
    dead = tuple(sorted(order.dead))
    return tuple(barriers), tuple(regions), tuple(named), tuple(meeting), tuple(actors), tuple(masks), dead


__all__ = ["settle"]
