"""mbarriers: arrivals, transaction bytes, phases (PTX ISA, "mbarrier").

A phase completes when no arrival and no byte is missing; the next begins at once. ``wait(parity)`` passes when the
phase of that parity is complete: on a fresh barrier ``wait(1)`` passes, ``wait(0)`` does not.
"""

from __future__ import annotations

from tawa.sim.errors import BarrierMisuse
from tawa.sim.machine.shared import barrier_of, barrier_place
from tawa.sim.machine.values import Barrier, SharedView


def initialise(view: SharedView, count: int) -> None:
    """Makes a barrier of `count` arrivals; raises BarrierMisuse where one lives already."""
    if barrier_of(view) is not None:
        raise BarrierMisuse(f"{view.label} is initialised twice")
    view.buffer.barriers[barrier_place(view)] = Barrier(count, count, view.label)


def invalidate(view: SharedView) -> None:
    """Ends a barrier's life; raises BarrierMisuse where none lives."""
    living(view)
    del view.buffer.barriers[barrier_place(view)]


def living(view: SharedView) -> Barrier:
    """The barrier at a view; raises BarrierMisuse where none was initialised."""
    barrier = barrier_of(view)
    if barrier is None:
        raise BarrierMisuse(f"{view.label} is used before it is initialised")
    return barrier


def arrive(barrier: Barrier, count: int, more_bytes: int = 0) -> None:
    """`count` arrivals, of which one announces `more_bytes` to come."""
    barrier.bytes += more_bytes
    barrier.pending -= count
    if barrier.pending < 0:
        raise BarrierMisuse(f"{barrier.name} gets more arrivals in one phase than its count, {barrier.count}")
    settle(barrier)


def deliver(barrier: Barrier, bytes: int) -> None:
    """Bytes of a copy have landed."""
    barrier.bytes -= bytes
    settle(barrier)


def settle(barrier: Barrier) -> None:
    """Completes the phase where nothing is missing."""
    if barrier.pending == 0 and barrier.bytes == 0:
        barrier.phase += 1
        barrier.pending = barrier.count


def passes(barrier: Barrier, parity: int) -> bool:
    """Whether a wait for the phase of `parity` goes on."""
    return barrier.phase % 2 != parity
