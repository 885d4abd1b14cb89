"""Faults of one ring that show late, or only for some numbers: the same list for each kernel, at places of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.reviewed.edits import At
from bench.reviewed.kinds import (
    Change,
    Fault,
    Place,
    at_trip,
    before_trip,
    below_counter,
    bytes_at,
    doubled,
    flipped,
    guarded,
    not_last_of_odd,
    not_trip,
    operand,
    slot,
)
from tawa.ir import Value


@dataclass(frozen=True, slots=True)
class RingOf:
    """Where a kernel uses a ring. short: numbers of a run with more than 18 trips. long: of one with more than 320.

    get, release: of a consumer. acquire, announce, transfer: of the producer; without TMA, only the first.
    """

    kernel: str
    depth: int
    get: Place
    release: Place
    acquire: Place
    announce: Place | None
    transfer: Place | None
    short: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    long: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def fault(self, name: str, why: str, change: Change, long: bool = False) -> Fault:
        """One fault of it."""
        return Fault(self.kernel, name, why, change, self.long if long else self.short)


def late_releases(it: RingOf, n: int) -> Iterator[Fault]:
    """The consumer releases wrongly in one iteration."""
    yield it.fault(
        f"no release in trip {n}",
        "The producer waits for that release when it comes to the slot again: deadlock.",
        guarded(it.release, not_trip(n)),
    )
    yield it.fault(
        f"two releases in trip {n}",
        "The second arrival counts for the next phase, or for the other consumer's: the slot is filled too early.",
        doubled(it.release, at_trip(n)),
    )
    yield it.fault(
        f"the next slot is released in trip {n}",
        "One slot is never released and another one twice: a race and then a deadlock.",
        slot(it.release, 0, it.depth, at_trip(n)),
    )


def late_waits(it: RingOf, n: int) -> Iterator[Fault]:
    """A wait is wrong in one iteration."""
    yield it.fault(
        f"no wait for full in trip {n}",
        "The dot of that iteration reads the slot while the copy still writes it.",
        guarded(it.get, not_trip(n)),
    )
    yield it.fault(
        f"no wait for empty in trip {n}",
        "The copy of that iteration overwrites a slot that a consumer may still read.",
        guarded(it.acquire, not_trip(n)),
    )
    yield it.fault(
        f"the consumer's parity is wrong from trip {n} on",
        "A wait for the other parity is over at once, before the copy has landed.",
        flipped(it.get, lambda at: at.compare(at.trip(), ">=", n)),
    )
    yield it.fault(
        f"the producer's parity is wrong in trip {n}",
        "The wait is over while the slot is in use, or waits for a phase that never completes.",
        flipped(it.acquire, at_trip(n)),
    )


def late_copies(it: RingOf, n: int) -> Iterator[Fault]:
    """The producer's copy is wrong in one iteration."""
    assert it.announce is not None and it.transfer is not None
    yield it.fault(
        f"16 bytes more in trip {n}",
        "The phase of that slot never completes, as fewer bytes land than were announced.",
        bytes_at(it.announce, lambda size: size + 16, at_trip(n)),
    )
    yield it.fault(
        f"half of the bytes in trip {n}",
        "The phase completes before all bytes have landed, or never, as the count of bytes does not end at zero.",
        bytes_at(it.announce, lambda size: size // 2, at_trip(n)),
    )
    yield it.fault(
        f"no copy in trip {n}",
        "The announced bytes never land, so the consumer waits forever.",
        guarded(it.transfer, not_trip(n)),
    )
    yield it.fault(
        f"a copy to the next slot in trip {n}",
        "The copy writes a slot that it did not wait for.",
        slot(it.transfer, -2, it.depth, at_trip(n)),
    )
    yield it.fault(
        f"a copy signals the next slot in trip {n}",
        "Its bytes are missing at one mbarrier and too many at another.",
        slot(it.transfer, -3, it.depth, at_trip(n)),
    )


def narrow_counters(it: RingOf) -> Iterator[Fault]:
    """A counter of eight or sixteen bits wraps."""
    yield it.fault(
        "releases stop when a counter of 8 bits wraps",
        "The counter is negative in trips 128 to 255: no slot is released there, and the producer waits forever.",
        guarded(it.release, below_counter("i8")),
        long=True,
    )
    yield it.fault(
        "waits for full stop when a counter of 8 bits wraps",
        "The counter is negative in trips 128 to 255: dots read slots there that are not full.",
        guarded(it.get, below_counter("i8")),
        long=True,
    )
    yield it.fault(
        "waits for empty stop when a counter of 16 bits wraps",
        "The counter starts at 32756 and is negative from trip 12 on: copies overwrite slots that are read.",
        guarded(it.acquire, below_counter("i16", 32756)),
    )


def parities(it: RingOf) -> Iterator[Fault]:
    """The last iteration, or an odd number of them."""

    def eight_bits(at: At, parity: Value) -> Value:
        """The parity of slot and round from a counter of eight bits."""
        count = at.carried(0, lambda end, value: end.make("+", value, 1), "i8")
        wide = at.cast(count, "extui", "i32")
        return at.make("&", at.make("//", wide, it.depth), 1)

    if it.depth in (3, 5, 6, 7):
        yield it.fault(
            "the consumer's parity comes from a counter of 8 bits",
            f"256 is no multiple of {2 * it.depth}: the parity is wrong behind trip 255.",
            operand(it.get, 1, eight_bits),
            long=True,
        )
    yield it.fault(
        "releases only in the first 17 trips",
        "The producer fills the slots once more and waits for the next release forever.",
        guarded(it.release, before_trip(17)),
    )


def odd_trips(it: RingOf, numbers: Mapping[str, Any], outer: int = 0) -> Iterator[Fault]:
    """In loops over tiles: the last iteration of a tile with an odd number of iterations."""
    yield Fault(
        it.kernel,
        "no release in the last trip of an odd number",
        "The slot stays full when the next tile comes to it: deadlock, only if the number of trips is odd.",
        guarded(it.release, not_last_of_odd(outer)),
        numbers,
    )
    yield Fault(
        it.kernel,
        "no wait for full in the last trip of an odd number",
        "The last dot of a tile reads a slot whose copy may not have landed, only if the number of trips is odd.",
        guarded(it.get, not_last_of_odd(outer)),
        numbers,
    )


def very_late(it: RingOf) -> Iterator[Fault]:
    """Wrong in one iteration behind three hundred others."""
    yield it.fault(
        "no release in trip 300",
        "The producer waits for that release when it comes to the slot again: deadlock.",
        guarded(it.release, not_trip(300)),
        long=True,
    )
    yield it.fault(
        "no wait for full in trip 300",
        "The dot of that iteration reads the slot while the copy still writes it.",
        guarded(it.get, not_trip(300)),
        long=True,
    )
