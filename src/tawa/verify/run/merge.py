"""The merge of two states with one key: a state that stands for the runs of both.

    P knows that the dot has read a[0], and      P does not know that          P knows of neither
    b[0] was not written                         the dot has read b[0]    →

A fact that is settled in one of them, or is none there, is added to it. Then every fact gets a step of its own, which
whoever knows it in both has in his past. Whether the result covers both is left to the caller, who finds its state
anew: a fact that is not added in the right way only means that the states stay apart.
"""

from __future__ import annotations

from typing import Any, cast

from tawa.verify.run.happens_before import Barrier, Order
from tawa.verify.run.memory import Access, Region
from tawa.verify.run.places import Place
from tawa.verify.run.recurrence import Settled, replace_knowledge

_Fact = tuple[Any, ...]


def merge(order: Order, one: Settled, other_order: Order, other: Settled) -> None:
    """Changes a settled state so that it covers another one, too. one, other: what the states are."""
    written = one.written & other.written
    barriers = list(order.barriers.values())
    for barrier, theirs in zip(barriers, other_order.barriers.values(), strict=True):
        missing = theirs.recent[: max(len(theirs.recent) - len(barrier.recent), 0)]
        barrier.recent = [(bit, past, 0) for bit, past, _ in missing + barrier.recent]
        barrier.complete += 2 * len(missing)  # only its parity matters, and that its recent phases are complete
        barrier.parts = 0
        barrier.waits = theirs.waits | barrier.waits
    facts = {**other.facts, **one.facts}
    in_flight = {fact for it in (one, other) for fact, bits in it.facts.items() if not bits}
    bits = {fact: 0 if fact in in_flight else 2 << number for number, fact in enumerate(facts)}
    for fact, bit in bits.items():
        if fact[0] == "end":
            _access(order, one, other, fact).end = bit
        elif fact[0] == "fence":
            _access(order, one, other, fact).fence = bit
        elif fact[0] == "named":
            next(it for key, it in order.named.barriers.items() if key.path == fact[1]).done = bit
        else:
            _set_step(barriers[cast(int, fact[1])], fact, bit)
    lacks = [(bit, one.lacks.get(fact, 0) | other.lacks.get(fact, 0)) for fact, bit in bits.items()]
    replace_knowledge(order, lambda who, _: 1 | sum(bit for bit, lack in lacks if not lack & who))
    order.history.count = len(facts) + 1
    for rank, (_, region) in one.regions.items():
        region.unwritten |= bool(region.writes) and rank not in written


def _set_step(barrier: Barrier, fact: _Fact, bit: int) -> None:
    """Sets the step that a fact about a barrier is about."""
    kind, which = fact[0], cast(int, fact[2]) if len(fact) > 2 else 0
    newest = len(barrier.recent) - 1
    if kind == "init":
        barrier.init = bit
    elif kind == "phase":
        barrier.recent[newest - which] = bit, *barrier.recent[newest - which][1:]
    elif kind == "part" and which < 0:
        barrier.parts |= bit
    elif kind == "part":
        completed, past, parts = barrier.recent[newest - which]
        barrier.recent[newest - which] = completed, past, parts | bit
    elif kind == "wait":
        barrier.waits[which] = bit, barrier.waits[which][1]
    else:
        barrier.touched[which] = bit


def _access(order: Order, one: Settled, other: Settled, fact: _Fact) -> Access:
    """The access that a fact is about: of the first state, or of the other if it is settled or was not made there."""
    rank = cast(_Fact, fact[1])
    if rank not in one.regions:
        alloc, path, box = rank
        depth, base = one.rotated.get(alloc, (1, 0))
        slots = ((path[0] + base) % depth, *path[1:]) if depth > 1 and path else path
        place = Place(alloc, slots, box or None)
        one.regions[rank] = place, order.memory.regions.setdefault(alloc, {}).setdefault(place, Region())
    region, theirs = one.regions[rank][1], other.regions.get(rank, (None, Region()))[1]
    is_write = fact[2] == "write"
    mine, source = (region.writes, theirs.writes) if is_write else (region.reads, theirs.reads)
    key = fact[3] if is_write else fact[2:4]
    access = mine.get(key)
    if access is None or (fact not in one.facts and access.end == 1 and (access.proxy or access.fence == 1)):
        access = mine[key] = source[key].copy()
        access.end = access.fence = 1
        if (fact[0], fact[-1]) == ("fence", True):
            order.actors[access.partition].unfenced.append(access)
    return access
