"""Faults of kernels with several consumers, with ping-pong, with own descriptors, and with numbers of tiles."""

from __future__ import annotations

from dataclasses import replace

from bench.reviewed.edits import ARRIVE, COPIES_ARRIVE, LOCAL_LOAD, LOCAL_STORE, STORE_WAIT, WAIT
from bench.reviewed.kinds import (
    Change,
    Fault,
    Place,
    at_trip,
    both,
    doubled,
    dropped,
    flipped,
    guarded,
    moved,
    not_trip,
)

_RELEASE = "The producer waits for both consumers, or all groups, and one release is missing: deadlock."
_READ = "The slot is read before the copy has landed."


_LONG = {"SK": 3000, "diagonal": 5000, "pid0": 0}


def _later(kernel: str, part: int, arrive: int, wait: int, n: int) -> list[Fault]:
    """One of several consumers is wrong in one iteration."""
    found = [
        Fault(kernel, f"partition {part} does not release in trip {n}", _RELEASE,
              guarded(Place(ARRIVE, part, arrive), not_trip(n))),
        Fault(kernel, f"partition {part} does not wait for full in trip {n}", _READ,
              guarded(Place(WAIT, part, wait), not_trip(n))),
        Fault(kernel, f"partition {part} has the wrong parity from trip {n} on", _READ,
              flipped(Place(WAIT, part, wait), lambda at: at.compare(at.trip(), ">=", n))),
    ]  # fmt: skip
    return [replace(it, numbers=_LONG) for it in found] if kernel != "pairs" else found


def _descriptors() -> list[Fault]:
    waits: Change = both(*(dropped(Place(WAIT, 1, 0)) for _ in range(4)))
    why = "Copies of the group before may still read the descriptor when it is written anew."
    return [
        Fault("grouped", "descriptors are made anew without waits", why, waits),
        Fault("grouped", "descriptors are made anew without the first wait", why, dropped(Place(WAIT, 1, 0))),
        Fault("grouped", "the descriptor of C is made anew without a wait",
              "The store of the group before may still read the descriptor.", dropped(Place(STORE_WAIT, 0, 0))),
    ]  # fmt: skip


def _tickets() -> list[Fault]:
    return [
        Fault("tickets", "released before the number is read", "The next number is stored before this one is read.",
              moved(Place(ARRIVE, 1), Place(LOCAL_LOAD, 1))),
        Fault("tickets", "signalled before the number is stored", "The readers read the number of an earlier round.",
              moved(Place(ARRIVE, 2), Place(LOCAL_STORE, 2))),
        Fault("tickets", "the second reader does not release", _RELEASE, dropped(Place(ARRIVE, 1))),
        Fault("tickets", "no wait for empty", "A number is overwritten before it is read.", dropped(Place(WAIT, 2))),
        Fault("tickets", "the first reader does not wait", "It reads a number that may not be there.",
              dropped(Place(WAIT, 0))),
        Fault("pointers", "signalled twice", "A phase gets twice as many arrivals as it counts.",
              doubled(Place(COPIES_ARRIVE, 1))),
    ]  # fmt: skip


FAULTS = (
    *_later("pairs", 1, 0, 0, 5),
    Fault("pairs", "partition 1 releases twice in trip 5", "Its second release is counted for the other consumer.",
          doubled(Place(ARRIVE, 1), at_trip(5))),
    *_later("attention", 1, 1, 1, 2),
    *_later("joined", 1, 1, 1, 2),
    *_later("ping_pong", 1, 3, 3, 2),
    *_later("three", 1, 1, 1, 1),
    *_descriptors(),
    *_tickets(),
)  # fmt: skip
