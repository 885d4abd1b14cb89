"""Named barriers: ``bar.sync``, ``bar.arrive`` (PTX ISA, "bar, barrier").

A rendezvous is complete when as many threads have arrived as its instructions name; the next one begins immediately.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.sim.errors import BarrierMisuse


@dataclass(slots=True, eq=False)
class NamedBarrier:
    """The barrier with this number. count, arrived: threads of the current rendezvous. rounds: those complete."""

    number: int
    count: int = 0
    arrived: int = 0
    rounds: int = 0

    def arrive(self, threads: int, count: int) -> int:
        """Adds threads that name `count`; returns the number of their rendezvous. Raises BarrierMisuse."""
        if self.arrived and count != self.count:
            raise BarrierMisuse(f"threads meet at named barrier {self.number} for {self.count} and for {count} threads")
        self.count, self.arrived, own = count, self.arrived + threads, self.rounds
        if self.arrived > count:
            raise BarrierMisuse(f"{self.arrived} threads arrive at named barrier {self.number}, which is for {count}")
        if self.arrived == count:
            self.arrived, self.rounds = 0, own + 1
        return own
