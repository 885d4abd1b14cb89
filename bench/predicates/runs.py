"""Whether a run of a program is right: by the numbers of arrivals, and step by step.

`faulty` counts, for many iterations at once, the releases of each item. The copy of item j + D waits until item j is
released, once: a run is faulty if an item whose slot is filled again is released never or twice. `stuck` is independent
of it: it makes the run step by step, with barriers that have phases, once with a producer that runs ahead and once with
a consumer that runs ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.predicates.programs import COUNT, IN_MEMORY, INNER, LOADED, OUTER, Loop, Program
from bench.predicates.terms import Number, Term

LONGEST = 50_000
"""The largest number of iterations of a run that is made."""
Vector = Mapping[str, int]
"""The numbers of a launch by name: arguments, program, number of programs, number in memory."""


@dataclass(frozen=True, slots=True)
class Run:
    """The iterations of a launch: their numbers, each as an array or as one number; how many each tile has.

    scalars: the numbers that are known before the loops. tiles: the numbers of the tiles.
    """

    scalars: Mapping[str, int]
    tiles: Any
    trips: Any
    items: Mapping[str, Number]
    total: int


def run_of(program: Program, vector: Vector) -> Run | None:
    """The iterations of a launch; None if there are more than `LONGEST`."""
    scalars = scalars_of(program, vector)
    tiles = np.zeros(1, np.int64)
    if program.outer is not None:
        lower, upper, step = (int(it.value(scalars)) for it in program.outer.terms)
        if _trips(lower, upper, step) > LONGEST:
            return None
        tiles = np.arange(lower, upper, step, dtype=np.int64)
    outside = {**scalars, OUTER: tiles}
    lower, upper, step = (_all(it.value(outside), tiles) for it in program.inner.terms)
    trips = np.maximum(0, -((lower - upper) // step))
    total = int(trips.sum())
    if total > LONGEST:
        return None
    first = np.cumsum(trips) - trips
    count = np.arange(total, dtype=np.int64)
    place = count - np.repeat(first, trips)
    inner = np.repeat(lower, trips) + place * np.repeat(step, trips)
    return Run(scalars, tiles, trips, {**scalars, COUNT: count, INNER: inner, OUTER: np.repeat(tiles, trips)}, total)


def scalars_of(program: Program, vector: Vector) -> dict[str, int]:
    """The numbers that are known before the loops."""
    scalars = dict(vector)
    memory, load = scalars.pop(IN_MEMORY, 0), program.load
    if load is not None:
        masked = load.mask is not None and not load.mask.value(scalars)
        scalars[LOADED] = load.other if masked else memory
    return scalars


def faulty(program: Program, run: Run) -> bool:
    """Whether the run deadlocks or overruns."""
    depth, total = program.depth, run.total
    if total < depth:
        return False
    released = np.zeros(total + 1, np.int64)  # of items -1, 0, …
    where = sum(_all(it.value(run.items), run.items[COUNT]) for it in program.releases)
    if not program.late:
        released[1:] += where
    else:
        released[:-1] += where
        if program.tail is not None:
            holds = _all(program.tail.value({**run.scalars, OUTER: run.tiles}), run.tiles)
            np.add.at(released, np.cumsum(run.trips), holds)
    wanted = np.ones(total + 1, np.int64)
    wanted[0] = 0
    return bool((released != wanted)[: total - depth + 1].any())


def _all(value: Number, like: Any) -> Any:
    return np.broadcast_to(np.asarray(value, dtype=np.int64), like.shape)


def _trips(lower: int, upper: int, step: int) -> int:
    return max(0, -((lower - upper) // step))


# --- step by step -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Barriers:
    """The ring: how often each barrier has completed a phase, the item in each slot, and the last item read."""

    depth: int
    full: list[int] = field(default_factory=list[int])
    empty: list[int] = field(default_factory=list[int])
    holds: list[int] = field(default_factory=list[int])
    read: list[int] = field(default_factory=list[int])
    wrong: str = ""

    def __post_init__(self) -> None:
        self.full, self.empty = [0] * self.depth, [0] * self.depth
        self.holds, self.read = [-1] * self.depth, [-1] * self.depth


_Wait = tuple[list[int], int, int]
"""What a partition waits for: an array of barriers, a slot, and a parity. No array: nothing."""


def stuck(program: Program, vector: Vector) -> str:
    """What is wrong with the run that is made step by step; empty if nothing is."""
    for ahead in ("producer", "consumer"):
        ring = _Barriers(program.depth)
        found = _meet(ring, _producer(program, vector, ring), _consumer(program, vector, ring), ahead)
        if found:
            return f"{found}, with a {ahead} that runs ahead"
    return ""


def _meet(ring: _Barriers, producer: Iterator[_Wait], consumer: Iterator[_Wait], ahead: str) -> str:
    """Steps the partition that runs ahead as long as it can, and the other one otherwise."""
    order = (producer, consumer) if ahead == "producer" else (consumer, producer)
    waiting: list[_Wait | None] = [next(it, None) for it in order]
    while not ring.wrong:
        for place, wait in enumerate(waiting):
            if wait is not None and _passes(wait):
                waiting[place] = next(order[place], None)
                break
        else:
            return "" if waiting == [None, None] else "deadlock"
    return ring.wrong


def _passes(wait: _Wait) -> bool:
    barriers, slot, parity = wait
    return not barriers or barriers[slot] & 1 != parity


def _iterations(program: Program, vector: Vector) -> Iterator[tuple[dict[str, int], bool]]:
    """The numbers of each iteration; and of each end of a tile, with True."""
    scalars = scalars_of(program, vector)
    count = 0
    for tile in _range(program.outer, scalars) if program.outer else (0,):
        outside = {**scalars, OUTER: tile}
        for inner in _range(program.inner, outside):
            yield {**outside, COUNT: count, INNER: inner}, False
            count += 1
        yield {**outside, COUNT: count}, True


def _range(loop: Loop, numbers: Mapping[str, int]) -> range:
    return range(*(int(it.value(numbers)) for it in loop.terms))


def _producer(program: Program, vector: Vector, ring: _Barriers) -> Iterator[_Wait]:
    slot = parity = 0
    for numbers, behind in _iterations(program, vector):
        if behind:
            continue
        yield ring.empty, slot, parity ^ 1
        if ring.holds[slot] != ring.read[slot]:
            ring.wrong = "a slot is filled before it is read"
        ring.holds[slot] = numbers[COUNT]
        ring.full[slot] += 1
        yield [], 0, 0
        slot, parity = (0, parity ^ 1) if slot + 1 == ring.depth else (slot + 1, parity)


def _consumer(program: Program, vector: Vector, ring: _Barriers) -> Iterator[_Wait]:
    slot = parity = 0
    for numbers, behind in _iterations(program, vector):
        before = (numbers[COUNT] + ring.depth - 1) % ring.depth
        if behind:
            if _holds(program.tail, numbers):
                ring.empty[before] += 1
                yield [], 0, 0
            continue
        yield ring.full, slot, parity
        if ring.holds[slot] != numbers[COUNT]:
            ring.wrong = "a slot is read before it is filled"
        ring.read[slot] = numbers[COUNT]
        yield [], 0, 0
        for release in program.releases:
            if _holds(release, numbers):
                ring.empty[before if program.late else slot] += 1
                yield [], 0, 0
        slot, parity = (0, parity ^ 1) if slot + 1 == ring.depth else (slot + 1, parity)


def _holds(predicate: Term | None, numbers: Mapping[str, int]) -> bool:
    return predicate is not None and bool(predicate.value(numbers))
