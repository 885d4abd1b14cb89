"""mbarriers: arrivals, transaction bytes, phases (PTX ISA, "mbarrier").

A phase completes when its pending arrivals and transaction bytes are zero; the next phase begins immediately.
``wait(parity)`` passes when the phase of that parity is complete: on a fresh barrier ``wait(1)`` passes and ``wait(0)``
blocks.
"""

from __future__ import annotations

from tawa.sim.errors import BarrierMisuse
from tawa.sim.machine.shared import barrier_of, barrier_place
from tawa.sim.machine.values import Barrier, SharedView


def initialise(view: SharedView, count: int) -> None:
    """Initialises a barrier for `count` arrivals; raises BarrierMisuse if the barrier is live."""
    if barrier_of(view) is not None:
        raise BarrierMisuse(f"{view.label} is initialised twice")
    view.buffer.barriers[barrier_place(view)] = Barrier(count, count, view.label)


def invalidate(view: SharedView) -> None:
    """Invalidates a barrier; raises BarrierMisuse if it is not initialised."""
    initialised(view)
    del view.buffer.barriers[barrier_place(view)]


def initialised(view: SharedView) -> Barrier:
    """The barrier at a view; raises BarrierMisuse if it is not initialised."""
    barrier = barrier_of(view)
    if barrier is None:
        raise BarrierMisuse(f"{view.label} is used before it is initialised")
    return barrier


def arrive(barrier: Barrier, count: int, more_bytes: int = 0) -> None:
    """Adds `count` arrivals and expects `more_bytes` more transaction bytes in this phase."""
    barrier.bytes += more_bytes
    barrier.pending -= count
    if barrier.pending < 0:
        raise BarrierMisuse(f"{barrier.name} gets more arrivals in one phase than its count, {barrier.count}")
    complete_if_done(barrier)


def deliver(barrier: Barrier, bytes: int) -> None:
    """Completes the transaction bytes of a copy."""
    barrier.bytes -= bytes
    complete_if_done(barrier)


def complete_if_done(barrier: Barrier) -> None:
    """Completes the phase if no arrival and no byte is missing."""
    if barrier.pending == 0 and barrier.bytes == 0:
        barrier.phase += 1
        barrier.pending = barrier.count


def passes(barrier: Barrier, parity: int) -> bool:
    """Whether a wait for the phase of `parity` passes."""
    return barrier.phase % 2 != parity
