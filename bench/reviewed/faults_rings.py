"""Faults of rings that show late or when a counter wraps, planted in most kernels; the trip differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.reviewed.edits import ARRIVE, COPY, EXPECT, WAIT
from bench.reviewed.kinds import Fault, Place
from bench.reviewed.rings import (
    RingOf,
    late_copies,
    late_releases,
    late_waits,
    narrow_counters,
    odd_trips,
    parities,
    very_late,
)


def ring(kernel: str, depth: int, producer: int = 1, **other: Any) -> RingOf:
    """A ring between partition 0 and a producer, in a loop over K in steps of 64."""
    usual = {
        "get": Place(WAIT), "release": Place(ARRIVE), "acquire": Place(WAIT, producer),
        "announce": Place(EXPECT, producer), "transfer": Place(COPY, producer),
        "short": {"K": 64 * 41}, "long": {"K": 64 * 310},
    }  # fmt: skip
    return RingOf(kernel, depth, **{**usual, **other})


_TRIPS: dict[str, Any] = {"announce": None, "transfer": None, "short": {"TRIPS": 41}, "long": {"TRIPS": 340}}
_SECOND: dict[str, Any] = {"get": Place(WAIT, 0, 1), "acquire": Place(WAIT, 1, 1)}

RINGS: dict[str, RingOf] = {
    it.kernel: it
    for it in (
        ring("persistent", 4),
        ring("staged", 3),
        ring("counter", 4),
        ring("split_k", 4, short={"K": 128 * 70}, long={"K": 128 * 800}),
        ring("two_loops", 3),
        ring("experts", 4, **_SECOND),
        ring("stride2", 4, **_SECOND),
        ring("converter", 4, 2, short={"K": 128 * 25}, long={"K": 128 * 140}),
        ring("peer_gemm", 3),
        ring("pairs", 3, 2),
        ring("counted", 3),
        ring("bits", 4),
        ring("rounds", 3, short={"ROUNDS": 41}, long={"ROUNDS": 340}),
        ring("scaled", 2, **_TRIPS),
        ring("pointers", 2, **_TRIPS),
    )
}
SHARED_RELEASES = ("experts", "stride2")
"""The slot of the first ring is released behind that of the second: its wait for empty covers both."""
OVER_TILES = ("persistent", "staged", "counted", "peer_gemm", "counter")
VERY_LATE = ("persistent", "bits", "pairs", "peer_gemm", "counter")


def _all() -> Iterator[Fault]:
    for number, it in enumerate(RINGS.values()):
        first, second, third = ((5, 9, 17)[(number + shift) % 3] for shift in range(3))
        found = [*late_releases(it, first), *late_waits(it, second)]
        if it.transfer is not None:
            found += late_copies(it, third)
        found += [*narrow_counters(it), *parities(it)]
        if it.kernel in VERY_LATE:
            found += very_late(it)
        if it.kernel in OVER_TILES:
            found += odd_trips(it, {"K": 64 * 5})
        covered = ("no wait for empty", "waits for empty stop")
        yield from (f for f in found if it.kernel not in SHARED_RELEASES or not f.name.startswith(covered))


FAULTS = tuple(_all())
